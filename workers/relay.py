"""The relay: follows the log and rings for each import that is to be processed and each e-mail to be sent.

The log is the outbox. The relay rings first and moves its checkpoint afterwards: a crash between the two rings
twice, which is harmless. On the idle service it rings at once; while much arrives it gathers. One relay is active, by
an advisory lock; others stand by. While many messages wait it reads no further: the work waits in Postgres, where it
can be seen. While intake needs the processors (`workers.intake`) it rings for little at a time.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import structlog
from psycopg import Connection

from eventstore.aggregates.customer_mail import TOPICS as MAIL_TOPICS
from eventstore.aggregates.customer_mail import MailRequested
from eventstore.aggregates.import_process import TOPICS as IMPORT_TOPICS
from eventstore.aggregates.import_process import ImportRetried, ImportStaged
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.events import Unreadable
from eventstore.log import follow, locks
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import MAX_OPEN_BYTES, in_pieces
from telemetry.measures import measures
from telemetry.supervision import supervision
from workers.broker import IMPORTS, MAILS, STREAMS_PER_MESSAGE, Bell, BellUnavailable, Doorbell
from workers.intake import LOOK_EVERY_S, Intake
from workers.leader import lead
from workers.sweeper import Sweeper

FOLLOWER = "relay"
MAX_WAITING_MESSAGES = 20
READ_LIMIT = 3 * STREAMS_PER_MESSAGE
YIELDING_S = 2.0
"""While intake goes first, the relay rings once in this time, for one message. It looks more often if that is over."""
GATHER_S = 0.2
"""How long after a message that was not full the relay reads again: what arrives meanwhile shares one message."""

_BELLS: dict[str, Bell] = {
    topic: bell
    for bell, topics in ((IMPORTS, IMPORT_TOPICS), (MAILS, MAIL_TOPICS))
    for topic, event in topics.items()
    if event in (ImportStaged, ImportRetried, MailRequested)
}
"""Who is rung for which event."""

logger = structlog.get_logger()


class Relay:
    """Runs until `stop` is set; survives the loss of Postgres and of Redis."""

    def __init__(self, ledger: Ledger, doorbell: Doorbell, *, intake: Intake | None = None) -> None:
        self._ledger = ledger
        self._intake = intake or Intake()
        self._doorbell = doorbell
        self._sweeper = Sweeper(ledger, doorbell)
        self._rung = 0
        """For how many events the last read has rung."""

    def run(self, stop: threading.Event) -> None:
        waits_for = (StoreUnavailable, BellUnavailable)
        leading = partial(lead, self._ledger, locks.RELAY, FOLLOWER, self._relay, stop, waits_for=waits_for)
        supervision.run(FOLLOWER, leading, stop)

    def _relay(self, connection: Connection[Any], stop: threading.Event) -> None:
        position, rings_at = follow.checkpoint(connection, FOLLOWER), 0.0
        logger.info("relay is active", position=position)
        while not stop.is_set():
            busy = False
            self._sweeper.sweep_when_due(connection, position)  # before the relay rings: it sweeps where nothing waits
            waiting = self._doorbell.waiting()
            measures().waiting(IMPORTS.queue, waiting)
            yields = self._intake.goes_first(connection)
            holds_back = yields and (waiting > 0 or time.monotonic() < rings_at)
            if not holds_back and waiting < MAX_WAITING_MESSAGES:
                rings_at = time.monotonic() + YIELDING_S
                reached = self._ring_after(connection, position, STREAMS_PER_MESSAGE if yields else READ_LIMIT)
                busy, position = reached != position, reached
            supervision.works(FOLLOWER)
            if yields or waiting >= MAX_WAITING_MESSAGES or (busy and self._rung < STREAMS_PER_MESSAGE):
                stop.wait(LOOK_EVERY_S if yields else GATHER_S)  # every append rings, and none of them makes room
                follow.wait(connection, 0.0)  # rings that nobody takes would gather in memory
            elif not busy:
                follow.wait(connection)

    def _ring_after(self, connection: Connection[Any], position: int, limit: int = READ_LIMIT) -> int:
        """Ring for so many of the events after the position; returns how far that went."""
        events, reached = follow.read_after(connection, position, tuple(_BELLS), limit=limit)
        self._rung = 0
        for bell in (IMPORTS, MAILS):
            sizes = {event.stream: _due_bytes(event) for event in events if _BELLS[event.topic] is bell}
            due = {stream: size for stream, size in sizes.items() if size is not None}
            self._rung += len(due)
            for streams in _messages(due, bell.streams_per_message):
                self._doorbell.ring(streams, bell)
                measures().rung(bell.queue, len(streams))
        if reached != position:
            follow.set_checkpoint(connection, FOLLOWER, reached)
        return reached


def _due_bytes(event: follow.Followed) -> int | None:
    """Size of the payload that the event has brought; None for what nobody is rung for.

    The sweeper rings when an import is due. A stream with an event that cannot be read cannot be processed.
    """
    match event.event:
        case ImportStaged(not_before=not_before, payload_bytes=payload_bytes):
            return payload_bytes if not_before is None or not_before <= now() else None
        case Unreadable(error=error):
            logger.error("event cannot be read", stream=event.stream, position=event.position, reason=error)
            return None
        case _:
            return 0


def _messages(due: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """The streams of each message: as many as a worker does together, so that others have their part of large ones."""
    streams = list(due)
    for at in range(0, len(streams), most):
        yield from in_pieces(streams[at : at + most], due.__getitem__, MAX_OPEN_BYTES)
