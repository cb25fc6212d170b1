"""The relay: follows the log and sends workers a message for each import to process and each e-mail to send.

The log is the outbox. The relay reads it to its end and adds each stream that is due to the lane of its supplier, a
queue in memory (`workers.followers.turns`). Messages are filled from all lanes by turns, and few messages wait for
workers at a time: so a supplier waits only a short time, however much another has sent. The checkpoint is saved before
messages are sent: streams that a crash loses are in the status view, where the sweeper finds them. An idle service
sends messages at once; a busy one gathers streams for a message.
One relay is active, by an advisory lock; others stand by. While intake has priority (`workers.intake`), the relay sends
one message per interval.
"""

import threading
import time
from collections import deque
from typing import Any

import structlog
from psycopg import Connection

from eventstore.aggregates.customer_mail import CUSTOMER_MAIL, MailRequested
from eventstore.aggregates.import_process import IMPORT_PROCESS, ImportRetried, ImportStaged, identity_of
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.events import Unreadable
from eventstore.log import follow, locks
from eventstore.log.ledger import Ledger
from telemetry.measures import measures
from telemetry.supervision import supervision
from workers.broker import IMPORTS, MAILS, STREAMS_PER_MESSAGE, Bell, BellUnavailable, Doorbell
from workers.followers.leader import Follower
from workers.followers.sweeper import Sweeper
from workers.followers.turns import ALONE, SupplierTurns, Waiting
from workers.intake import LOOK_EVERY_S, Intake

FOLLOWER = "relay"
MESSAGES_PER_WORKER = 1
"""Full messages that may wait for each worker process. With more, a supplier would wait longer for its turn."""
MAILS_PER_MINUTE = 600
"""E-mails of one supplier in a minute. Further ones wait."""
READ_LIMIT = 3 * STREAMS_PER_MESSAGE
YIELDING_S = 2.0
"""Interval between two messages while intake has priority [seconds]."""
COUNT_EVERY_S = 2.0
"""Interval between two counts of the workers [seconds]."""
GATHER_S = 0.2
"""Pause after a message that was not full [seconds]. Streams that arrive meanwhile share the next message."""
ROOM_EVERY_S = 0.05
"""Pause while imports wait for room in the queue of running workers [seconds]. A longer one leaves workers idle."""

