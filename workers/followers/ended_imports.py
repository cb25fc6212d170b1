"""Log one line `import ended` for each import that ends, in whatever way and after any number of attempts.

One follower reads the ends from the log of events, so a worker that dies after its commit loses no line. The follower
saves its position after the lines are written, and repeats no lines if it could not save its position. If the process
is killed before it saves its position, the next process repeats the last lines, with the same `position`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import Connection

from eventstore.aggregates.import_process import STATUS_AFTER_TOPIC, WAITING, identity_of, status_after_erasure
from eventstore.clock import now
from eventstore.events import Unreadable
from eventstore.log import follow, locks
from eventstore.log.ledger import Ledger
from redaction.text import cleaned
from telemetry.measures import measures
from telemetry.supervision import supervision
from workers.followers.leader import Follower

FOLLOWER = "ended imports"
READ_LIMIT = 1_000
_ENDS = {topic: status for topic, status in STATUS_AFTER_TOPIC.items() if status not in WAITING}
"""Status of an ended import, by the topic of its last event. An erasure ends an import that had not ended."""
_ERASED = "subject_erased.v1"
_WATCHED = (*_ENDS, _ERASED)
_SELECT_BEFORE = """
SELECT topic FROM events
WHERE stream = %s AND position < %s
ORDER BY version DESC
LIMIT 1
"""


class EndedLine(msgspec.Struct, frozen=True, kw_only=True):
    """Log line about an import that has ended, without personal data."""

    event: str = "import ended"
    level: str = "info"
    timestamp: datetime
    supplier: str
    external_account_number: str
    status: str
    attempt: int
    code: str | None
    position: int

    def readable(self) -> str:
        """Format the line as text."""
        moment = f"{self.timestamp:%Y-%m-%dT%H:%M:%S.%fZ}"
        return (
            f"{moment} {self.event} {self.supplier} {self.external_account_number} {self.status}"
            f" {self.code or '-'}, attempt {self.attempt}, position {self.position}"
        )


class EndedImports(Follower):
    """Follower that logs a line for each import that ends, until `stop` is set.

    It survives the loss of Postgres. Only one such follower is active, by an advisory lock. Lines of many imports are
    written in one call.
    """

    name = FOLLOWER
    lock = locks.ENDED_IMPORTS
    listens = False

    def __init__(self, ledger: Ledger, write: Callable[[Sequence[EndedLine]], None] = lambda lines: None) -> None:
        super().__init__(ledger)
        self._write = write
        self._written_to = 0
        """Position of the last line of this process."""

    def work(self, connection: Connection[Any], stop: threading.Event) -> None:
        if not follow.checkpoint(connection, FOLLOWER):  # no lines for imports that ended before the first start
            follow.set_checkpoint(connection, FOLLOWER, follow.checkpoint(connection, "relay"))
        while not stop.is_set():
            has_more = self.write_lines(connection)
            supervision.works(FOLLOWER)
            if not has_more:
                stop.wait(follow.POLL_S)

    def write_lines(self, connection: Connection[Any]) -> bool:
        """Write a line for each import that has ended since the last call. Return whether more may follow."""
        position = follow.checkpoint(connection, FOLLOWER)
        events, last_position = follow.read_after(connection, position, _WATCHED, limit=READ_LIMIT)
        lines = [
            _line_of(event) for event in events if event.position > self._written_to and _is_end(connection, event)
        ]
        if lines:
            self._write(lines)
            self._written_to = lines[-1].position
        for status, imports in Counter(line.status for line in lines).items():
            measures().ended(status, imports)
        if last_position != position:
            follow.set_checkpoint(connection, FOLLOWER, last_position)
        self._written_to = min(self._written_to, last_position)  # a log that has lost its end uses positions again
        return len(events) == READ_LIMIT


def _is_end(connection: Connection[Any], event: follow.Followed) -> bool:
    """Return True if the import ends with this event. An erasure ends an import that had not ended before.

    Return False for an event that cannot be read, since its stream may not be an import.
    """
    if isinstance(event.event, Unreadable):
        return False
    if event.topic != _ERASED:
        return True
    row = connection.execute(_SELECT_BEFORE, (event.stream, event.position)).fetchone()
    return row is not None and row["topic"] not in _ENDS


def _line_of(event: follow.Followed) -> EndedLine:
    supplier, external = identity_of(event.stream)
    code = getattr(event.event, "code", None)
    return EndedLine(
        timestamp=now(),
        supplier=cleaned(supplier),
        external_account_number=cleaned(external),
        status=_ENDS.get(event.topic, status_after_erasure(False)),
        attempt=getattr(event.event, "attempt", 0),
        code=None if code is None else cleaned(code),
        position=event.position,
    )
