"""Workers that wake late neither replace nor end a payload that was staged meanwhile.

Worker 7 hangs while it looks for documents. Its import is released, the importer sends another payload, and worker 8
starts it; then worker 7 wakes.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventstore.aggregates.import_process import ImportStarted, PostponeImport, StartImport
from eventstore.aggregates.supplier import ConfigureSupplier, CreateSupplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.clocks import another_clock
from tests.support.make import an_account, changed
from tests.support.messages import queued
from tests.support.staging import SUPPLIER, stage, status
from workers.actors import references
from workers.actors.process_imports import ImportProcessor
from workers.actors.starting import Starter
from workers.broker import IMPORTS, BrokerDispatcher, in_process_broker
from workers.followers.relay import Relay
from workers.liveness import Liveness

FIRST = changed(an_account(SUPPLIER), "FIRST", "sales_channel")
SECOND = changed(an_account(SUPPLIER), "SECOND", "sales_channel")


class Hanging:
    """Document store whose first call blocks until `goes_on` is set, and then returns `missing`."""

    def __init__(self) -> None:
        self.is_asked, self.goes_on = threading.Event(), threading.Event()
        self.missing: set[str] = set()
        self._is_first = True

    def __call__(self, root: str, paths: list[str], **limits: float) -> set[str]:
        if not self._is_first:
            return set()
        self._is_first = False
        self.is_asked.set()
        assert self.goes_on.wait(60)
        return self.missing & set(paths) if self.missing != {"*"} else set(paths)


@pytest.fixture
def hanging(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hanging:
    store = Hanging()
    monkeypatch.setattr(references, "missing_documents", store)
    settings = ConfigureSupplier(documents_root=tmp_path.as_uri(), documents_check="require")
    for command in (CreateSupplier(), settings):
        ledger.execute(f"supplier/{SUPPLIER}", command, at=now(), by="t")
    return store


def wake_late(ledger: Ledger, hanging: Hanging, processor: ImportProcessor, meanwhile: Callable[[str], Any]) -> str:
    """Let worker 7 hang, stage something else, start it as worker 8, let worker 7 continue; return the stream."""
    [stream] = {recorded.stream for recorded in ledger.history(f"import/{SUPPLIER}/{FIRST['external_account_number']}")}
    late = threading.Thread(target=processor.process, args=([stream],))
    late.start()
    assert hanging.is_asked.wait(60)
    start = ledger.load([stream])[stream].state.start
    given_back = PostponeImport(start=start, code="lease_expired", due_at=now() - timedelta(minutes=1))
    ledger.execute(stream, given_back, at=now(), by="sweeper")
    meanwhile(stream)
    take_up = StartImport(worker=8, lease_until=now() + timedelta(minutes=1), max_attempts=5)
    started = ledger.execute(stream, take_up, at=now(), by="worker:8")
    assert started is not None
    assert isinstance(started.event, ImportStarted)
    assert started.event.attempt == 1, "as that of worker 7"
    hanging.goes_on.set()
    late.join(60)
    assert not late.is_alive()
    return stream


def finish(ledger: Ledger, stream: str, processor: ImportProcessor) -> None:
    """Postpone the import of worker 8, and process it."""
    start = ledger.load([stream])[stream].state.start
    given_back = PostponeImport(start=start, code="worker_lost", due_at=now() - timedelta(minutes=1))
    ledger.execute(stream, given_back, at=now(), by="sweeper")
    processor.process([stream])


def channels(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute("SELECT sales_channel FROM platform.service_account").fetchall()
    return [row["sales_channel"] for row in rows]


@pytest.mark.promise("worker-wakes-late-ends")
@pytest.mark.parametrize(
    ("is_dry_run", "second", "missing"),
    [(False, SECOND, set()), (True, FIRST, set()), (False, SECOND, {"*"})],
    ids=["another content", "a creation after a dry run", "a document of the first content is missing"],
)
def test_a_worker_that_wakes_late_does_not_end_what_was_staged_meanwhile(
    ledger: Ledger,
    hanging: Hanging,
    processor: ImportProcessor,
    connection: psycopg.Connection[Any],
    is_dry_run: bool,
    second: Any,
    missing: set[str],
) -> None:
    hanging.missing = missing
    stage(ledger, FIRST, is_dry_run=is_dry_run)
    stream = wake_late(ledger, hanging, processor, lambda _: stage(ledger, second))
    assert status(ledger, stream) == "IN_PROGRESS"
    assert channels(connection) == []
    finish(ledger, stream, processor)
    assert status(ledger, stream) == "PROCESSED"
    assert channels(connection) == [second["sales_channel"]]


@pytest.mark.promise("times-rise-positions-leases")
def test_leases_are_judged_by_the_clock_of_the_database(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    """A relay whose clock is 90 seconds ahead postpones nothing. A worker's own clock does not set leases."""
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    starter = Starter(ledger, liveness.worker)
    stream = stage(ledger, FIRST)
    broker = in_process_broker()
    try:
        with another_clock(timedelta(seconds=-3_600)):
            [started] = starter.start([stream], ledger.try_load([stream]))
        with another_clock(timedelta(seconds=90)):
            relay = Relay(ledger, BrokerDispatcher(broker))
            relay._sweeper.sweep(connection, relayed=2)
            relay._enqueue(IMPORTS, 0)
    finally:
        liveness.stop()
    assert started.process.start == 2
    assert status(ledger, stream) == "IN_PROGRESS"
    assert queued(broker) == []


def test_two_threads_of_a_worker_never_have_the_same_lease(ledger: Ledger) -> None:
    """By the end of the lease, a worker finds the imports of a start whose answer was lost."""
    at = ledger.time()
    starter = Starter(ledger, lambda: 7)
    ends = [starter._lease_from(at) for _ in range(3)]
    assert ends == sorted(set(ends))
