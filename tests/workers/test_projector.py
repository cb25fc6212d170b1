"""Projections that follow the log are brought up with it, each from its own place, and once."""

from typing import Any

import pytest

from eventstore.aggregates.import_process import CancelImport
from eventstore.log.ledger import Ledger
from projections.import_progress import IMPORT_PROGRESS
from projections.throughput import THROUGHPUT
from projections.versioning.reading import read_ordered
from tests.support.make import NOON, stage
from workers.projector import Projector


def counted(ledger: Ledger) -> dict[str, int]:
    with ledger.connection() as connection:
        rows = connection.execute("SELECT status, number FROM import_progress").fetchall()
    return {row["status"]: row["number"] for row in rows if row["number"]}


def test_one_that_was_behind_goes_on_with_the_others(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read the log for itself before, from then on and for as long as events came."""
    reads: list[int] = []

    def reading(*arguments: Any, **named: Any) -> Any:
        reads.append(named["after"])
        return read_ordered(*arguments, **named)

    monkeypatch.setattr("workers.projector.read_ordered", reading)
    with ledger.connection() as connection:
        ledger.execute("import/S/1", stage(), at=NOON, by="t")
        Projector(ledger, [IMPORT_PROGRESS]).advance(connection, IMPORT_PROGRESS)
        ledger.execute("import/S/2", stage(), at=NOON, by="t")
        projector = Projector(ledger, [IMPORT_PROGRESS, THROUGHPUT])
        for projection in (THROUGHPUT, IMPORT_PROGRESS):
            projector.advance(connection, projection)
        assert counted(ledger) == {"PENDING": 2}
        received = connection.execute("SELECT number FROM throughput WHERE span = 'hour'").fetchall()
    assert [row["number"] for row in received] == [2]
    assert reads == [0, 0]


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


def test_large_payloads_are_taken_in_a_few_at_a_time(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.projector.BATCH_BYTES", -1)
    for number in range(3):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
    projector = Projector(ledger, [IMPORT_PROGRESS])
    with ledger.connection() as connection:
        went_on = [projector.advance(connection, IMPORT_PROGRESS) for _ in range(4)]
    assert went_on == [True, True, False, False]
    assert counted(ledger) == {"PENDING": 3}
