"""Intake goes first while much arrives and there are too few processors, and at no other time."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from eventstore.aggregates.import_process import PostponeImport, StartImport
from eventstore.clock import now
from eventstore.log import follow
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger
from system.processors import ProcessorPressure
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage
from workers import intake
from workers.intake import Intake


class Said(ProcessorPressure):
    """A machine that says what it is told to say."""

    said = 1.0

    def share(self) -> float:
        return self.said


class Clock:
    """Time that passes when it is told to."""

    at = 100.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of the machine that looks. Three imports are much."""
    made = Clock()
    monkeypatch.setattr(intake, "time", made)
    monkeypatch.setattr(intake, "MUCH", 3)
    return made


def arrive(ledger: Ledger, imports: int, first: int = 1) -> list[str]:
    return [stage(ledger, an_account(SUPPLIER, number)) for number in range(first, first + imports)]


@pytest.mark.parametrize(("arrived", "share", "goes_first"), [(3, 0.9, True), (2, 0.9, False), (3, 0.4, False)])
def test_much_has_to_arrive_and_processors_to_be_short(
    ledger: Ledger,
    connection: psycopg.Connection[Any],
    clock: Clock,
    arrived: int,
    share: float,
    goes_first: bool,
) -> None:
    pressure = Said()
    looking = Intake(pressure)
    assert not looking.goes_first(connection)
    pressure.said = share
    arrive(ledger, arrived)
    clock.at += 0.3
    assert looking.goes_first(connection) is goes_first


def test_it_looks_a_few_times_a_second(ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock) -> None:
    looking = Intake(Said())
    assert not looking.goes_first(connection)
    arrive(ledger, 3)
    clock.at += intake.LOOK_EVERY_S / 2
    assert not looking.goes_first(connection), "it has just looked"
    clock.at += intake.LOOK_EVERY_S / 2 + 0.01
    assert looking.goes_first(connection)


def test_what_came_before_is_no_intake(ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock) -> None:
    """A backlog is worked off with all there is, one that came just before as well."""
    arrive(ledger, 9)
    looking = Intake(Said())
    assert not looking.goes_first(connection), "it has not seen when these came"
    arrive(ledger, 9, 10)
    for goes_first in (True, True, False):
        clock.at += 0.3
        assert looking.goes_first(connection) is goes_first


def test_what_comes_slowly_is_not_much_however_long_nobody_looked(
    ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock
) -> None:
    looking = Intake(Said())
    looking.goes_first(connection)
    arrive(ledger, 5)
    clock.at += 2 * intake.LATELY_S
    assert not looking.goes_first(connection)
    arrive(ledger, 6, 6)
    clock.at += 2 * intake.LATELY_S
    assert looking.goes_first(connection)


def test_what_came_while_nobody_looked_for_long_is_not_asked_for(
    ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay that stood by for hours would go through all of them."""
    monkeypatch.setattr(intake, "FORGOTTEN_S", 1.0)
    looking = Intake(Said())
    looking.goes_first(connection)
    arrive(ledger, 20)
    clock.at += 1.1
    assert not looking.goes_first(connection)
    arrive(ledger, 3, 21)
    clock.at += 0.3
    assert looking.goes_first(connection)


def test_what_comes_while_the_log_is_slow_to_answer_is_no_more_than_it_is(
    ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = Intake(Said())
    looking.goes_first(connection)

    def slow(connection: psycopg.Connection[Any]) -> int:
        clock.at += 3.0
        arrive(ledger, 5)
        return log_head(connection)

    monkeypatch.setattr(follow, "log_head", slow)
    clock.at += 0.3
    assert not looking.goes_first(connection)


def test_only_what_is_new_arrives(ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock) -> None:
    """To take imports up and to give them back moves the log, and is the workers' own doing."""
    streams = arrive(ledger, 4)
    looking = Intake(Said())
    looking.goes_first(connection)
    started = StartImport(worker=7, lease_until=now() + timedelta(minutes=1), max_attempts=5)
    ledger.execute_many(dict.fromkeys(streams, started), at=now(), by="t")
    back = PostponeImport(start=2, code="processing_failed", due_at=now())
    ledger.execute_many(dict.fromkeys(streams, back), at=now(), by="t")
    clock.at += 0.3
    assert not looking.goes_first(connection)
