"""Reading from the database in the event loop: pools, and a bound on how long a request waits for an answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from eventstore.errors import StoreUnavailable
from eventstore.log.connecting import check_writable_async
from eventstore.log.recorder import CONNECT_TIMEOUT_S, SESSION

T = TypeVar("T")

ANSWER_TIMEOUT_S = 1.5
"""With what happens around it, a caller knows within two seconds that the database is away."""


def reading_pool(database_url: str, *, size: int) -> AsyncConnectionPool:
    """A pool that is opened with the application's lifespan."""
    return AsyncConnectionPool(
        database_url,
        min_size=0,
        max_size=size,
        open=False,
        configure=_configure,
        check=check_writable_async,
        timeout=CONNECT_TIMEOUT_S,
        reconnect_timeout=1.0,
        kwargs={"connect_timeout": 2, "application_name": "importledger api"},
    )


async def in_time(work: Awaitable[T], *, within_s: float = ANSWER_TIMEOUT_S) -> T:
    """What the work gives. Raises StoreUnavailable when it takes too long, as it does while the database hangs.

    The work is then left behind rather than waited for: the driver takes its time to give up a query.
    """
    task = asyncio.ensure_future(_awaited(work))
    done, _ = await asyncio.wait({task}, timeout=within_s)
    if done:
        return task.result()
    _left_behind.add(task)
    task.add_done_callback(_forget)
    task.cancel()
    raise StoreUnavailable("the database does not answer in time")


async def in_thread(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What a blocking call gives. Raises StoreUnavailable when it takes too long."""
    return await in_time(asyncio.to_thread(work, *arguments, **named))


async def read(pool: AsyncConnectionPool, query: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """What `query(connection, *arguments)` gives. Raises StoreUnavailable."""

    async def work() -> T:
        async with pool.connection() as connection:
            return await query(connection, *arguments)

    return await in_time(work())


async def _awaited(work: Awaitable[T]) -> T:
    return await work


_left_behind: set[asyncio.Task[Any]] = set()


def _forget(task: asyncio.Task[Any]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()  # nobody waits for it any more


async def _configure(connection: AsyncConnection) -> None:
    await connection.set_autocommit(True)
    await connection.execute(SESSION)
