"""Intake goes first while much arrives and there are too few processors, and at no other time."""

from typing import Any

import psycopg
import pytest

from eventstore.log.ledger import Ledger
from runtime.processors import ProcessorPressure
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage
from workers import intake
from workers.intake import Intake


class Said(ProcessorPressure):
    """A machine that says what it is told to say."""

    said = 0.0

    def share(self) -> float:
        return self.said


@pytest.mark.parametrize(("arrived", "share", "goes_first"), [(3, 0.9, True), (2, 0.9, False), (3, 0.4, False)])
def test_much_has_to_arrive_and_processors_to_be_short(
    ledger: Ledger,
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    arrived: int,
    share: float,
    goes_first: bool,
) -> None:
    monkeypatch.setattr(intake, "MUCH", 3)
    pressure = Said()
    pressure.said = share
    for number in range(1, arrived + 1):
        stage(ledger, an_account(SUPPLIER, number))
    assert Intake(pressure).goes_first(connection) is goes_first


def test_it_looks_a_few_times_a_second(connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MUCH", 0)
    pressure = Said()
    looking = Intake(pressure)
    assert not looking.goes_first(connection)
    pressure.said = 1.0
    assert not looking.goes_first(connection), "it has just looked"
    monkeypatch.setattr(intake, "LOOK_EVERY_S", 0.0)
    assert looking.goes_first(connection)


def test_what_came_before_is_no_intake(
    ledger: Ledger, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog is worked off with all there is."""
    monkeypatch.setattr(intake, "MUCH", 1)
    monkeypatch.setattr(intake, "LATELY", -intake.LATELY)
    stage(ledger, an_account(SUPPLIER, 1))
    pressure = Said()
    pressure.said = 1.0
    assert not Intake(pressure).goes_first(connection)
