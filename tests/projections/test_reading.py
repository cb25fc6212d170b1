"""Topics of events in one order, and slices that leave no stream out."""

from eventstore.aggregates.import_process import ImportErrored, ImportStaged
from eventstore.log.ledger import Ledger
from projections.versioning.reading import head, slices, topics_of
from tests.support.make import NOON, stage


def test_topics_are_those_that_are_stored() -> None:
    assert set(topics_of([ImportStaged, ImportErrored])) == {"import_staged.v1", "import_errored.v1"}


def test_slices_follow_each_other_from_end_to_end(ledger: Ledger) -> None:
    for number in range(10):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
    with ledger.connection() as connection:
        assert head(connection) == 10
        parts = slices(connection, 4, upto=10)
    assert (parts[0].after, parts[-1].upto) == (None, None)
    assert [part.upto for part in parts[:-1]] == [part.after for part in parts[1:]]
