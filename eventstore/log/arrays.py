"""Columns as Postgres' binary arrays, for statements that take many rows at once.

The library looks at the values of each list to find out what they are, for each of the forty that an append has; here
the statement says so, which takes a third of that time for one row and half of it for twelve. How a value is written
stays the library's business (`copy_format`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

from eventstore.log.copy_format import BIGINT, BOOLEAN, INTEGER, NULL, SIZE, Remembered, array, remembered


class Written:
    """An array as it is sent. Each type of elements has a class of its own, by which the library knows its type."""

    __slots__ = ("content",)
    oid = 0

    def __init__(self, content: bytes) -> None:
        self.content = content


class _WrittenDumper(Dumper):
    """The library asks it for arrays of ours alone: it does not say its type before there is one."""

    format = Format.BINARY

    def __init__(self, cls: type[Written], context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        self.oid = cls.oid

    def dump(self, written: Written) -> bytes:
        return written.content


ArrayOf = Callable[[Sequence[Any]], Written]
"""Makes the array of these values; None is NULL."""


def _arrays(sql_type: str, write: Callable[[Sequence[Any]], list[bytes]]) -> ArrayOf:
    info = psycopg.adapters.types[sql_type]
    written: type[Written] = type(f"Written_{sql_type}", (Written,), {"__slots__": (), "oid": info.array_oid})
    psycopg.adapters.register_dumper(written, _WrittenDumper)
    return lambda values: written(array(info.oid, write(values)))


def _texts(values: Sequence[str | None]) -> list[bytes]:
    return [NULL if value is None else SIZE[len(x := value.encode())] + x for value in values]


def _blobs(values: Sequence[bytes | None]) -> list[bytes]:
    return [NULL if value is None else SIZE[len(value)] + value for value in values]


def _each(written: Remembered) -> Callable[[Sequence[Any]], list[bytes]]:
    return lambda values: [*map(written.__getitem__, values)]


ARRAY_OF: dict[str, ArrayOf] = {
    "text": _arrays("text", _texts),
    "bytea": _arrays("bytea", _blobs),
    "integer": _arrays("int4", _each(INTEGER)),
    "bigint": _arrays("int8", _each(BIGINT)),
    "boolean": _arrays("bool", _each(BOOLEAN)),
    "timestamptz": _arrays("timestamptz", _each(remembered("timestamptz"))),
}
"""By the SQL type of the elements."""


def arrays_of(columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Written]:
    """Rows as an array for each column; `columns` are their names and SQL types, in the order of a row."""
    values = zip(*rows, strict=True) if rows else ((),) * len(columns)
    return {name: ARRAY_OF[kind](column) for (name, kind), column in zip(columns.items(), values, strict=True)}
