"""The relay rings for what the log has that is new, and remembers how far it came."""

import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from dramatiq import Broker

from eventstore.clock import now
from eventstore.log import follow
from eventstore.log.follow import CHANNEL
from eventstore.log.ledger import Ledger
from tests.support.bells import queued
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage
from workers.broker import IMPORTS, STREAMS_PER_MESSAGE, BrokerDoorbell, in_process_broker
from workers.followers import relay as relays
from workers.followers import sweeper, turns
from workers.followers.relay import GATHER_S, MESSAGES_PER_WORKER, ROOM_EVERY_S, YIELDING_S, Relay
from workers.intake import LOOK_EVERY_S, Intake


def test_the_relay_rings_for_what_is_new_and_remembers_how_far_it_came(
    ledger: Ledger, connection: psycopg.Connection[Any]
) -> None:
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 61)]
    later = stage(ledger, an_account(SUPPLIER, 61), not_before=now() + timedelta(hours=1))
    broker = in_process_broker()
    relay = Relay(ledger, BrokerDoorbell(broker))
    assert relay._read_on(connection, 0) == (61, False)
    assert follow.checkpoint(connection, "relay") == 61
    assert relay._read_on(connection, 61) == (61, False)
    assert relay._ring(IMPORTS, 0) == 60
    rung = [name for message in queued(broker) for name in message]
    assert rung == streams
    assert later not in rung


class EndsAtFirstPause(threading.Event):
    """Ends what waits for it at its first pause, and keeps how long that would have been."""

    pause_s: float | None = None

    def wait(self, timeout: float | None = None) -> bool:
        self.pause_s = timeout
        self.set()
        return True


