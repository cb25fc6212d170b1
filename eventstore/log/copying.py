"""COPY into tables in Postgres' binary format, which costs an eighth of what its text format costs."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from psycopg import Connection, Cursor
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from eventstore.log.copy_format import SIGNATURE, TRAILER

_JSON, _TEXT = 114, 25  # the binary form of json is its text
_types: dict[tuple[str, tuple[str, ...]], list[int]] = {}


def copy_into(
    connection: Connection[Any], schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> None:
    """COPY rows, whose values are of the columns' types: Decimal for numeric, aware datetimes, text for json.

    The caller names the columns, in the order of its values: one that a later version adds does not stop this one.
    """
    types = _types_of(connection, schema, table, tuple(columns))
    with connection.cursor() as cursor, cursor.copy(_copying(schema, table, tuple(columns))) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def copy_written(cursor: Cursor[Any], schema: str, table: str, columns: tuple[str, ...], rows: Iterable[bytes]) -> None:
    """COPY rows that are in COPY's format already, with their values in the order of these columns (`copy_format`)."""
    with cursor.copy(_copying(schema, table, columns)) as copy:
        copy.write(b"".join((SIGNATURE, *rows, TRAILER)))


@lru_cache(maxsize=256)
def _copying(schema: str, table: str, columns: tuple[str, ...]) -> bytes:
    """The statement, which is put together once: a worker writes thirteen tables for each of its batches."""
    names = SQL(", ").join(map(Identifier, columns))
    return SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(Identifier(schema, table), names).as_bytes(None)


def _types_of(connection: Connection[Any], schema: str, table: str, columns: tuple[str, ...]) -> list[int]:
    """The types of these columns; asked once for a table, since all its versions have the same."""
    if (table, columns) not in _types:
        names = SQL(", ").join(map(Identifier, columns))
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(SQL("SELECT {} FROM {} LIMIT 0").format(names, Identifier(schema, table)))
            described = cursor.description or ()
        _types[table, columns] = [_TEXT if column.type_code == _JSON else column.type_code for column in described]
    return _types[table, columns]
