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
"""Query of whole events. A condition and an order follow."""

MOST_BYTES = 32_000_000
"""Most bytes of events that a follower reads at once. More would take its memory, or longer than a statement may."""


def bounded(query: LiteralString) -> LiteralString:
    """Return a query of the first of these events, up to MOST_BYTES, with two more columns.

    `query` returns events in order, with position and state. The new columns are the number of its events, and the
    bytes before each.
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