def test_the_relay_rings_at_once_and_gathers_afterwards(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    """One message for each import would cost the relay and the workers more than the imports do."""
    first = stage(ledger, an_account(SUPPLIER, 1))
    broker, stop = in_process_broker(), EndsAtFirstPause()
    Relay(ledger, BrokerDoorbell(broker))._relay(connection, stop)
    assert [name for message in queued(broker) for name in message] == [first]
    assert stop.pause_s == GATHER_S


def test_while_many_messages_wait_the_relay_pauses_and_keeps_no_rings(
    ledger: Ledger, connection: psycopg.Connection[Any]
) -> None:
    """Rings come thirty times a second for as long as intake goes on, which may be hours."""
    broker, stop = in_process_broker(), EndsAtFirstPause()
    doorbell = BrokerDoorbell(broker)
    stage(ledger, an_account(SUPPLIER, 1))
    for number in range(MESSAGES_PER_WORKER):
        doorbell.ring([str(number)])
    follow.listen(connection)
    with ledger.connection() as writer:
        for _ in range(5):
            writer.execute(f"NOTIFY {CHANNEL}")
    connection.execute("SELECT 1")  # with whose answer the rings arrive
    Relay(ledger, doorbell)._relay(connection, stop)
    assert stop.pause_s == ROOM_EVERY_S
    assert doorbell.waiting() == MESSAGES_PER_WORKER
    assert list(connection.notifies(timeout=0)) == []


class GoesFirst(Intake):
    def goes_first(self, connection: psycopg.Connection[Any]) -> bool:
        return True


class TimedPauses(threading.Event):
    """Ends a relay after seconds of a clock that goes on in its pauses alone. A worker takes what was rung for."""

    def __init__(self, broker: Broker, seconds: float, *, takes: bool = True) -> None:
        super().__init__()
        self._broker, self._ends_at, self._takes = broker, seconds, takes
        self.now = 0.0
        self.rung: list[tuple[float, int]] = []
        """When the relay had rung, and for how many imports."""

    def monotonic(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if self._takes:
            self.rung += [(self.now, len(streams)) for streams in queued(self._broker)]
            self._broker.flush_all()
        self.now += timeout
        if self.now >= self._ends_at:
            self.set()
        return True


@pytest.fixture
def many_staged(ledger: Ledger) -> int:
    """As many imports as fill one message, and ten more."""
    for number in range(1, STREAMS_PER_MESSAGE + 11):
        stage(ledger, an_account(SUPPLIER, number))
    return STREAMS_PER_MESSAGE + 10


def test_while_intake_goes_first_the_relay_rings_once_in_a_while_for_one_message(
    ledger: Ledger, connection: psycopg.Connection[Any], many_staged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = in_process_broker()
    pauses = TimedPauses(broker, 2 * YIELDING_S)
    monkeypatch.setattr(relays, "time", pauses)
    Relay(ledger, BrokerDoorbell(broker), intake=GoesFirst())._relay(connection, pauses)
    (first_at, first), (second_at, second) = pauses.rung
    assert (first, second) == (STREAMS_PER_MESSAGE, many_staged - STREAMS_PER_MESSAGE)
    assert first_at == 0.0
    assert YIELDING_S <= second_at <= YIELDING_S + LOOK_EVERY_S


def test_while_intake_goes_first_nothing_more_is_rung_for_before_a_message_is_taken(
    ledger: Ledger, connection: psycopg.Connection[Any], many_staged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = in_process_broker()
    pauses = TimedPauses(broker, 3 * YIELDING_S, takes=False)
    monkeypatch.setattr(relays, "time", pauses)
    Relay(ledger, BrokerDoorbell(broker), intake=GoesFirst())._relay(connection, pauses)
    assert [len(streams) for streams in queued(broker)] == [STREAMS_PER_MESSAGE]
    assert follow.checkpoint(connection, "relay") == many_staged, "what waits is known, so that others have their turn"


class GoesFirstUntil(Intake):
    def __init__(self, pauses: TimedPauses, ends_at: float) -> None:
        super().__init__()
        self._pauses, self._ends_at = pauses, ends_at

    def goes_first(self, connection: psycopg.Connection[Any]) -> bool:
        if len(self._pauses.rung) > 1:  # a relay that has nothing to do does not pause, but waits for the log
            self._pauses.set()
        return self._pauses.now < self._ends_at


def test_when_intake_rests_the_relay_rings_for_all_at_once(
    ledger: Ledger, connection: psycopg.Connection[Any], many_staged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processors would rest as well, for as long as it went on pausing."""
    broker = in_process_broker()
    pauses, rests_at = TimedPauses(broker, 3 * YIELDING_S), YIELDING_S / 4
    monkeypatch.setattr(relays, "time", pauses)
    Relay(ledger, BrokerDoorbell(broker), intake=GoesFirstUntil(pauses, rests_at))._relay(connection, pauses)
    assert [count for _, count in pauses.rung] == [STREAMS_PER_MESSAGE, many_staged - STREAMS_PER_MESSAGE]
    assert pauses.rung[1][0] <= rests_at + LOOK_EVERY_S


class BusyTurns(threading.Event):
    """Between two turns of a relay workers take all that was rung for, and another account arrives."""

    def __init__(self, ledger: Ledger, broker: Broker, turns: int) -> None:
        super().__init__()
        self._ledger, self._broker, self._left = ledger, broker, turns
        self.taken: list[str] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.taken += [name for message in queued(self._broker) for name in message]
        self._broker.flush_all()
        stage(self._ledger, an_account(SUPPLIER, 100 + self._left))
        self._left -= 1
        if not self._left:
            self.set()
        return True


def test_what_was_lost_is_rung_for_while_accounts_keep_arriving(
    ledger: Ledger, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweeper rings where no message waits, as it is just before the relay's own."""
    monkeypatch.setattr(sweeper, "INTERVAL_S", 0.0)
    lost = stage(ledger, an_account(SUPPLIER, 1))
    follow.set_checkpoint(connection, "relay", 1)
    stage(ledger, an_account(SUPPLIER, 2))
    broker = in_process_broker()
    turns = BusyTurns(ledger, broker, 3)
    Relay(ledger, BrokerDoorbell(broker))._relay(connection, turns)
    assert lost in turns.taken


class TakesAll(threading.Event):
    """Takes what was rung for in each pause, until a number of imports were."""

    def __init__(self, broker: Broker, number: int) -> None:
        super().__init__()
        self._broker, self._number = broker, number
        self.taken: list[str] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.taken += [name for message in queued(self._broker) for name in message]
        self._broker.flush_all()
        if len(self.taken) >= self._number:
            self.set()
        return True


@pytest.mark.promise("suppliers-take-turns-account")
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_the_turns_have_no_room_for_is_rung_for_once(
    ledger: Ledger, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, *, is_restarted: bool
) -> None:
    """Also by a relay that comes after one which had read the log, and died with what it had in memory."""
    monkeypatch.setattr("workers.followers.turns.LANE", turns.FEW)
    monkeypatch.setattr("workers.followers.sweeper.SOON_S", 0.0)
    waiting = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 3 * turns.FEW)]
    stage(ledger, an_account(SUPPLIER, 3 * turns.FEW), not_before=now() + timedelta(hours=1))
    broker = in_process_broker()
    if is_restarted:
        follow.set_checkpoint(connection, "relay", follow.log_head(connection))
    worker = TakesAll(broker, len(waiting))
    Relay(ledger, BrokerDoorbell(broker))._relay(connection, worker)
    assert sorted(worker.taken) == sorted(waiting)


def test_large_imports_are_spread_over_messages(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    """A worker does as many at once as it can hold; others have the rest."""
    account = an_account(SUPPLIER, 1)
    large = [
        account | {"external_account_number": f"NW-{number}", "metadata": {"n": "x" * 5_000_000}} for number in "12"
    ]
    streams = [stage(ledger, one) for one in (*large, an_account(SUPPLIER, 3))]
    broker = in_process_broker()
    relay = Relay(ledger, BrokerDoorbell(broker))
    relay._read_on(connection, 0)
    relay._ring(IMPORTS, 0)
    assert queued(broker) == [streams[:1], streams[1:]]
