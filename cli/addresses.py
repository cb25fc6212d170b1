"""URLs of the log's database for a verb, from the settings or from the service on the data folder."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection

from cli.service.reach import CONNECT_TIMEOUT_S, Unreachable, require_answer
from cli.service.settings import SettingError, Settings
from embedded.folder import DataFolder

Answer = TypeVar("Answer")
P = ParamSpec("P")


def database_url() -> str:
    """Return the database URL of the service's role, after its database has answered: DATABASE_URL, else
    DATABASE_ADMIN_URL, else the URL of the data folder. Raises SettingError, Unreachable.
    """
    return _answering_url("DATABASE_URL", "DATABASE_ADMIN_URL")


def admin_url() -> str:
    """Return the database URL of the owner, after the database has answered: DATABASE_ADMIN_URL, else DATABASE_URL,
    else the URL of the data folder. Raises SettingError, Unreachable.
    """
    return _answering_url("DATABASE_ADMIN_URL", "DATABASE_URL")


@contextlib.contextmanager
def connected() -> Iterator[Connection[Any]]:
    """Open a connection of the service's role: autocommit, time zone UTC, no statement timeout."""
    with psycopg.connect(database_url(), autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as connection:
        connection.execute("SET statement_timeout = 0; SET TIME ZONE 'UTC'")
        yield connection


def answer_of(
    query: Callable[Concatenate[AsyncConnection[Any], P], Awaitable[Answer]], *arguments: P.args, **keywords: P.kwargs
) -> Answer:
    """Run a query of the api with the rights of the database's owner, and return its result."""

    async def run(url: str) -> Answer:
        async with await AsyncConnection.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as connection:
            await connection.execute("SET TIME ZONE 'UTC'")
            return await query(connection, *arguments, **keywords)

    return asyncio.run(run(admin_url()))


def _answering_url(*names: str) -> str:
    """Return the value of the first setting that is set, else the URL that a service has written to the data folder."""
    settings = Settings.from_environment()
    for name in names:
        if (url := getattr(settings, name.lower())) is not None:
            return require_answer(url, name)
    hint = "Start it with `importledger up`, or set IMPORTLEDGER_DATA_DIR or DATABASE_URL."
    connections = DataFolder(settings.data_dir).read_connections()
    if connections is None:
        raise SettingError(f"No service has run on {settings.data_dir}. {hint}")
    try:
        return require_answer(
            connections["database_url" if names[0] == "DATABASE_URL" else "admin_url"], "DATABASE_URL"
        )
    except Unreachable as error:
        raise Unreachable(f"The service on {settings.data_dir} is not running. {hint}") from error
