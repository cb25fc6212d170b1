"""A worker is known by its lock."""

import threading

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from tests.support.running import wait_for
from workers.liveness import Liveness


def test_a_worker_that_lost_its_connection_comes_back_as_another(ledger: Ledger, database: PostgresUrls) -> None:
    """What it had in hand is seen to be abandoned at once, and not only when the lease ends."""
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    before = liveness.worker()
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = %s",
            (before,),
        )
        wait_for(lambda: liveness.worker() != before, "it has another id")
        held = connection.execute(
            "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = ANY(%s)",
            ([before, liveness.worker()],),
        ).fetchall()
    assert held == [(liveness.worker(),)]
    liveness.stop()
