"""What an event changes of the platform's records is a function of the event and its payload."""

from eventstore.aggregates.import_process import SubjectErased
from eventstore.events import Recorded
from projections.platform.change import platform_change
from projections.platform.tables import ACCOUNT_TABLE, TABLES
from tests.support.make import NOON, an_account, encoded, processed, staged, started


def recorded(event: object) -> Recorded:
    return Recorded("import/S/1", 3, event, NOON, "S", "t", None, 3, "1")  # type: ignore[arg-type]


def test_an_import_copies_rows_and_deletes_none() -> None:
    change = platform_change(recorded(processed()), encoded(an_account("S")))
    assert change is not None
    assert list(change.deleted) == []
    assert len(change.copied[ACCOUNT_TABLE.name]) == 1


def test_without_a_payload_nothing_is_made() -> None:
    assert platform_change(recorded(processed()), None) is None
    for event in (staged(), started(), SubjectErased(reason="r", account_number="", erased_at=NOON)):
        assert platform_change(recorded(event), encoded(an_account("S"))) is None


def test_an_erasure_leaves_a_row_of_keys() -> None:
    change = platform_change(recorded(SubjectErased(reason="r", account_number="A-1", erased_at=NOON)), None)
    assert change is not None
    assert [table for table, _ in change.deleted] == [table.name for table in TABLES]
    assert {table: len(rows) for table, rows in change.copied.items()} == {ACCOUNT_TABLE.name: 1}
