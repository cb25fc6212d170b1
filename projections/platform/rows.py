"""Rows of the platform's tables, as COPY takes them, by functions that are compiled from the tables.

An account has two dozen rows, and a book half a million accounts. All rows of a table are put together at once: what
is made of an account is kept until others are ready, and each piece of memory more would be one that is in no cache.
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
    remembered,
    text,
    texts,
)
from projections.platform.json_columns import JSONB, encode_json
from projections.platform.tables import (
    ACCOUNT_TABLE,
    MARKET_ROOTS,
    RECORD_TABLES,
    Column,
    Table,
    table_columns,
)
from schemas.account import Account
from schemas.base import Wire, instant

WrittenRows = dict[str, list[bytes]]
"""Rows as COPY takes them, one after the other, by table name; columns in the tables' order."""


class UndatedRows(msgspec.Struct, frozen=True):
    """An account's rows but for the moment of its creation, which the first of them names."""

    begin: bytes
    end: bytes
    below: WrittenRows

    def at(self, created_at: datetime) -> WrittenRows:
        """The rows of an account that is created at this moment."""
        return {ACCOUNT_TABLE.name: [self.begin + _INSTANT[created_at] + self.end], **self.below}


def undated_rows_of(account: Account, account_number: str) -> UndatedRows:
    """The account's rows, to be dated."""
    key, writer = text(account_number), _WRITERS[ACCOUNT_TABLE.name]
    return UndatedRows(ACCOUNT_TABLE.head + key, writer.own(b"", account), writer.below(account, key))


def rows_of(account: Account, account_number: str, created_at: datetime) -> WrittenRows:
    """The account's rows."""
    return undated_rows_of(account, account_number).at(created_at)


def rows_under(root: Table, value: Wire, key: Sequence[bytes], at: datetime) -> WrittenRows:
    """The rows of a record or market object and of what is below it; `key` are the values of the root's key columns."""
    writer, place = _WRITERS[root.name], b"".join(key)
    return {root.name: [writer.own(root.head + place + _INSTANT[at], value)], **writer.below(value, place)}


def erased_row(account_number: str, supplier: str, external: str, erased_at: datetime) -> bytes:
    """What remains of an erased account: the row of `service_account` with its number, its keys and that time."""
    said = {
        "account_number": text(account_number),
        "import_supplier": text(supplier),
        "external_account_number": text(external),
        "erased_at": _INSTANT[erased_at],
    }
    return ACCOUNT_TABLE.head + b"".join(said.get(name, NULL) for name, _ in table_columns(ACCOUNT_TABLE))


class _Writer(msgspec.Struct, frozen=True):
    """What writes a wire object: its own row, from its beginning, and the rows below it, from their owner's key."""

    own: Callable[[bytes, Any], bytes]
    below: Callable[[Any, bytes], WrittenRows]


_INSTANT = remembered("timestamptz", instant)
_NAMES: dict[str, Any] = {
    "UNSET": UNSET,
    "SIZE": SIZE,
    "JSONB": JSONB,
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
"""What the expressions of columns call."""


def _compiled(root: Table) -> _Writer:
    """Functions from source code, which is made of the names of fields in `schemas/` and of tables alone."""
    names = dict(_NAMES)
    for table in root.all():
        names[f"head_{table.name}"] = table.head
        names |= {f"{table.name}_{one.name}": one.encoder for one in table.columns if one.encoder}
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
"""Of a table's rows, a hundred: in pieces they take three times the memory, which counts for large accounts."""


def _loops(table: Table, indent: str) -> Iterator[str]:
    """What goes through the objects of the table's children, those of one of its own being at hand."""
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
