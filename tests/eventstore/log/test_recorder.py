"""The recorder fulfils the library's contract and holds no lock after its transaction."""

import threading
from typing import Any

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of
from eventstore.log.ledger import Ledger
from eventstore.log.recorder import LedgerDatastore, LedgerRecorder
from tests.support.make import NOON, stage

STREAM = stream_of("NORDWIND", "NW/1 ä")


def test_the_recorder_keeps_the_librarys_contract(ledger: Ledger, database: PostgresUrls) -> None:
    from eventsourcing.persistence import IntegrityError, StoredEvent

    datastore = LedgerDatastore(database.service, connections=2)
    recorder = LedgerRecorder(datastore)
    assert recorder.max_notification_id() is None
    events = [StoredEvent(STREAM, version, "import_staged.v1", b"{}") for version in (1, 2)]
    assert list(recorder.insert_events(events) or ()) == [1, 2]
    with pytest.raises(IntegrityError):
        recorder.insert_events(events[1:])
    assert recorder.select_events(STREAM) == events
    assert [n.id for n in recorder.select_notifications(start=1, limit=10)] == [1, 2]
    assert recorder.max_notification_id() == 2
    datastore.close()


def test_a_writer_that_stops_after_its_append_keeps_no_lock(
    ledger: Ledger, owner: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stops after the append: the commit was sent with it, and other writers continue."""
    appended, go_on = threading.Event(), threading.Event()
    append = LedgerRecorder.append

    def and_stop(*arguments: Any, **named: Any) -> int:
        position = append(*arguments, **named)
        appended.set()
        go_on.wait(60)
        return position

    with monkeypatch.context() as patched:
        patched.setattr(LedgerRecorder, "append", and_stop)
        stopped = threading.Thread(
            target=ledger.execute_many, args=({STREAM: stage()},), kwargs={"at": NOON, "by": "t"}
        )
        stopped.start()
        assert appended.wait(60)
    assert owner.execute("import/NORDWIND/other", stage(), at=NOON, by="t") is not None
    go_on.set()
    stopped.join()
