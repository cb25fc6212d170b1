"""The row of a record follows from its last event."""

from eventstore.aggregates.post_account import DELIVERY_NOTE, RecordCancellationChanged, RecordImported, stream_of
from eventstore.events import Recorded
from projections.views.account_record import record_row
from tests.support.make import NOON, staged

STREAM = stream_of(DELIVERY_NOTE, "S", "1", "R-1")


def test_a_record_is_known_by_its_stream_and_says_whether_it_is_cancelled() -> None:
    fields = {"account_number": "A-1", "payload_sha256": "p", "content_sha256": "c", "cancellation_sha256": "d"}
    imported = RecordImported(**fields, is_cancelled=False, imported_at=NOON)  # type: ignore[arg-type]
    row = record_row(Recorded(STREAM, 1, imported, NOON, "S", "t", None, 7, "1"), 7)
    assert row is not None
    assert (row.kind, row.supplier, row.external_account_number) == ("delivery-note", "S", "1")
    assert (row.account_number, row.is_cancelled, row.position) == ("A-1", False, 7)
    assert {"is_cancelled"} <= set(RecordCancellationChanged.__struct_fields__)


def test_other_events_make_no_row() -> None:
    assert record_row(Recorded("import/S/1", 1, staged(), NOON, "S", "t", None, 1, "1"), 1) is None
