"""COPY in Postgres' binary format: the number of columns, then size and bytes of each value.

Frequent rows are joined from the parts here by functions compiled from their tables (`projections.platform.rows`),
which is faster than psycopg's rows. Values are still written by psycopg's dumpers. None and UNSET are NULL.
"""

import struct
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from types import NoneType
from typing import Any

from msgspec import UNSET, UnsetType
from psycopg import Connection, Cursor, adapters
from psycopg.pq import Format
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"

_MAX_CACHED = 20_000


class CachedValues(dict[Any, bytes]):
    """Cache of values of one type in COPY format: dates, prices and choices occur again and again."""

    def __init__(self, write: Callable[[Any], bytes]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, value: Hashable) -> bytes:
        if len(self) >= _MAX_CACHED:
            self.clear()
        written = self[value] = NULL if value is None or value is UNSET else self._write(value)
        return written


def cached_values(sql_type: str, prepare: Callable[[Any], Any] | None = None) -> CachedValues:
    """Return a cache of values of an SQL type. `prepare` converts a value for psycopg's dumper.

    Equal values must have the same COPY format. Numerics are cached as text, since 1.0 equals 1.00.
    """
    dumper = adapters.get_dumper_by_oid(adapters.types[sql_type].oid, Format.BINARY)(NoneType)

    def write(value: Any) -> bytes:
        if prepare is not None:
            value = prepare(value)
        content = None if value is None else dumper.dump(value)
        return NULL if content is None else SIZE[len(content)] + bytes(content)

    return CachedValues(write)


SIZE = CachedValues(struct.Struct(">i").pack)
"""Size of a value, written before its bytes."""
COLUMNS = CachedValues(struct.Struct(">h").pack)
"""Number of a row's columns, written before its values."""


INTEGER, BIGINT, BOOLEAN, DATE = map(cached_values, ("int4", "int8", "bool", "date"))
NUMERIC = cached_values("numeric", lambda digits: Decimal(digits) if digits else None)
"""Numbers as text. An empty text is NULL."""
CHOICE = cached_values("text")
"""Texts that have few different values, such as enums."""

_TEXT_OID = adapters.types["text"].oid
_NOTHING, _HEAD = struct.Struct(">3i").pack, struct.Struct(">5i").pack


def text(value: str | UnsetType | None) -> bytes:
    if value is None or value is UNSET:
        return NULL
    content = value.encode()
    return SIZE[len(content)] + content


def array(element_oid: int, elements: Sequence[bytes]) -> bytes:
    """Return the binary form of an array, without its size, from elements in COPY format."""
    if not elements:
        return _NOTHING(0, 0, element_oid)
    return b"".join((_HEAD(1, 0, element_oid, len(elements), 1), *elements))


def texts(values: Sequence[str] | None) -> bytes:
    """Return an array of text."""
    if values is None:
        return NULL
    content = array(_TEXT_OID, [*map(text, values)])
    return SIZE[len(content)] + content


_JSON, _TEXT = 114, 25  # the binary form of json is its text
_types: dict[tuple[str, tuple[str, ...]], list[int]] = {}


def copy_into(
    connection: Connection[Any], schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> None:
    """COPY rows with values of the columns' types: Decimal for numeric, aware datetimes, text for json.

    The caller names the columns in the order of the values, so a column of a later version does no harm.
    """
    types = _types_of(connection, schema, table, tuple(columns))
    with connection.cursor() as cursor, cursor.copy(_copying(schema, table, tuple(columns))) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def copy_written(cursor: Cursor[Any], schema: str, table: str, columns: tuple[str, ...], rows: Iterable[bytes]) -> None:
    """COPY rows that are already in the binary format, with values in the order of the named columns."""
    with cursor.copy(_copying(schema, table, columns)) as copy:
        copy.write(b"".join((SIGNATURE, *rows, TRAILER)))


@lru_cache(maxsize=256)
def _copying(schema: str, table: str, columns: tuple[str, ...]) -> bytes:
    """Return the COPY statement, which is cached because a worker writes thirteen tables for each batch."""
    names = SQL(", ").join(map(Identifier, columns))
    return SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(Identifier(schema, table), names).as_bytes(None)


def _types_of(connection: Connection[Any], schema: str, table: str, columns: tuple[str, ...]) -> list[int]:
    """Return the types of a table's columns, which are cached by table, since all its versions have the same types."""
    if (table, columns) not in _types:
        names = SQL(", ").join(map(Identifier, columns))
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(SQL("SELECT {} FROM {} LIMIT 0").format(names, Identifier(schema, table)))
            described = cursor.description or ()
        _types[table, columns] = [_TEXT if column.type_code == _JSON else column.type_code for column in described]
    return _types[table, columns]
