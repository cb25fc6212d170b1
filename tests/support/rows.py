"""Rows of a view's table, and answers of queries about it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import tuple_row

from projections.versions.view import View
from projections.views.account_search import MAX_FOUND, SELECT_FOUND, SearchPage, page_of, search_parameters


def live_rows(connection: psycopg.Connection[Any], view: View) -> list[tuple[Any, ...]]:
    columns = ", ".join(view.columns)
    return sorted(connection.execute(f"SELECT {columns} FROM {view.name}".encode()).fetchall(), key=lambda row: row[:2])


def run_query(url: str, query: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
    """Return the result of a query of the api, on a connection of its own."""

    async def run() -> Any:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await query(connection, *arguments, **named)

    return asyncio.run(run())


def run_query_beside(connection: psycopg.Connection[Any], query: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Return the result of a query of the api, on another connection to the same database."""
    return run_query(make_conninfo(connection.info.dsn, password=connection.info.password), query, *arguments)


def find_accounts(
    connection: psycopg.Connection[Any],
    text: str,
    suppliers: list[str] | None,
    *,
    after: str = "",
    limit: int = MAX_FOUND,
) -> SearchPage:
    """Results of a search, on a connection of the test's own."""
    parameters = search_parameters(text, suppliers, after, limit)
    with connection.cursor(row_factory=tuple_row) as cursor:
        return page_of(cursor.execute(SELECT_FOUND, parameters).fetchall(), limit)
