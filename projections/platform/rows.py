"""Rows of the platform's tables in the format of COPY, by functions that are compiled from the tables.

An account's rows of a table are joined into few bytes objects, because separate values would need more memory while the
rows wait for rows of other accounts.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from eventstore.log.copy_format import (
    BIGINT,
    BOOLEAN,
    CHOICE,
    DATE,
    INTEGER,
    NULL,
    NUMERIC,
    SIZE,
    cached_values,
    text,
    texts,
)
from projections.platform.json_columns import encode_json
from projections.platform.tables import ACCOUNT_TABLE, MARKET_ROOTS, RECORD_TABLES, Column, Table, table_columns
from schemas.account import Account
from schemas.base import Wire, instant

WrittenRows = dict[str, list[bytes]]
"""Rows in the format of COPY by table name, with columns in the order of the tables."""


class UndatedRows(msgspec.Struct, frozen=True):
    """Rows of an account without its time of creation, which is a column of the first row.

    `begin` and `end` are the first row's bytes before and after this time; `below` are the other rows.
    """

    begin: bytes
    end: bytes
    below: WrittenRows

    def at(self, created_at: datetime) -> WrittenRows:
        """Return the rows of the account with its time of creation."""
        return {ACCOUNT_TABLE.name: [self.begin + _INSTANT[created_at] + self.end], **self.below}


def undated_rows_of(account: Account, account_number: str) -> UndatedRows:
    """Return the account's rows without its time of creation."""
    key, writer = text(account_number), _WRITERS[ACCOUNT_TABLE.name]
    return UndatedRows(ACCOUNT_TABLE.head + key, writer.own(b"", account), writer.below(account, key))


def rows_of(account: Account, account_number: str, created_at: datetime) -> WrittenRows:
    """Return the account's rows."""
    return undated_rows_of(account, account_number).at(created_at)


def rows_under(root: Table, value: Wire, key: Sequence[bytes], at: datetime) -> WrittenRows:
    """Return the rows of a record or market object and of its children; `key` has the values of its key columns."""
    writer, prefix = _WRITERS[root.name], b"".join(key)
    return {root.name: [writer.own(root.head + prefix + _INSTANT[at], value)], **writer.below(value, prefix)}


def erased_row(account_number: str, supplier: str, external: str, erased_at: datetime) -> bytes:
    """Return the row of an erased account: its numbers, its supplier and the time of erasure."""
    values = {
        "account_number": text(account_number),
        "import_supplier": text(supplier),
        "external_account_number": text(external),
        "erased_at": _INSTANT[erased_at],
    }
    return ACCOUNT_TABLE.head + b"".join(values.get(name, NULL) for name, _ in table_columns(ACCOUNT_TABLE))


class _Writer(msgspec.Struct, frozen=True):
    """Functions that write a wire object's own row after a given beginning, and the rows of its children."""

    own: Callable[[bytes, Any], bytes]
    below: Callable[[Any, bytes], WrittenRows]


_INSTANT = cached_values("timestamptz", instant)
_NAMES: dict[str, Any] = {
    "UNSET": UNSET,
    "SIZE": SIZE,
    "CHOICE": CHOICE,
    "NUMERIC": NUMERIC,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "INSTANT": _INSTANT,
    "text": text,
    "texts": texts,
    "join": b"".join,
    "amount": lambda value: NUMERIC["" if value is UNSET or value is None else str(value)],
    "json": lambda value: NULL if value is UNSET else text(encode_json(value).decode()),
}
"""Names that the expressions of columns use."""


def _compiled(root: Table) -> _Writer:
    """Compile the functions of a root table. Their source consists of names of fields in `schemas/` and tables only."""
    names = dict(_NAMES)
    for table in root.all():
        names[f"head_{table.name}"] = table.head
        names |= {f"{table.name}_{column.name}": column.encoder for column in table.columns if column.encoder}
    exec("\n".join(_source(root)), names)  # noqa: S102 - see above
    return _Writer(names["own"], names["below"])


def _source(root: Table) -> Iterator[str]:
    tables = [table.name for table in root.all() if table is not root]
    yield f"def own(place, v): return join((place, {_pieces(root.columns)}))"
    yield "def below(v, key):"
    yield f"    below, of_{root.name} = {{}}, v"
    for name in tables:
        yield f"    rows_{name}, count_{name}, place_{name} = [], 0, head_{name} + key"
    yield from _loops(root, "    ")
    for name in tables:
        yield f"    if rows_{name}: below.setdefault('{name}', []).append(join(rows_{name}))"
    yield "    return below"


_MOST_PIECES = 2_000
"""Values after which a table's rows are joined, because separate values need three times the memory."""


def _loops(table: Table, indent: str) -> Iterator[str]:
    """Yield source lines of the loops over the children of a table's object."""
    for child in table.children:
        name, parent = child.name, f"ordinal_{child.parent}, " if child.parent else ""
        yield f"{indent}for v in of_{table.name}.{child.field} or ():"
        yield f"{indent}    count_{name} += 1"
        yield f"{indent}    ordinal_{name} = INTEGER[count_{name}]"
        yield f"{indent}    rows_{name} += (place_{name}, ordinal_{name}, {parent}{_pieces(child.columns)})"
        yield f"{indent}    if len(rows_{name}) > {_MOST_PIECES}:"
        yield f"{indent}        below.setdefault('{name}', []).append(join(rows_{name}))"
        yield f"{indent}        rows_{name}.clear()"
        if child.children:
            yield f"{indent}    of_{name} = v"
            yield from _loops(child, indent + "    ")


def _pieces(columns: Sequence[Column]) -> str:
    return "".join(f"{column.expression}, " for column in columns)


_WRITERS = {root.name: _compiled(root) for root in (ACCOUNT_TABLE, *RECORD_TABLES.values(), *MARKET_ROOTS)}
