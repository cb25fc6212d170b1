"""What auditors read of an event, and what an import's events add up to."""

from eventstore.aggregates.aggregate import Event
from eventstore.events import Recorded
from projections.queries.history import history_entry, status_record
from tests.support.make import DIGEST, NOON, errored, staged, started


def recorded(*events: Event) -> list[Recorded]:
    return [
        Recorded("import/S/1", version, event, NOON, "S", "t", None, version, "1")
        for version, event in enumerate(events, 1)
    ]


def test_an_entry_names_the_event_and_its_payload() -> None:
    [entry] = map(history_entry, recorded(staged()))
    assert (entry.event, entry.topic, entry.by, entry.version) == ("ImportStaged", "import_staged.v1", "t", 1)
    assert entry.payload_sha256 == entry.data["payload_sha256"] == DIGEST
    assert "private" not in entry.data


def test_events_add_up_to_a_status() -> None:
    assert status_record([]) is None
    pending = status_record(recorded(staged()))
    assert pending is not None
    assert (pending.status, pending.latest_error) == ("PENDING", None)
    failed = status_record(recorded(staged(), started(), errored()))
    assert failed is not None
    assert failed.latest_error is not None
    assert (failed.status, failed.latest_error.code) == ("ERRORED", "account_failed_validation")
