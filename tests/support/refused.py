"""Refused attempts, written and read without a request."""

from collections.abc import Collection
from typing import Any
from uuid import uuid4

from psycopg import Connection
from psycopg.rows import class_row

from projections.auxiliary.refused_attempts import Attempt, write_attempts


def write(connection: Connection[Any], *attempts: Attempt) -> None:
    """Store them, each under a new id."""
    write_attempts(connection, {uuid4(): attempt for attempt in attempts})


def find_refused_attempts(
    connection: Connection[Any], external: str, suppliers: Collection[str] | None = None
) -> list[Attempt]:
    """Refused attempts under a number, the newest first."""
    query = (
        "SELECT supplier, external_account_number, attempted_at, operation, code, problems FROM refused_attempts"
        " WHERE external_account_number = %s ORDER BY number DESC"
    )
    with connection.cursor(row_factory=class_row(Attempt)) as cursor:
        rows = cursor.execute(query, (external,)).fetchall()
    return [row for row in rows if suppliers is None or row.supplier in suppliers]
