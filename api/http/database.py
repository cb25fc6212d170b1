"""Read from the database in the event loop: pools, and a limit on the wait for an answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.errors import UndefinedTable
from psycopg_pool import AsyncConnectionPool

from eventstore.errors import IntakeStopped, StoreUnavailable
from eventstore.log.connecting import (
    SWITCHOVER_S,
    UNCHECKED_S,
    check_writable_async,
    is_read_only,
    is_switching_over,
    last_host_first,
    note_host,
    note_switchover,
    noted_failures,
)
from eventstore.log.group_commit import ANSWER_TIMEOUT_S
from eventstore.log.recorder import CONNECT_TIMEOUT_S, SESSION
from eventstore.log.store_errors import store_errors

P = ParamSpec("P")
T = TypeVar("T")

MIN_CONNECTIONS = 2
"""Connections that a pool for `read` opens at once and keeps open, since opening one is slow."""


def reading_pool(database_url: str, *, size: int, is_for_read: bool = False) -> AsyncConnectionPool:
    """Return a pool of connections for reads, which the caller opens.

    With `is_for_read`, the function `read` uses the pool: MIN_CONNECTIONS stay open, and a connection that answered
    within the last second is not checked.
    """
    return AsyncConnectionPool(
        database_url,
        min_size=MIN_CONNECTIONS if is_for_read else 0,
        max_size=size,
        open=False,
        configure=_configure,
        check=_check if is_for_read else check_writable_async,
        connection_class=_ReadingConnection,
        timeout=CONNECT_TIMEOUT_S,
        reconnect_timeout=1.0,
        kwargs={"connect_timeout": 2, "application_name": "importledger api"},
    )


class SchemaMissing(StoreUnavailable):
    """The database has no schema yet: `importledger migrate` creates it."""


_SELECT_NO_SCHEMA = "SELECT WHERE to_regclass('public.schema_migrations') IS NULL"


async def with_timeout(work: Awaitable[T], *, within_s: float = ANSWER_TIMEOUT_S) -> T:
    """Return the result of the work. Raises StoreUnavailable if it takes longer than `within_s`, so the database hangs.

    After the time-out, the work is cancelled, but this function returns at once, since the driver may need long to
    cancel a query.
    """
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=within_s)
    if done:
        return task.result()
    _abandoned.add(task)
    task.add_done_callback(_discard)
    task.cancel()
    raise StoreUnavailable("the database does not answer in time")


RETRY_S = 0.1
"""Pause between two tries during a switchover [seconds]."""


async def retry_on_switchover(work: Callable[P, Awaitable[T]], *arguments: P.args, **keywords: P.kwargs) -> T:
    """Return the result of the work. Repeat it during a planned switchover, for SWITCHOVER_S seconds at most.

    Raises StoreUnavailable. The work must be safe to repeat.
    """
    last = time.monotonic() + SWITCHOVER_S - ANSWER_TIMEOUT_S
    while True:
        try:
            return await work(*arguments, **keywords)
        except IntakeStopped:
            raise
        except StoreUnavailable:
            if time.monotonic() > last or not is_switching_over():
                raise
        await asyncio.sleep(RETRY_S)


async def in_thread(work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    """Run a blocking call in a thread and return its result. Raises StoreUnavailable if it takes too long."""
    return await with_timeout(asyncio.to_thread(work, *arguments, **keywords))


async def in_slot(
    slot: AbstractContextManager[None], work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs
) -> T:
    """Run a blocking call like `in_thread`, in a slot of a limit.

    The slot is held until the thread has ended, also if the caller is cancelled.
    """

    async def in_whole() -> T:
        with slot:
            return await asyncio.to_thread(work, *arguments, **keywords)

    thread = asyncio.ensure_future(in_whole())
    _abandoned.add(thread)
    thread.add_done_callback(_discard)
    return await with_timeout(asyncio.shield(thread))


async def read(
    pool: AsyncConnectionPool,
    query: Callable[Concatenate[AsyncConnection[Any], P], Awaitable[T]],
    *arguments: P.args,
    **keywords: P.kwargs,
) -> T:
    """Return the result of `query(connection, *arguments)`. Raises StoreUnavailable."""
    return await read_within(ANSWER_TIMEOUT_S, pool, query, *arguments, **keywords)


async def read_within(
    within_s: float,
    pool: AsyncConnectionPool,
    query: Callable[Concatenate[AsyncConnection[Any], P], Awaitable[T]],
    *arguments: P.args,
    **keywords: P.kwargs,
) -> T:
    """Return the result like `read`, within this time [seconds].

    No other function of the api takes a connection from a pool, so no connection is held while a client sends or reads
    slowly. If an unchecked connection is lost, the query is repeated on a checked connection.
    """

    async def work() -> T:
        requested_at, connection = time.monotonic(), None
        with store_errors():
            try:
                async with pool.connection() as connection:
                    return await query(connection, *arguments, **keywords)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                note_switchover(error)
                if connection is None or not connection.closed:
                    raise
                _last_loss.at = requested_at
            except UndefinedTable as error:
                async with pool.connection() as connection:
                    if (await connection.execute(_SELECT_NO_SCHEMA)).rowcount:
                        raise SchemaMissing("the database has no schema yet") from error
                raise
            async with pool.connection() as connection:
                return await query(connection, *arguments, **keywords)

    return await with_timeout(work(), within_s=within_s)


class _ReadingConnection(AsyncConnection[Any]):
    """A connection that records the time of its last answer."""

    answered_at = 0.0

    @classmethod
    async def connect(cls, conninfo: str = "", **keywords: Any) -> Self:
        with noted_failures():
            return note_host(await super().connect(last_host_first(conninfo), **keywords))


class _LastLoss:
    """Start of the last query whose connection was lost. Connections that have not answered since then are checked."""

    at = 0.0


_last_loss = _LastLoss()


async def _check(connection: AsyncConnection[Any]) -> None:
    """Check a connection before its use, unless it has answered within UNCHECKED_S."""
    assert isinstance(connection, _ReadingConnection)
    is_old = time.monotonic() - connection.answered_at > UNCHECKED_S or connection.answered_at <= _last_loss.at
    if is_old or is_read_only(connection):
        await check_writable_async(connection)
        connection.answered_at = time.monotonic()


_abandoned: set[asyncio.Future[Any]] = set()


def _discard(task: asyncio.Future[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # asyncio reports an error that nobody read


async def _configure(connection: AsyncConnection) -> None:
    await connection.set_autocommit(True)
    await connection.execute(SESSION)
