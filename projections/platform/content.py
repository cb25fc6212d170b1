"""Content of accounts on the platform: digest, numbers of rows and sums, computed in SQL from the rows.

The importing party computes the same digest from the source (`importledger_client.digest`, which describes the form).
Digests are not stored, so a digest always describes the present rows, also after a change that no event has caused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from functools import reduce
from typing import Any

import msgspec
from psycopg import Connection

from eventstore.log.rows import rows_of
from projections.platform.tables import ACCOUNT_TABLE, Table, table_columns

EXACT = Context(prec=200)
"""Decimal context of sums. The default context would round sums to 28 digits."""
_SUMMED = {"transfer_balances": ("service_account", "transfer_balance"), "readings": ("reading", "value")}
"""Columns whose values are summed, by the name of the sum."""
_TABLES = tuple(table for table in ACCOUNT_TABLE.all() if table is not ACCOUNT_TABLE)


class Contents(msgspec.Struct, frozen=True):
    """Content of several accounts: digests by number, None after an erasure, and totals of accounts with a digest."""

    digests: Mapping[str, int | None]
    rows: Mapping[str, int]
    """Numbers of rows by table."""
    sums: Mapping[str, Decimal]
    """Sums of columns by name, without sums of no values."""


def account_contents(connection: Connection[Any], numbers: Sequence[str]) -> Contents:
    """Return the content of accounts, without accounts that do not exist."""
    with by_index(connection):
        accounts = rows_of(connection, _SELECT_CONTENTS, numbers=list(numbers))
    digests = {number: None if digest is None else digest % 2**64 for number, digest, *_ in accounts}
    columns = [*zip(*(row for row in accounts if row[1] is not None), strict=True)][2:]
    rows = {table.name: sum(column) for table, column in zip(_TABLES, columns, strict=False)}
    amounts = {
        name: [amount for amount in column if amount is not None]
        for name, column in zip(_SUMMED, columns[len(_TABLES) :], strict=False)
    }
    return Contents(digests, rows, {name: reduce(EXACT.add, values) for name, values in amounts.items() if values})


@contextmanager
def by_index(connection: Connection[Any]) -> Iterator[None]:
    """Make queries of accounts by their numbers fast: ordered index scans that are merged, and no compiling.

    While statistics are missing, as after an import, the planner would read whole tables for each portion of accounts.
    """
    with connection.transaction():
        connection.execute(_PLANNING)
        yield


_PLANNING = "".join(
    f"SET LOCAL {name} = {value};"
    for name, value in {
        "jit": "off", "enable_bitmapscan": "off", "enable_seqscan": "off", "enable_hashjoin": "off",
        "enable_nestloop": "off", "join_collapse_limit": 1,
    }.items()
)  # fmt: skip
_NOT_CONTENT = frozenset({"created_at", "erased_at", "account_number", "import_supplier"})
"""Columns that are not in the digest: the supplier, which is known, and the platform's own columns."""
_TEXTS = {
    "text": "{c}",
    "numeric": "trim_scale({c})::text",
    "bigint": "{c}::text",
    "boolean": "{c}::text",
    "date": "{c}::text",
    "timestamptz": "({c} AT TIME ZONE 'UTC')::text",
    "text[]": "array_to_string({c}, E'\\x1f')",
}
"""Templates of a scalar column's text, by its type."""


def _row(table: Table, row: str = "t") -> str:
    """Return the expression of a row as JSON: its ordinals, its scalars as an array of texts, its JSON columns."""
    columns = [(name, kind) for name, kind in table_columns(table) if name not in _NOT_CONTENT]
    ordinals = [f'{row}."{name}"' for name, kind in columns if kind == "integer"]
    scalars = [_TEXTS[kind].format(c=f'{row}."{name}"') for name, kind in columns if kind in _TEXTS]
    documents = [f"""coalesce({row}."{name}", 'null')""" for name, kind in columns if kind == "json"]
    parts = [*ordinals, f"array_to_json(ARRAY[{', '.join(scalars)}])", *documents]
    return "concat('[', " + ", ',', ".join(parts) + ", ']')"


def _joined(table: Table) -> str:
    """Return a join with the number of each account's rows of a table, their content, and the sum of a column."""
    summed = "".join(f", sum(t.{column}) AS total" for of_table, column in _SUMMED.values() if of_table == table.name)
    inner = "".join(f", t.{column}" for of_table, column in _SUMMED.values() if of_table == table.name)
    return f"""
LEFT JOIN (
    SELECT t.account_number, count(*) AS number, string_agg(t.content, ',') AS content{summed} FROM (
        SELECT t.account_number, {_row(table)} AS content{inner} FROM platform."{table.name}" AS t
        WHERE t.account_number = ANY(%(numbers)s) ORDER BY t.account_number, t.ordinal
    ) AS t GROUP BY t.account_number
) AS "{table.name}" USING (account_number)"""  # noqa: S608 - names of tables


_CONTENT = "concat('[[', {}, '],[', {}, ']]')".format(
    _row(ACCOUNT_TABLE, "a"), ", '],[', ".join(f'"{table.name}".content' for table in _TABLES)
)
_SELECT_CONTENTS = f"""
SELECT a.account_number, CASE WHEN a.erased_at IS NULL THEN
    ('x' || encode(substr(sha256(convert_to({_CONTENT}, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
END, {", ".join(f'coalesce("{table.name}".number, 0)' for table in _TABLES)}, a.transfer_balance, "reading".total
FROM platform.service_account AS a {"".join(map(_joined, _TABLES))}
WHERE a.account_number = ANY(%(numbers)s)
""".encode()  # noqa: S608 - names of tables and columns
