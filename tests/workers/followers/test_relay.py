"""The relay sends messages for new events, and saves its position."""

import threading
from datetime import timedelta
from math import inf
from typing import Any

import psycopg
import pytest
from dramatiq import Broker

from eventstore.clock import now
from eventstore.log import follow
from eventstore.log.follow import CHANNEL
from eventstore.log.ledger import Ledger
from tests.support.make import an_account
from tests.support.messages import queued
from tests.support.staging import SUPPLIER, stage, stage_all
from workers.broker import IMPORTS, MAILS, STREAMS_PER_MESSAGE, BrokerDispatcher, Queue, in_process_broker
from workers.followers import fair_queue, sweeper
from workers.followers import relay as relays
from workers.followers.fair_queue import Waiting
from workers.followers.relay import FULL_PAUSE_S, GATHER_S, MESSAGES_PER_WORKER, YIELDING_S, Relay
from workers.intake import CHECK_EVERY_S, Intake
from workers.liveness import Liveness


def test_the_relay_sends_messages_for_new_events_and_saves_its_position(
    ledger: Ledger, connection: psycopg.Connection[Any]
) -> None:
    streams = stage_all(ledger, [an_account(SUPPLIER, number) for number in range(1, 61)])
    later = stage(ledger, an_account(SUPPLIER, 61), not_before=now() + timedelta(hours=1))
    broker = in_process_broker()
    relay = Relay(ledger, BrokerDispatcher(broker))
    assert relay._read_log(connection, 0) == (61, False)
    assert follow.checkpoint(connection, "relay") == 61
    assert relay._read_log(connection, 61) == (61, False)
    assert relay._enqueue(IMPORTS, 0) == 60
    enqueued = [name for message in queued(broker) for name in message]
    assert enqueued == streams
    assert later not in enqueued


