"""Liveness of a worker, by its lock."""

import threading

import pytest

from eventstore.log.ledger import Ledger
from telemetry.supervision import supervision
from tests.support.databases import Admin
from tests.support.running import wait_for
from workers.liveness import Liveness


@pytest.fixture(autouse=True)
def checks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.liveness.CHECK_S", 0.1)


def test_a_worker_that_lost_its_connection_comes_back_as_another(ledger: Ledger, admin: Admin) -> None:
    """Its imports count as abandoned at once, and not only when their lease ends."""
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    before = liveness.worker()
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = %s",
        (before,),
    )
    wait_for(lambda: liveness.worker() != before, "it has another id")
    held = admin.execute(
        "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = ANY(%s)",
        ([before, liveness.worker()],),
    ).fetchall()
    assert held == [(liveness.worker(),)]
    liveness.stop()


def test_a_worker_whose_lock_cannot_be_taken_has_no_id(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error releases the lock: other workers process its imports, so it must stop."""
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    before = liveness.worker()
    monkeypatch.setattr("workers.liveness.locks.WORKERS", "no number")
    with ledger.connection() as connection:
        held = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = %s"
        [row] = connection.execute(held, (before,)).fetchall()
        connection.execute("SELECT pg_terminate_backend(%s)", (row["pid"],))
    wait_for(lambda: any(not trouble.is_waiting for trouble in supervision.troubles()), "it is named")
    assert not liveness._held.is_set()
    monkeypatch.undo()
    wait_for(lambda: liveness._held.is_set() and liveness.worker() != before, "it has another id")
    liveness.stop()