_BELLS: dict[str, Bell] = {
    topic: bell
    for bell, topics in ((IMPORTS, IMPORT_PROCESS.topics), (MAILS, CUSTOMER_MAIL.topics))
    for topic, event in topics.items()
    if event in (ImportStaged, ImportRetried, MailRequested)
}
"""Queue of the message that an event causes, by the event's topic."""
_COUNT_WORKERS = """
SELECT count(*) AS workers
FROM pg_locks
WHERE locktype = 'advisory' AND classid = %s AND objsubid = 2 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

logger = structlog.get_logger()


class Relay(Follower):
    """Follower that runs until `stop` is set, and survives the loss of Postgres and of Redis."""

    name = FOLLOWER
    lock = locks.RELAY
    waits_for = (StoreUnavailable, BellUnavailable)

    def __init__(self, ledger: Ledger, doorbell: Doorbell, *, intake: Intake | None = None) -> None:
        super().__init__(ledger)
        self._intake = intake or Intake()
        self._doorbell = doorbell
        self.turns = {IMPORTS: SupplierTurns(), MAILS: SupplierTurns(per_minute=MAILS_PER_MINUTE)}
        self._sweeper = Sweeper(ledger, doorbell, self.turns)
        self._costs: dict[Bell, deque[int]] = {bell: deque(maxlen=1_000) for bell in self.turns}
        """Cost of each of the last messages, by queue: the number of its streams, but at least ALONE."""
        self._workers, self._counted_at = 0, float("-inf")

    def work(self, connection: Connection[Any], stop: threading.Event) -> None:
        position, rings_at, is_behind = follow.checkpoint(connection, FOLLOWER), 0.0, True
        for turns in self.turns.values():
            turns.forget_taken()
        logger.info("relay is active", position=position)
        while not stop.is_set():
            self._count_workers(connection)
            self._sweeper.sweep_when_due(connection, position)
            waiting = self._doorbell.waiting()
            measures().waiting(IMPORTS.queue, waiting)
            yields = self._intake.goes_first(connection)
            holds_back = yields and (waiting > 0 or time.monotonic() < rings_at)
            if is_behind or not holds_back:
                position, is_behind = self._read_on(connection, position)
            rung = 0
            if not holds_back and not (yields and is_behind):
                rung = self._ring(IMPORTS, waiting, STREAMS_PER_MESSAGE if yields else None)
                rings_at = time.monotonic() + YIELDING_S if rung else rings_at
            self._ring(MAILS, self._doorbell.waiting(MAILS) if self.turns[MAILS] else 0)
            supervision.works(FOLLOWER)
            if not is_behind:
                self._pause(connection, stop, rung, yields=yields)

    def _pause(self, connection: Connection[Any], stop: threading.Event, rung: int, *, yields: bool) -> None:
        """Pause while streams wait or arrive; otherwise wait for the log."""
        if yields or 0 < rung < STREAMS_PER_MESSAGE or any(self.turns.values()):
            pause = ROOM_EVERY_S if self.turns[IMPORTS] and self._workers else GATHER_S
            stop.wait(
                LOOK_EVERY_S if yields else pause
            )  # not follow.wait: every append notifies, and none empties the queue
            follow.wait(connection, 0.0)  # discard the notifications, which would fill memory
        elif not rung:
            follow.wait(connection)

    def _count_workers(self, connection: Connection[Any]) -> None:
        if time.monotonic() - self._counted_at >= COUNT_EVERY_S:
            row = connection.execute(_COUNT_WORKERS, (locks.WORKERS,)).fetchone()
            self._workers, self._counted_at = row["workers"] if row else 0, time.monotonic()

    def _read_on(self, connection: Connection[Any], position: int) -> tuple[int, bool]:
        """Add the streams after the position to the lanes. Return the position reached, and True if there are more."""
        events, reached = follow.read_after(connection, position, tuple(_BELLS), limit=READ_LIMIT)
        for event in events:
            size = _due_bytes(event)
            if size is not None:
                waiting = Waiting(event.position, size)
                self.turns[_BELLS[event.topic]].add(identity_of(event.stream)[0], event.stream, waiting)
        if reached != position:
            follow.set_checkpoint(connection, FOLLOWER, reached)
        return reached, len(events) == READ_LIMIT

    def _ring(self, bell: Bell, waiting: int, most: int | None = None) -> int:
        """Send messages with streams of all suppliers by turns. Return the number of streams.

        It ends when enough messages wait or hold `most` streams. `waiting` is the number of messages of this queue that
        no worker has fetched yet.
        """
        turns, costs, rung = self.turns[bell], self._costs[bell], 0
        known = [*costs][-waiting:] if waiting else []
        left = MESSAGES_PER_WORKER * max(1, self._workers) * bell.streams_per_message
        left -= sum(known) + (waiting - len(known)) * bell.streams_per_message
        while left > 0 and (most is None or rung < most):
            messages = turns.take(bell.streams_per_message)
            if not messages:
                break
            for streams in messages:
                self._doorbell.ring(streams, bell)
                measures().rung(bell.queue, len(streams))
                costs.append(max(min(ALONE, bell.streams_per_message), len(streams)))
                left -= costs[-1]
                rung += len(streams)
        return rung


def _due_bytes(event: follow.Followed) -> int | None:
    """Return the payload's bytes, 0 for an event without payload, or None for a stream that gets no message now.

    The sweeper finds an import when it is due. A stream with an event that cannot be read cannot be processed.
    """
    match event.event:
        case ImportStaged(not_before=not_before, payload_bytes=payload_bytes):
            return payload_bytes if not_before is None or not_before <= now() else None
        case Unreadable(error=error):
            logger.error("event cannot be read", stream=event.stream, position=event.position, reason=error)
            return None
        case _:
            return 0
