"""Topics of events in one order, and slices that leave no stream out."""

from eventstore.aggregates.import_process import CancelImport, ImportCancelled, ImportErrored, ImportStaged
from eventstore.log.ledger import Ledger
from projections.versioning.reading import Seen, head, read_ordered, slices, topics_of
from tests.support.make import NOON, stage


def test_topics_are_those_that_are_stored() -> None:
    assert set(topics_of([ImportStaged, ImportErrored])) == {"import_staged.v1", "import_errored.v1"}


def test_what_came_before_is_looked_up_for_those_who_ask(ledger: Ledger) -> None:
    ledger.execute("import/S/1", stage(), at=NOON, by="t")
    ledger.execute("import/S/1", CancelImport(), at=NOON, by="t")
    topics = topics_of([ImportCancelled])
    with ledger.connection() as connection:
        for with_previous, previous in ((True, "import_staged.v1"), (False, None)):
            [seen] = read_ordered(connection, topics, after=0, upto=2, with_previous=with_previous)
            assert isinstance(seen, Seen)
            assert (seen.position, seen.previous) == (2, previous)


def test_slices_follow_each_other_from_end_to_end(ledger: Ledger) -> None:
    for number in range(10):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
    with ledger.connection() as connection:
        assert head(connection) == 10
        parts = slices(connection, 4, upto=10)
    assert (parts[0].after, parts[-1].upto) == (None, None)
    assert [part.upto for part in parts[:-1]] == [part.after for part in parts[1:]]
