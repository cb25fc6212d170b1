"""Reads of one kind that come together go to the database as one: many ask for a status at the same time.

While the database or the event loop is busy, requests pile up. Asked one by one each would wait for a connection, a
turn of the loop and a process of the database; asked together, a hundred cost little more than one.
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
"""At once: where the answer to one takes long, the next is asked meanwhile. The others wait, and go together."""
MAX_KEYS = 500
"""Of a query."""


class GatheredReads(Generic[K, V]):
    """Looks values up by their keys with `query(connection, keys)`, which gives those that there are.

    A query is sent after all that it answers was asked, so each answer is as new as one of its own would be.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool,
        query: Callable[[AsyncConnection[Any], Collection[K]], Awaitable[Mapping[K, V]]],
    ) -> None:
        self._pool = pool
        self._query = query
        self._asked: list[tuple[K, asyncio.Future[V | None]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def read(self, key: K) -> V | None:
        """The value of the key; None where there is none. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V | None] = loop.create_future()
        self._asked.append((key, answer))
        if len(self._asked) == 1:
            loop.call_soon(self._send)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await answer
        except TimeoutError as error:
            raise StoreUnavailable("the database does not answer in time") from error

    def _send(self) -> None:
        """Ask for what has come in, where not too many queries are under way."""
        while self._asked and len(self._under_way) < MAX_QUERIES:
            asked, self._asked = self._asked[:MAX_KEYS], self._asked[MAX_KEYS:]
            waiting = [(key, answer) for key, answer in asked if not answer.done()]  # who gave up needs no answer
            if waiting:
                task = asyncio.ensure_future(self._answer(waiting))
                self._under_way.add(task)
                task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._send()

    async def _answer(self, waiting: Collection[tuple[K, asyncio.Future[V | None]]]) -> None:
        try:
            values = await read(self._pool, self._query, {key for key, _ in waiting})
        except psycopg.DataError as error:
            if len(waiting) == 1:
                _refuse(waiting, error)
                return
            for one in waiting:  # a key that the database cannot take fails alone
                await self._answer([one])
        except Exception as error:  # whatever it is, it is told to all who asked
            _refuse(waiting, error)
        else:
            for key, answer in waiting:
                if not answer.done():
                    answer.set_result(values.get(key))


def _refuse(waiting: Iterable[tuple[Any, asyncio.Future[Any]]], error: Exception) -> None:
    for _, answer in waiting:
        if not answer.done():
            answer.set_exception(error)