class Pauses(threading.Event):
    """Pauses of a relay, in which workers take its messages. Its clock moves in pauses only."""

    def __init__(self, broker: Broker, *, takes: bool = True) -> None:
        super().__init__()
        self._broker, self._takes = broker, takes
        self.now = 0.0
        self.lengths: list[float | None] = []
        self.sent: list[tuple[float, list[str]]] = []
        """Messages that workers have taken, with the time."""

    @property
    def streams(self) -> list[str]:
        return [stream for _, streams in self.sent for stream in streams]

    def monotonic(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        self.lengths.append(timeout)
        if self._takes:
            self.sent += [(self.now, streams) for streams in queued(self._broker)]
            self._broker.flush_all()
        self.now += timeout or 0.0
        if self.is_over():
            self.set()
        return True

    def is_over(self) -> bool:
        """Return True if the relay must end after this pause."""
        return True


def test_the_relay_sends_at_once_and_gathers_afterwards(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    """A message for each import would cost more than the imports."""
    first = stage(ledger, an_account(SUPPLIER, 1))
    pauses = Pauses(broker := in_process_broker())
    Relay(ledger, BrokerDispatcher(broker)).work(connection, pauses)
    assert (pauses.streams, pauses.lengths) == ([first], [GATHER_S])


def test_while_many_messages_wait_the_relay_pauses_and_discards_rings(
    ledger: Ledger, connection: psycopg.Connection[Any]
) -> None:
    """Otherwise rings of the log would fill memory during a long intake."""
    pauses = Pauses(broker := in_process_broker(), takes=False)
    dispatcher = BrokerDispatcher(broker)
    stage(ledger, an_account(SUPPLIER, 1))
    for number in range(MESSAGES_PER_WORKER):
        dispatcher.enqueue([str(number)])
    follow.listen(connection)
    with ledger.connection() as writer:
        for _ in range(5):
            writer.execute(f"NOTIFY {CHANNEL}")
    connection.execute("SELECT 1")  # receives the rings
    Relay(ledger, dispatcher).work(connection, pauses)
    assert pauses.lengths == [GATHER_S]
    assert dispatcher.waiting() == MESSAGES_PER_WORKER
    assert list(connection.notifies(timeout=0)) == []


@pytest.mark.parametrize(
    ("queue", "has_worker", "pause_s"),
    [(IMPORTS, True, FULL_PAUSE_S), (IMPORTS, False, GATHER_S), (MAILS, True, GATHER_S)],
)
def test_the_relay_pauses_shortly_only_while_imports_wait_for_a_worker(
    ledger: Ledger, connection: psycopg.Connection[Any], queue: Queue, has_worker: bool, pause_s: float
) -> None:
    """Without a worker, messages are not taken soon, and e-mails are few."""
    if has_worker:
        worker = Liveness(ledger)
        worker.start(threading.Event())
    pauses = Pauses(broker := in_process_broker(), takes=False)
    relay, dispatcher = Relay(ledger, BrokerDispatcher(broker)), BrokerDispatcher(broker)
    for number in range(2 * queue.streams_per_message):
        dispatcher.enqueue([str(number)], queue)
    relay.lanes[queue].add(SUPPLIER, f"import/{SUPPLIER}/1", Waiting(1))
    relay.work(connection, pauses)
    assert (pauses.lengths, len(relay.lanes[queue])) == ([pause_s], 1)
    if has_worker:
        worker.stop()


class Priority(Intake):
    """Intake has priority until this time of the relay's clock."""

    def __init__(self, pauses: Pauses, ends_at: float) -> None:
        super().__init__()
        self._pauses, self._ends_at = pauses, ends_at

    def has_priority(self, connection: psycopg.Connection[Any]) -> bool:
        if len(self._pauses.sent) > 1:  # an idle relay does not pause, but waits for the log
            self._pauses.set()
        return self._pauses.now < self._ends_at


def test_while_intake_has_priority_the_relay_sends_one_message_per_interval(
    ledger: Ledger, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message is sent before a worker has taken the last one. When intake pauses, all messages are sent."""
    stage_all(ledger, [an_account(SUPPLIER, number) for number in range(1, STREAMS_PER_MESSAGE + 11)])
    for ends_at, takes in ((inf, True), (YIELDING_S / 4, True), (inf, False)):
        follow.set_checkpoint(connection, "relay", 0)
        pauses = Pauses(broker := in_process_broker(), takes=takes)
        monkeypatch.setattr(pauses, "is_over", lambda pauses=pauses: pauses.now >= 3 * YIELDING_S)
        monkeypatch.setattr(relays, "time", pauses)
        Relay(ledger, BrokerDispatcher(broker), intake=Priority(pauses, ends_at)).work(connection, pauses)
        if takes:
            assert [len(streams) for _, streams in pauses.sent] == [STREAMS_PER_MESSAGE, 10]
            assert pauses.sent[0][0] == 0.0
            second_at = min(ends_at, YIELDING_S)
            assert second_at <= pauses.sent[1][0] <= second_at + CHECK_EVERY_S
        else:
            assert [len(streams) for streams in queued(broker)] == [STREAMS_PER_MESSAGE]
            assert follow.checkpoint(connection, "relay") == STREAMS_PER_MESSAGE + 10, "waiting streams have their turn"


def test_lost_streams_get_a_message_while_accounts_keep_arriving(
    ledger: Ledger, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "INTERVAL_S", 0.0)
    lost = stage(ledger, an_account(SUPPLIER, 1))
    follow.set_checkpoint(connection, "relay", 1)
    stage(ledger, an_account(SUPPLIER, 2))
    pauses = Pauses(broker := in_process_broker())

    def is_over() -> bool:
        stage(ledger, an_account(SUPPLIER, 100 + len(pauses.lengths)))
        return len(pauses.lengths) == 3

    monkeypatch.setattr(pauses, "is_over", is_over)
    Relay(ledger, BrokerDispatcher(broker)).work(connection, pauses)
    assert lost in pauses.streams


@pytest.mark.promise("suppliers-take-turns-account")
@pytest.mark.parametrize("is_restarted", [False, True])
def test_streams_without_room_in_the_turns_get_one_message(
    ledger: Ledger, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, *, is_restarted: bool
) -> None:
    """Also if the relay that had read the log has died."""
    monkeypatch.setattr("workers.followers.fair_queue.LANE", fair_queue.FEW)
    monkeypatch.setattr("workers.followers.sweeper.PART_INTERVAL_S", 0.0)
    waiting = stage_all(ledger, [an_account(SUPPLIER, number) for number in range(1, 3 * fair_queue.FEW)])
    stage(ledger, an_account(SUPPLIER, 3 * fair_queue.FEW), not_before=now() + timedelta(hours=1))
    pauses = Pauses(broker := in_process_broker())
    monkeypatch.setattr(pauses, "is_over", lambda: len(pauses.streams) >= len(waiting))
    if is_restarted:
        follow.set_checkpoint(connection, "relay", follow.log_head(connection))
    Relay(ledger, BrokerDispatcher(broker)).work(connection, pauses)
    assert sorted(pauses.streams) == sorted(waiting)


def test_large_imports_are_spread_over_messages(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    """A worker can hold only some of them in memory."""
    account = an_account(SUPPLIER, 1)
    large = [
        account | {"external_account_number": f"NW-{number}", "metadata": {"n": "x" * 5_000_000}} for number in "12"
    ]
    streams = [stage(ledger, account) for account in (*large, an_account(SUPPLIER, 3))]
    broker = in_process_broker()
    relay = Relay(ledger, BrokerDispatcher(broker))
    relay._read_log(connection, 0)
    relay._enqueue(IMPORTS, 0)
    assert queued(broker) == [streams[:1], streams[1:]]
