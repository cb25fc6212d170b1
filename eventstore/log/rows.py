"""Functions that return a query's rows as tuples or structs, whatever row factory the connection has."""

from collections.abc import Callable
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection
from psycopg.rows import kwargs_row, tuple_row
from psycopg.sql import Composed

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Query = str | bytes | Composed


def rows_of(connection: Connection[Any], query: Query, /, *values: Any, **named: Any) -> Rows:
    """Return the rows of a query as tuples."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(_sql(query), values or named or None).fetchall()


def value_of(connection: Connection[Any], query: Query, /, *values: Any, **named: Any) -> Any:
    """Return the one value of a query that has one row."""
    [(value,)] = rows_of(connection, query, *values, **named)
    return value


def structs_of(
    connection: Connection[Any], struct: Callable[..., T], query: Query, /, *values: Any, **named: Any
) -> list[T]:
    """Return the rows of a query as structs with fields of the columns' names."""
    with connection.cursor(row_factory=kwargs_row(struct)) as cursor:
        return cursor.execute(_sql(query), values or named or None).fetchall()


async def fetch_rows(connection: AsyncConnection[Any], query: Query, /, *values: Any, **named: Any) -> Rows:
    """Return the rows of a query as tuples."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        return await (await cursor.execute(_sql(query), values or named or None)).fetchall()


async def fetch_structs(
    connection: AsyncConnection[Any], struct: Callable[..., T], query: Query, /, *values: Any, **named: Any
) -> list[T]:
    """Return the rows of a query as structs with fields of the columns' names."""
    async with connection.cursor(row_factory=kwargs_row(struct)) as cursor:
        return await (await cursor.execute(_sql(query), values or named or None)).fetchall()


async def fetch_struct(
    connection: AsyncConnection[Any], struct: Callable[..., T], query: Query, /, *values: Any, **named: Any
) -> T | None:
    """Return the row of a query as a struct; None if there is none."""
    rows = await fetch_structs(connection, struct, query, *values, **named)
    return rows[0] if rows else None


def _sql(query: Query) -> bytes | Composed:
    return query.encode() if isinstance(query, str) else query
