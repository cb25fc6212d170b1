"""Parts of an account: its rows in the platform's tables, its records, and its seal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.sql import SQL, Composable, Composed, Identifier

from eventstore.log.rows import fetch_rows, fetch_structs
from projections.platform.tables import TABLES, Table, primary_key, table_columns

PAGE = 100
"""Rows of a table, or records, per page."""


class AccountTable(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one table, with the columns that have a value in any of the rows."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    next_after: "RowKey | None"
    """Row after which the next page begins; None after the last row."""


RowKey = tuple[str | int, ...]
"""Sort key of a row within its account and table: reference, ordinal, or both."""
RecordSortKey = tuple[datetime, str]
"""Sort key of the list of records: time of arrival and stream."""


class AttachedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery note, energy amount or invoice of the account."""

    stream: str
    kind: str
    is_cancelled: bool
    created_at: datetime
    modified_at: datetime

    @property
    def sort_key(self) -> RecordSortKey:
        """Sort key of this record. The next page begins after the sort key of the last record."""
        return self.created_at, self.stream

    @property
    def reference(self) -> str:
        return self.stream.split("/", 3)[-1]


class Seal(msgspec.Struct, frozen=True):
    """Checkpoint that covers a position: its number of events, and the time of signing."""

    size: int
    sealed_at: datetime


_SELECT_RECORDS = """
SELECT stream, kind, is_cancelled, created_at, modified_at
FROM account_record
WHERE supplier = %(supplier)s AND external_account_number = %(external)s
  AND (%(at)s::timestamptz IS NULL OR (created_at, stream) > (%(at)s::timestamptz, %(after)s))
ORDER BY created_at, stream
LIMIT %(limit)s
"""
_SELECT_SEAL = """
SELECT size, sealed_at
FROM log_checkpoints
WHERE size >= %s AND branch = (SELECT max(branch) FROM log_checkpoints)
ORDER BY size
LIMIT 1
"""


async def platform_records(
    connection: AsyncConnection[Any],
    account_number: str,
    after: tuple[str, RowKey] | None = None,
    *,
    limit: int = PAGE,
) -> list[AccountTable]:
    """Read the platform's rows of an account by table, without empty tables.

    `after` is the name of a table and the row after which its page begins. Raises ValueError for an invalid row.
    """
    tables = []
    async with connection.cursor(row_factory=dict_row) as cursor:
        for table in TABLES:
            sort_key = after[1] if after and after[0] == table.name else ()
            query, parameters = _select(table, account_number, sort_key, limit + 1)
            rows = await (await cursor.execute(query, parameters)).fetchall()
            if rows:
                tables.append(_table_page(table, rows, limit))
    return tables


def _select(table: Table, account_number: str, sort_key: RowKey, limit: int) -> tuple[Composed, list[Any]]:
    """Return the query for the page after a row [(): the first page]. Raises ValueError for an invalid row."""
    key_columns, types = primary_key(table)[1:], dict(table_columns(table))
    kinds = [int if types[name] == "integer" else str for name in key_columns]
    if sort_key and [type(value) for value in sort_key] != kinds:
        raise ValueError("no page ends at this row")
    begins: Composable = SQL("")
    if sort_key:
        begins = SQL(" AND ({}) > ({})").format(
            SQL(", ").join(map(Identifier, key_columns)),
            SQL(", ").join(SQL("%s::{}").format(SQL(types[name])) for name in key_columns),
        )
    query = SQL("SELECT * FROM {table} WHERE account_number = %s{begins} ORDER BY {order} LIMIT %s").format(
        table=Identifier("platform", table.name),
        begins=begins,
        order=SQL(", ").join(map(Identifier, primary_key(table))),
    )
    return query, [account_number, *sort_key, limit]


def _table_page(table: Table, rows: Sequence[dict[str, Any]], limit: int) -> AccountTable:
    """Return the rows with columns in their declared order, without columns that are empty in all rows."""
    names = [name for name, _ in table_columns(table) if name != "account_number"]
    filled = tuple(name for name in names if any(row.get(name) not in (None, "", [], {}) for row in rows))
    page = rows[:limit]
    return AccountTable(
        table=table.name,
        columns=filled,
        rows=tuple(tuple(row[name] for name in filled) for row in page),
        next_after=tuple(page[-1][name] for name in primary_key(table)[1:]) if len(rows) > limit else None,
    )


async def attached_records(
    connection: AsyncConnection[Any],
    supplier: str,
    external: str,
    *,
    after: RecordSortKey | None = None,
    limit: int = PAGE,
) -> list[AttachedRecord]:
    """Read the account's records in order of arrival, after a sort key; at most `limit`."""
    at, stream = after or (None, "")
    parameters = {"supplier": supplier, "external": external, "at": at, "after": stream, "limit": limit}
    return await fetch_structs(connection, AttachedRecord, _SELECT_RECORDS, **parameters)


async def seal_over(connection: AsyncConnection[Any], position: int) -> Seal | None:
    """Return the first checkpoint that covers a position; None if no checkpoint covers it yet."""
    rows = await fetch_rows(connection, _SELECT_SEAL, position)
    return Seal(*rows[0]) if rows else None
