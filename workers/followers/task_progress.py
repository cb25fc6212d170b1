"""How far a task of the database's owner is, and what came of it: rows beside the log that can be deleted."""

from datetime import datetime
from typing import Any

from psycopg import Connection

_WRITE = """
INSERT INTO owner_task_progress AS p (task_id, done, total, outcome, written_at)
VALUES (%(task_id)s, %(done)s, %(total)s, %(outcome)s, %(at)s)
ON CONFLICT (task_id) DO UPDATE
SET done = excluded.done, total = excluded.total, outcome = excluded.outcome, written_at = excluded.written_at
"""


def write_progress(
    connection: Connection[Any], task_id: str, at: datetime, *, done: int, total: int, outcome: str = ""
) -> None:
    """Say how far it is; in the end what came of it, as JSON."""
    connection.execute(_WRITE, {"task_id": task_id, "done": done, "total": total, "outcome": outcome, "at": at})
