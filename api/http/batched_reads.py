"""Batch reads of one kind into one query, since many callers ask for a status at the same time.

While the database or the event loop is busy, many requests wait. Each single query would wait for a connection, an
iteration of the loop and a database process. A query for a hundred keys takes little longer than a query for one key.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from api.http.database import read
from eventstore.errors import StoreUnavailable
from eventstore.log.group_commit import ANSWER_TIMEOUT_S

K = TypeVar("K")
V = TypeVar("V")

MAX_QUERIES = 2
"""Queries at the same time.

If a query takes long, the next query is sent meanwhile. Further keys wait, and share a query.
"""
MAX_KEYS = 500
"""Keys per query. Further keys wait for the next query."""


class BatchedReads(Generic[K, V]):
    """Reads values by key with `query(connection, keys)`, which returns the values that exist.

    A query is sent after all its keys were requested, so each answer is as fresh as the answer of a separate query.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool,
        query: Callable[[AsyncConnection[Any], Collection[K]], Awaitable[Mapping[K, V]]],
    ) -> None:
        self._pool = pool
        self._query = query
        self._requested: list[tuple[K, asyncio.Future[V | None]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def read(self, key: K) -> V | None:
        """Return the value of the key, or None. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V | None] = loop.create_future()
        self._requested.append((key, answer))
        if len(self._requested) == 1:
            loop.call_soon(self._send)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await answer
        except TimeoutError as error:
            raise StoreUnavailable("the database does not answer in time") from error

    def _send(self) -> None:
        """Send queries for the waiting keys, up to MAX_QUERIES at the same time."""
        while self._requested and len(self._running) < MAX_QUERIES:
            batch, self._requested = self._requested[:MAX_KEYS], self._requested[MAX_KEYS:]
            waiting = [(key, answer) for key, answer in batch if not answer.done()]  # skip callers that were cancelled
            if waiting:
                task = asyncio.ensure_future(self._answer(waiting))
                self._running.add(task)
                task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._send()

    async def _answer(self, waiting: Collection[tuple[K, asyncio.Future[V | None]]]) -> None:
        try:
            values = await read(self._pool, self._query, {key for key, _ in waiting})
        except psycopg.DataError as error:
            if len(waiting) == 1:
                _fail(waiting, error)
                return
            for caller in waiting:  # a key that the database refuses fails alone
                await self._answer([caller])
        except Exception as error:  # any error is raised to all callers
            _fail(waiting, error)
        else:
            for key, answer in waiting:
                if not answer.done():
                    answer.set_result(values.get(key))


def _fail(waiting: Iterable[tuple[Any, asyncio.Future[Any]]], error: Exception) -> None:
    for _, answer in waiting:
        if not answer.done():
            answer.set_exception(error)
