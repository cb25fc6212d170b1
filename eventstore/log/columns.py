"""Columns of the table `events` in the order of a leaf, and its last position."""

from typing import Any, LiteralString

from psycopg import Connection

from eventstore.log.rows import value_of


def columns_of(alias: LiteralString = "") -> LiteralString:
    """Return all columns of `events` for a SELECT, each after an alias such as `e.`"""
    return ", ".join([alias + name for name in _COLUMNS])


_COLUMNS: tuple[LiteralString, ...] = (
    *("position", "stream", "version", "topic", "recorded_at"),
    *("supplier", "caused_by", "command_id", "code_version", "state"),
)

SELECT_EVENTS: LiteralString = f"""
SELECT {columns_of()}
FROM events
"""  # noqa: S608 - constants
"""Beginning of a query of whole events, to be followed by a condition and an order."""

MOST_BYTES = 32_000_000
"""Bytes of events after which one read ends. Longer reads could exhaust the memory or the statement time-out."""


def bounded(query: LiteralString) -> LiteralString:
    """Return a query of the first events of `query` with MOST_BYTES together, or of its first event if this is larger.

    `query` must return events in order, with position and state. The returned query has two more columns: the number of
    all events of `query`, and the bytes of the events before each event.
    """
    return f"""
SELECT * FROM (
    SELECT n.*, count(*) OVER (), sum(octet_length(n.state)) OVER upto - octet_length(n.state) AS before
    FROM ({query}) AS n
    WINDOW upto AS (ORDER BY n.position ROWS UNBOUNDED PRECEDING)
) AS counted
WHERE before < {MOST_BYTES}
ORDER BY position
"""  # noqa: S608 - constants


SELECT_HEAD = "SELECT coalesce(max(position), 0) AS head FROM events"
"""Query of the last position of the log; 0 if it is empty."""


def log_head(connection: Connection[Any]) -> int:
    """Return the last position of the log; 0 if it is empty."""
    return int(value_of(connection, SELECT_HEAD))
