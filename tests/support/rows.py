"""What a view's table holds, and what a question about it is answered with."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from projections.versions.view import View


def live_rows(connection: psycopg.Connection[Any], view: View) -> list[tuple[Any, ...]]:
    columns = ", ".join(view.columns)
    return sorted(connection.execute(f"SELECT {columns} FROM {view.name}".encode()).fetchall(), key=lambda row: row[:2])


def asked(url: str, query: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """The answer of a query of the api, which asks on a connection of its own."""

    async def ask() -> Any:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await query(connection, *arguments)

    return asyncio.run(ask())
