"""The relay: follows the log and sends workers a message for each import to process and each e-mail to send.

The log is the outbox. The relay reads it to its end and adds each stream that is due to the lane of its supplier, a
queue in memory (`workers.followers.fair_queue`). Messages are filled from all lanes in turn, and few messages wait for
workers at a time. Therefore a supplier waits only a short time, even if another supplier has sent many accounts. The
checkpoint is saved before messages are sent. Streams that a crash loses are in the status view, where the sweeper finds
them. An idle relay sends messages at once; a busy relay gathers streams for a message. Only one relay is active, by an
advisory lock; other relays stand by. While intake has priority (`workers.intake`), the relay sends one message per
interval.
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
from workers.broker import IMPORTS, MAILS, STREAMS_PER_MESSAGE, Dispatcher, Queue, QueueUnavailable
from workers.followers.fair_queue import ALONE, FairQueue, Waiting
from workers.followers.leader import Follower
from workers.followers.sweeper import Sweeper
from workers.intake import CHECK_EVERY_S, Intake

FOLLOWER = "relay"
MESSAGES_PER_WORKER = 1
"""Full messages that may wait for each worker process.

With more waiting messages, a supplier would wait longer for its turn.
"""
MAILS_PER_MINUTE = 600
"""E-mails of one supplier in a minute. Further e-mails wait."""
READ_LIMIT = 3 * STREAMS_PER_MESSAGE
"""Events per query of the log."""
YIELDING_S = 2.0
"""Interval between two messages while intake has priority [seconds]."""
COUNT_EVERY_S = 2.0
"""Interval between two counts of the workers [seconds]."""
GATHER_S = 0.2
"""Pause after a message that was not full [seconds]. Streams that arrive meanwhile share the next message."""
FULL_PAUSE_S = 0.05
"""Pause while imports wait because the workers' queue is full [seconds]. A longer pause would leave workers idle."""

_QUEUES: dict[str, Queue] = {
    topic: queue
    for queue, topics in ((IMPORTS, IMPORT_PROCESS.topics), (MAILS, CUSTOMER_MAIL.topics))
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
    """Follower that sends messages to workers until `stop` is set. It survives the loss of Postgres and of Redis."""

    name = FOLLOWER
    lock = locks.RELAY
    waits_for = (StoreUnavailable, QueueUnavailable)

    def __init__(self, ledger: Ledger, dispatcher: Dispatcher, *, intake: Intake | None = None) -> None:
        super().__init__(ledger)
        self._intake = intake or Intake()
        self._dispatcher = dispatcher
        self.lanes = {IMPORTS: FairQueue(), MAILS: FairQueue(per_minute=MAILS_PER_MINUTE)}
        self._sweeper = Sweeper(ledger, dispatcher, self.lanes)
        self._costs: dict[Queue, deque[int]] = {queue: deque(maxlen=1_000) for queue in self.lanes}
        """Costs of the last messages, by queue.

        The cost of a message is the number of its streams, but at least ALONE.
        """
        self._workers, self._counted_at = 0, float("-inf")

    def work(self, connection: Connection[Any], stop: threading.Event) -> None:
        position, next_send_at, is_behind = follow.checkpoint(connection, FOLLOWER), 0.0, True
        for queue in self.lanes.values():
            queue.forget_sent()
        logger.info("relay is active", position=position)
        while not stop.is_set():
            self._count_workers(connection)
            self._sweeper.sweep_when_due(connection, position)
            waiting = self._dispatcher.waiting()
            measures().waiting(IMPORTS.name, waiting)
            has_priority = self._intake.has_priority(connection)
            holds_back = has_priority and (waiting > 0 or time.monotonic() < next_send_at)
            if is_behind or not holds_back:
                position, is_behind = self._read_log(connection, position)
            sent = 0
            if not holds_back and not (has_priority and is_behind):
                sent = self._enqueue(IMPORTS, waiting, STREAMS_PER_MESSAGE if has_priority else None)
                next_send_at = time.monotonic() + YIELDING_S if sent else next_send_at
            self._enqueue(MAILS, self._dispatcher.waiting(MAILS) if self.lanes[MAILS] else 0)
            supervision.works(FOLLOWER)
            if not is_behind:
                self._pause(connection, stop, sent, has_priority=has_priority)

    def _pause(self, connection: Connection[Any], stop: threading.Event, sent: int, *, has_priority: bool) -> None:
        """Pause briefly while intake has priority, while streams wait, or after a message that was not full.

        If no message was sent, wait for the log. After a full message without waiting streams, do not pause.
        """
        if has_priority or 0 < sent < STREAMS_PER_MESSAGE or any(self.lanes.values()):
            pause = FULL_PAUSE_S if self.lanes[IMPORTS] and self._workers else GATHER_S
            stop.wait(
                CHECK_EVERY_S if has_priority else pause
            )  # not follow.wait: every append notifies, and none empties the queue
            follow.wait(connection, 0.0)  # discard the notifications, which would fill memory
        elif not sent:
            follow.wait(connection)

    def _count_workers(self, connection: Connection[Any]) -> None:
        if time.monotonic() - self._counted_at >= COUNT_EVERY_S:
            row = connection.execute(_COUNT_WORKERS, (locks.WORKERS,)).fetchone()
            self._workers, self._counted_at = row["workers"] if row else 0, time.monotonic()

    def _read_log(self, connection: Connection[Any], position: int) -> tuple[int, bool]:
        """Add the streams after the position to the lanes. Return the position reached, and True if there are more."""
        events, last_position = follow.read_after(connection, position, tuple(_QUEUES), limit=READ_LIMIT)
        for event in events:
            size = _due_bytes(event)
            if size is not None:
                waiting = Waiting(event.position, size)
                self.lanes[_QUEUES[event.topic]].add(identity_of(event.stream)[0], event.stream, waiting)
        if last_position != position:
            follow.set_checkpoint(connection, FOLLOWER, last_position)
        return last_position, len(events) == READ_LIMIT

    def _enqueue(self, queue: Queue, waiting: int, limit: int | None = None) -> int:
        """Send messages with streams of all suppliers in turn.

        Return the number of sent streams. Sending ends when enough messages wait, or `limit` streams were sent.
        `waiting` is the number of messages of this queue that no worker has fetched yet.
        """
        lanes, costs, sent = self.lanes[queue], self._costs[queue], 0
        known = [*costs][-waiting:] if waiting else []
        left = MESSAGES_PER_WORKER * max(1, self._workers) * queue.streams_per_message
        left -= sum(known) + (waiting - len(known)) * queue.streams_per_message
        while left > 0 and (limit is None or sent < limit):
            messages = lanes.take(queue.streams_per_message)
            if not messages:
                break
            for streams in messages:
                self._dispatcher.enqueue(streams, queue)
                measures().message_sent(queue.name, len(streams))
                costs.append(max(min(ALONE, queue.streams_per_message), len(streams)))
                left -= costs[-1]
                sent += len(streams)
        return sent


def _due_bytes(event: follow.Followed) -> int | None:
    """Return the size of the event's payload, 0 without payload, or None for a stream that gets no message now.

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
