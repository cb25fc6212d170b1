"""Projections that follow the log are brought up with it, each from its own place, and once."""

from eventstore.aggregates.import_process import CancelImport
from eventstore.log.ledger import Ledger
from projections.import_progress import IMPORT_PROGRESS
from tests.support.make import NOON, stage
from workers.projector import Projector


def counted(ledger: Ledger) -> dict[str, int]:
    with ledger.connection() as connection:
        rows = connection.execute("SELECT status, number FROM import_progress").fetchall()
    return {row["status"]: row["number"] for row in rows if row["number"]}


def test_what_follows_is_taken_in_once_and_gone_on_with(ledger: Ledger) -> None:
    projector = Projector(ledger, [IMPORT_PROGRESS])
    ledger.execute("import/S/1", stage(), at=NOON, by="t")
    with ledger.connection() as connection:
        for _ in range(2):
            projector.advance(connection, IMPORT_PROGRESS)
            assert counted(ledger) == {"PENDING": 1}
        ledger.execute("import/S/1", CancelImport(), at=NOON, by="t")
        Projector(ledger, [IMPORT_PROGRESS]).advance(connection, IMPORT_PROGRESS)
    assert counted(ledger) == {"CANCELLED": 1}
