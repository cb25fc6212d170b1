"""Following the log: batches of events after a checkpoint, and notifications that wake followers after commits.

Positions are dense and in commit order, so one integer is a complete checkpoint. Followers listen for notifications to
be fast, and also poll every half second, since the first notification after LISTEN can be lost.

NOTIFY is sent outside of any append: inside a transaction it takes a lock over the whole cluster until the commit's
flush. A lost notification delays a follower by half a second and loses no event.
"""

import threading
from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.aggregates.aggregate import Event
from eventstore.errors import StoreUnavailable
from eventstore.events import read_event
from eventstore.log.columns import bounded
from eventstore.log.columns import log_head as log_head
from eventstore.log.recorder import LedgerDatastore
from eventstore.log.store_errors import store_errors
from telemetry.supervision import supervision

CHANNEL = "importledger"
MIN_INTERVAL_S = 0.1
"""Least time between two notifications of a process, in seconds."""
POLL_S = 0.5
"""Longest wait of a follower for a notification [seconds]. After this time, the follower reads the log."""

_SELECT_AFTER = bounded("""
SELECT position, stream, topic, state
FROM events
WHERE position > %b AND topic = ANY(%b)
ORDER BY position
LIMIT %b
""")
_SELECT_HAS_BETWEEN = """
SELECT count(*) >= %(count)s AS has
FROM (
    SELECT FROM events
    WHERE position > %(after)s AND position <= %(upto)s AND topic = ANY(%(topics)s)
    ORDER BY position
    LIMIT %(count)s
) AS later
"""
_SELECT_CHECKPOINT = "SELECT position FROM checkpoints WHERE follower = %s"
_UPSERT_CHECKPOINT = """
INSERT INTO checkpoints (follower, position) VALUES (%s, %s)
ON CONFLICT (follower) DO UPDATE SET position = excluded.position, updated_at = clock_timestamp()
"""


class Followed(msgspec.Struct, frozen=True, gc=False):
    """Event that a follower reads, possibly `Unreadable`."""

    position: int
    stream: str
    topic: str
    event: Event


def listen(connection: Connection[Any]) -> None:
    connection.execute(f"LISTEN {CHANNEL}")


def wait(connection: Connection[Any], timeout_s: float = POLL_S) -> None:
    """Wait for a notification, at most until the timeout."""
    for _ in connection.notifies(timeout=timeout_s, stop_after=1):
        pass


def read_after(
    connection: Connection[Any], position: int, topics: Sequence[str], *, limit: int
) -> tuple[list[Followed], int]:
    """Return events of the topics after a position, and the position up to which the log was read.

    Returns at most `limit` events, and fewer if they are large (`columns.MOST_BYTES`).
    """
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        head = log_head(connection)
        rows = cursor.execute(_SELECT_AFTER, (position, list(topics), limit), prepare=True).fetchall()
    events = [
        Followed(position, stream, topic, read_event(stream, topic, state))
        for position, stream, topic, state, *_ in rows
    ]
    if len(events) == limit or (rows and len(rows) < rows[0][-2]):
        return events, events[-1].position
    return events, max(head, events[-1].position if events else position)


def has_between(connection: Connection[Any], after: int, upto: int, topics: Sequence[str], count: int) -> bool:
    """Return whether the log has at least `count` events of the topics after one position up to another."""
    parameters = {"after": after, "upto": upto, "topics": list(topics), "count": count}
    row = connection.execute(_SELECT_HAS_BETWEEN, parameters).fetchone()
    return bool(row and row["has"])


def checkpoint(connection: Connection[Any], follower: str) -> int:
    row = connection.execute(_SELECT_CHECKPOINT, (follower,)).fetchone()
    return row["position"] if row else 0


def set_checkpoint(connection: Connection[Any], follower: str, position: int) -> None:
    connection.execute(_UPSERT_CHECKPOINT, (follower, position))


class CommitNotifier:
    """Thread that sends NOTIFY, at most once per interval."""

    def __init__(self, datastore: LedgerDatastore) -> None:
        self._datastore = datastore
        self._requested = threading.Event()
        self._closed = threading.Event()
        self._thread = supervision.thread("notifier", self._notify_on_demand, self._closed)

    def notify(self) -> None:
        """Request a notification, and return immediately."""
        self._requested.set()

    def close(self) -> None:
        """Send a requested notification, and stop."""
        self._closed.set()
        self._requested.set()
        self._thread.join()

    def _notify_on_demand(self) -> None:
        while True:
            self._requested.wait()
            self._requested.clear()
            try:
                with store_errors(), self._datastore.pool.connection() as connection:
                    connection.execute(f"NOTIFY {CHANNEL}")
            except StoreUnavailable:
                pass  # followers also poll, so a lost notification does no harm
            if self._closed.wait(MIN_INTERVAL_S):
                return
