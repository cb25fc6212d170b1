"""Refused requests about an account, in a table outside the log: time, operation, codes and paths, without values.

Attempts are kept for 90 days, up to a million per supplier. Erasing a person deletes the attempts about their account.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from psycopg import AsyncConnection, Connection

from eventstore.log.rows import fetch_structs, rows_of

RETENTION = timedelta(days=90)
MAX_OF_SUPPLIER = 1_000_000
"""Attempts of a supplier that are kept. Older attempts are deleted."""
PAGE = 100
"""Attempts per page."""
MAX_PROBLEMS = 50
"""Problems of an attempt that are stored. Further problems are left out."""
MAX_PATH = 150
"""Characters of a path that are stored. Longer paths are cut."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A refused request: `code` of the answer, and problems as code@path. Later attempts have a larger `number`."""

    supplier: str
    external_account_number: str
    attempted_at: datetime
    operation: str
    code: str
    problems: Sequence[str] = ()
    number: int = 0


_INSERT = """
INSERT INTO refused_attempts (id, supplier, external_account_number, attempted_at, operation, code, problems)
SELECT %(id)s, %(supplier)s, %(external_account_number)s, %(attempted_at)s, %(operation)s, %(code)s, %(problems)s
WHERE NOT EXISTS (SELECT FROM payload_keys WHERE stream = %(stream)s AND erased_at >= %(attempted_at)s)
ON CONFLICT (id) DO NOTHING
"""
"""Insert that leaves out attempts from before the erasure of their person."""

_SELECT = """
SELECT supplier, external_account_number, attempted_at, operation, code, problems, number
FROM refused_attempts
WHERE external_account_number = %(external)s AND number < %(before)s
  AND (%(suppliers)s::text[] IS NULL OR supplier = ANY(%(suppliers)s))
ORDER BY number DESC
LIMIT %(limit)s
"""

DELETE_ATTEMPTS = (
    "DELETE FROM refused_attempts WHERE external_account_number = %(external)s AND supplier = %(supplier)s"
)

_DELETE_OLD = "DELETE FROM refused_attempts WHERE attempted_at < %s"
# Finds the suppliers with one index lookup for each.
_SELECT_SUPPLIERS = """
WITH RECURSIVE walk AS (
    SELECT min(supplier) AS supplier FROM refused_attempts
    UNION ALL
    SELECT (SELECT min(r.supplier) FROM refused_attempts AS r WHERE r.supplier > walk.supplier)
    FROM walk WHERE walk.supplier IS NOT NULL
)
SELECT supplier FROM walk WHERE supplier IS NOT NULL
"""
_DELETE_SURPLUS = """
DELETE FROM refused_attempts
WHERE supplier = %(supplier)s AND number <= (
    SELECT number FROM refused_attempts WHERE supplier = %(supplier)s ORDER BY number DESC OFFSET %(limit)s LIMIT 1)
"""


def write_attempts(connection: Connection[Any], attempts: Mapping[UUID, Attempt]) -> None:
    """Store attempts in one transaction, except attempts whose id exists and attempts from before their person's
    erasure.
    """
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            _INSERT,
            [
                msgspec.structs.asdict(attempt)
                | {
                    "id": number,
                    "problems": list(attempt.problems),
                    "stream": f"import/{attempt.supplier}/{attempt.external_account_number}",
                }
                for number, attempt in attempts.items()
            ],
        )


def delete_old_attempts(connection: Connection[Any], at: datetime, *, limit: int = MAX_OF_SUPPLIER) -> int:
    """Delete attempts older than 90 days, and all except the `limit` newest of each supplier; return the number of
    deleted attempts.
    """
    deleted = connection.execute(_DELETE_OLD, (at - RETENTION,)).rowcount
    suppliers = [row[0] for row in rows_of(connection, _SELECT_SUPPLIERS)]
    for supplier in suppliers:
        deleted += connection.execute(_DELETE_SURPLUS, {"supplier": supplier, "limit": limit}).rowcount
    return deleted


async def refused_attempts(
    connection: AsyncConnection[Any],
    external: str,
    suppliers: Collection[str] | None,
    *,
    before: int = 10**18,
    limit: int = PAGE,
) -> list[Attempt]:
    """Return refused attempts of an external account number, the newest first.

    `suppliers` limits the suppliers; None means all.

    `before` is the number of the last attempt of the previous page.
    """
    parameters = {"external": external, "before": before, "suppliers": None if suppliers is None else [*suppliers]}
    return await fetch_structs(connection, Attempt, _SELECT, **parameters, limit=limit)
