"""How erasing a person and making tables keep out of each other's way.

Whoever writes rows from payloads has read these before, and an erasure may come in between. So whoever does holds this
lock, shared, until the rows are committed; an erasure holds it alone. Either the erasure finds the rows and deletes
them, or they are written by somebody who sees it.
"""

from collections.abc import Iterator
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

from eventstore.events import ERASURES, Recorded, Unreadable, recorded_of
from eventstore.log import locks
from eventstore.log.columns import SELECT_EVENTS

_SELECT_ERASURES = (
    SELECT_EVENTS
    + """WHERE topic = ANY(%s) AND position > %s
ORDER BY position
"""
)


def wait_for_erasures(connection: Connection[Any]) -> None:
    """Wait for running erasures, and keep new ones waiting until the connection's transaction ends.

    What was erased before can be seen from then on.
    """
    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (locks.ERASURE,))


def be_alone(connection: Connection[Any]) -> None:
    """From now on nobody writes rows from payloads that they have read before, until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.ERASURE,))


def read_erasures(connection: Connection[Any], *, after: int) -> Iterator[Recorded]:
    """Who was erased after a position of the log."""
    with connection.cursor(binary=True, row_factory=dict_row) as cursor:
        erasures = [recorded_of(row) for row in cursor.execute(_SELECT_ERASURES, ([*ERASURES], after)).fetchall()]
    yield from (one for one in erasures if not isinstance(one.event, Unreadable))
