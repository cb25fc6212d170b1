"""Priority of intake: only while many imports arrive and the machine lacks CPU time."""

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
from tests.support.staging import SUPPLIER, stage_all
from workers import intake
from workers.intake import Intake


class Pressure(ProcessorPressure):
    """CPU pressure of a machine: share of time in which processes wait for a processor."""

    share_of_time = 1.0

    def share(self) -> float:
        return self.share_of_time


class Clock:
    """A clock that only the test moves."""

    at = 100.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Clock of the relay's machine. Three imports are many."""
    made = Clock()
    monkeypatch.setattr(intake, "time", made)
    monkeypatch.setattr(intake, "MIN_IMPORTS", 3)
    return made


def arrive(ledger: Ledger, imports: int, first: int = 1) -> list[str]:
    return stage_all(ledger, [an_account(SUPPLIER, number) for number in range(first, first + imports)])


ARRIVALS = {
    "much, and processors are short": (0.9, [(3, 0.3, True)]),
    "not much": (0.9, [(2, 0.3, False)]),
    "processors are idle": (0.4, [(3, 0.3, False)]),
    "between two looks": (1.0, [(3, intake.CHECK_EVERY_S / 2, False), (0, intake.CHECK_EVERY_S / 2 + 0.01, True)]),
    "a backlog is no intake": (1.0, [(9, 0.3, True), (0, 0.3, True), (0, 0.3, False)]),
    "slowly, in twice the time": (1.0, [(5, 2 * intake.WINDOW_S, False), (6, 2 * intake.WINDOW_S, True)]),
    "after a long time without a look": (1.0, [(20, intake.RESET_AFTER_S + 0.1, False), (3, 0.3, True)]),
}
"""CPU pressure, and for each call: imports that arrive before it, seconds since the last call, and the result."""


def test_intake_goes_first_while_much_arrives_and_processors_are_short(
    ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock
) -> None:
    first = 10
    arrive(ledger, 9)
    for name, (share, looks) in ARRIVALS.items():
        pressure = Pressure()
        looking = Intake(pressure)
        assert not looking.has_priority(connection), "it does not know when these arrived"
        pressure.share_of_time = share
        for imports, seconds, has_priority in looks:
            arrive(ledger, imports, first)
            first += imports
            clock.at += seconds
            assert looking.has_priority(connection) is has_priority, name


def test_what_arrives_while_the_log_is_slow_to_answer_is_counted_over_that_time(
    ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = Intake(Pressure())
    looking.has_priority(connection)

    def slow(connection: psycopg.Connection[Any]) -> int:
        clock.at += 3.0
        arrive(ledger, 5)
        return log_head(connection)

    monkeypatch.setattr(follow, "log_head", slow)
    clock.at += 0.3
    assert not looking.has_priority(connection)


def test_events_of_workers_are_no_intake(ledger: Ledger, connection: psycopg.Connection[Any], clock: Clock) -> None:
    streams = arrive(ledger, 4)
    looking = Intake(Pressure())
    looking.has_priority(connection)
    started = StartImport(worker=7, lease_until=now() + timedelta(minutes=1), max_attempts=5)
    ledger.execute_many(dict.fromkeys(streams, started), at=now(), by="t")
    back = PostponeImport(start=2, code="processing_failed", due_at=now())
    ledger.execute_many(dict.fromkeys(streams, back), at=now(), by="t")
    clock.at += 0.3
    assert not looking.has_priority(connection)
