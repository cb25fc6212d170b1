"""What is asked of the table `events`, said once: its columns in the order of a leaf, and how far the log is."""

from typing import LiteralString


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
