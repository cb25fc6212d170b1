"""Columns as Postgres' binary arrays, for statements that take many rows at once.

psycopg inspects the values of each list to find their type. This module passes the type with each array, which is
faster for the many arrays of an append. psycopg's dumpers still write the values (`copy_format`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

from eventstore.log.copy_format import BIGINT, BOOLEAN, INTEGER, NULL, SIZE, CachedValues, array, cached_values


class Written:
    """Array in Postgres' binary form. Each element type has its own subclass, by which psycopg finds the type."""

    __slots__ = ("content",)
    oid = 0

    def __init__(self, content: bytes) -> None:
        self.content = content


class _WrittenDumper(Dumper):
    """Dumper of arrays of this module."""

    format = Format.BINARY

    def __init__(self, cls: type[Written], context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        self.oid = cls.oid

    def dump(self, written: Written) -> bytes:
        return written.content


ArrayOf = Callable[[Sequence[Any]], Written]
"""Function that returns the array of a list of values; None becomes NULL."""


def _arrays(sql_type: str, write: Callable[[Sequence[Any]], list[bytes]]) -> ArrayOf:
    info = psycopg.adapters.types[sql_type]
    written: type[Written] = type(f"Written_{sql_type}", (Written,), {"__slots__": (), "oid": info.array_oid})
    psycopg.adapters.register_dumper(written, _WrittenDumper)
    return lambda values: written(array(info.oid, write(values)))


def _texts(values: Sequence[str | None]) -> list[bytes]:
    return [NULL if value is None else SIZE[len(x := value.encode())] + x for value in values]


def _blobs(values: Sequence[bytes | None]) -> list[bytes]:
    return [NULL if value is None else SIZE[len(value)] + value for value in values]


def _each(written: CachedValues) -> Callable[[Sequence[Any]], list[bytes]]:
    return lambda values: [*map(written.__getitem__, values)]


ARRAY_OF: dict[str, ArrayOf] = {
    "text": _arrays("text", _texts),
    "bytea": _arrays("bytea", _blobs),
    "integer": _arrays("int4", _each(INTEGER)),
    "bigint": _arrays("int8", _each(BIGINT)),
    "boolean": _arrays("bool", _each(BOOLEAN)),
    "timestamptz": _arrays("timestamptz", _each(cached_values("timestamptz"))),
}
"""Functions that return an array, by the SQL type of its elements."""


def arrays_of(columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Written]:
    """Return rows as an array for each column. `columns` are names and SQL types, in the order of a row."""
    values = zip(*rows, strict=True) if rows else ((),) * len(columns)
    return {name: ARRAY_OF[kind](column) for (name, kind), column in zip(columns.items(), values, strict=True)}
