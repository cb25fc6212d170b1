"""What belongs to an account: the platform's records that its import became, what was attached to it, and its seal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row, tuple_row
from psycopg.sql import SQL, Identifier

from projections.platform.tables import TABLES, Table, primary_key, table_columns

MAX_ROWS = 100
"""Rows of a table that are shown of one account."""
MAX_RECORDS = 200


class AccountTable(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one table, those columns that are filled in any of them."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    """Whether there are more than are shown."""


class AttachedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery note, energy amount or invoice of the account."""

    stream: str
    kind: str
    is_cancelled: bool
    created_at: datetime
    modified_at: datetime

    @property
    def reference(self) -> str:
        return self.stream.split("/", 3)[-1]


class Seal(msgspec.Struct, frozen=True):
    """The checkpoint that covers a position: how many events it speaks of, and when it was signed."""

    size: int
    sealed_at: datetime


_SELECT_RECORDS = """
SELECT stream, kind, is_cancelled, created_at, modified_at
FROM account_record
WHERE supplier = %s AND external_account_number = %s
ORDER BY created_at, stream
LIMIT %s
"""
_SELECT_SEAL = """
SELECT size, sealed_at
FROM log_checkpoints
WHERE size >= %s AND branch = (SELECT max(branch) FROM log_checkpoints)
ORDER BY size
LIMIT 1
"""


async def platform_records(connection: AsyncConnection[Any], account_number: str) -> list[AccountTable]:
    """The platform's rows of an account, by table; tables without any are left out."""
    tables = []
    async with connection.cursor(row_factory=dict_row) as cursor:
        for table in TABLES:
            order = SQL(", ").join(map(Identifier, primary_key(table)))
            query = SQL("SELECT * FROM {} WHERE account_number = %s ORDER BY {} LIMIT {}").format(
                Identifier("platform", table.name), order, MAX_ROWS + 1
            )
            rows = await (await cursor.execute(query, (account_number,))).fetchall()
            if rows:
                tables.append(_shown(table, rows))
    return tables


def _shown(table: Table, rows: Sequence[dict[str, Any]]) -> AccountTable:
    """In the order in which the columns are declared, without those that are empty everywhere."""
    names = [name for name, _ in table_columns(table) if name != "account_number"]
    filled = tuple(name for name in names if any(row.get(name) not in (None, "", [], {}) for row in rows))
    kept = rows[:MAX_ROWS]
    return AccountTable(
        table=table.name,
        columns=filled,
        rows=tuple(tuple(row[name] for name in filled) for row in kept),
        is_cut=len(rows) > MAX_ROWS,
    )


async def attached_records(connection: AsyncConnection[Any], supplier: str, external: str) -> list[AttachedRecord]:
    """What was attached to the account, in the order in which it came; 200 at most."""
    async with connection.cursor(row_factory=class_row(AttachedRecord)) as cursor:
        return await (await cursor.execute(_SELECT_RECORDS, (supplier, external, MAX_RECORDS))).fetchall()


async def seal_over(connection: AsyncConnection[Any], position: int) -> Seal | None:
    """The first checkpoint that covers a position; None where none does yet."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        row = await (await cursor.execute(_SELECT_SEAL, (position,))).fetchone()
    return Seal(*row) if row else None
