"""What is asked of the table `events`, said once: its columns in the order of a leaf, and how far the log is."""

from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row


def columns_of(alias: LiteralString = "") -> LiteralString:
    """All columns of `events`, for a SELECT: plain, or those of an alias such as `e.`."""
    return ", ".join([alias + name for name in _COLUMNS])


_COLUMNS: tuple[LiteralString, ...] = (
    *("position", "stream", "version", "topic", "recorded_at"),
    *("supplier", "caused_by", "command_id", "code_version", "state"),
)

SELECT_EVENTS: LiteralString = f"""
SELECT {columns_of()}
FROM events
"""  # noqa: S608 - constants
"""Events by all of their columns; a condition and an order follow."""

SELECT_HEAD = "SELECT coalesce(max(position), 0) AS head FROM events"
"""The last position of the log; 0 for an empty one."""


def rows_of(connection: Connection[Any], query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Rows of a query as tuples, whatever rows the connection makes."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query.encode(), parameters or None).fetchall()


def value_of(connection: Connection[Any], query: str, *parameters: Any) -> Any:
    """The one value of a query that gives one row."""
    [(value,)] = rows_of(connection, query, *parameters)
    return value


def log_head(connection: Connection[Any]) -> int:
    """The last position of the log; 0 for an empty one."""
    return int(value_of(connection, SELECT_HEAD))
