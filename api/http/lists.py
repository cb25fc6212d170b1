"""Answers of any length: lists, histories and downloads, read in pages and sent at the client's pace.

A database connection is held only while a page is read, not while the client reads. One page is read ahead, so that a
fast reader does not wait for the database, and a slow reader costs the memory of two pages.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
import psycopg
import structlog
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.http.concurrency_limit import ConcurrencyLimit, Requester
from api.http.database import read, read_within
from api.http.limits import MAX_LIST_S, MAX_LISTS_AT_ONCE, MAX_LISTS_OF_ONE
from api.http.responses import PrivateResponse, encoded
from api.http.status_codes import ApiError
from api.http.stopping import disconnect_check
from eventstore.errors import StoreUnavailable
from schemas.sentence import Sentence

T = TypeVar("T")
P = TypeVar("P")
Page = tuple[Sequence[T], P | None]
"""Items of a page, and the key after which the next page begins; None at the end.

Also a page before the end may be empty.
"""
PageQuery = Callable[[AsyncConnection[Any], P], Awaitable[Page[T, P]]]

LATER_PAGE_S = 15.0
"""Longest wait for a page after the first page [seconds]. The answer has begun, and can no longer be a 503."""
TRIES = 4
"""Attempts to read a later page. After the last attempt, the answer is cut off."""
PAUSE_S = 1.0
UNREAD = (StoreUnavailable, psycopg.OperationalError, PoolTimeout)
"""Errors of the database's connection, after which a page can be read again."""

_FULL = Sentence(
    "Too many lists are read at the moment. Repeat the request later.",
    "Im Augenblick werden zu viele Listen gelesen. Wiederholen Sie die Anfrage später.",
)

logger = structlog.get_logger()


class ListFormat(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Form of a list: `encode` writes a page, `head` and `tail` enclose the list, `between` is between two pages."""

    media_type: str
    encode: Callable[[Sequence[T]], bytes]
    head: bytes = b""
    between: bytes = b""
    tail: bytes = b""


def _array_items(items: Sequence[Any]) -> bytes:
    return encoded(items)[1:-1]


ARRAY: ListFormat[Any] = ListFormat(
    media_type="application/json", encode=_array_items, head=b"[", between=b",", tail=b"]"
)
"""A JSON array."""


class Lists:
    """Reads and sends lists, with a separate database pool.

    Limits the number of concurrent lists, in total and per organisation.
    """

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self.pool = pool
        self._limit = ConcurrencyLimit(MAX_LISTS_AT_ONCE, MAX_LISTS_OF_ONE, _FULL)

    async def answer(
        self,
        reader: Requester,
        query: PageQuery[P, T],
        start: P,
        text_format: ListFormat[T] = ARRAY,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a streamed 200 with all pages after the key `start`. The first page is read before this returns.

        The stream is cut off if a later page cannot be read, or if the reader loses its rights. Raises ApiError 503
        if there are too many lists, and any error of the first read.
        """
        self._limit.refuse_full(reader.organisation)
        first = await read(self.pool, query, start)
        return _ListAnswer(self._chunks(reader, query, first, text_format), text_format.media_type, headers)

    async def _chunks(
        self, reader: Requester, query: PageQuery[P, T], page: Page[T, P], text_format: ListFormat[T]
    ) -> AsyncGenerator[bytes]:
        with self._limit.slot(reader.organisation):
            async with contextlib.aclosing(self._pages(query, page)) as pages:
                before = text_format.head
                async for items in pages:
                    await reader.confirm()
                    if items:
                        yield before + text_format.encode(items)
                        before = text_format.between
                yield (b"" if before is text_format.between else text_format.head) + text_format.tail

    async def _pages(self, query: PageQuery[P, T], page: Page[T, P]) -> AsyncGenerator[Sequence[T]]:
        """Yield the items of each page while the next page is being read."""
        items, start = page
        while start is not None:
            next_page = asyncio.create_task(_read_again(partial(read_within, LATER_PAGE_S, self.pool, query, start)))
            try:
                yield items
                items, start = await next_page
            finally:
                next_page.cancel()
                await asyncio.wait({next_page})
                _ = next_page.cancelled() or next_page.exception()  # asyncio reports an error that nobody read
        yield items


async def _read_again(read_page: Callable[[], Awaitable[T]]) -> T:
    for remaining in reversed(range(TRIES)):
        try:
            return await read_page()
        except UNREAD as error:
            if not remaining:
                raise
            logger.warning("reading a page of a list again", reason=type(error).__name__)
            await asyncio.sleep(PAUSE_S)
    raise AssertionError("the last attempt returns or raises")


class _ListAnswer(PrivateResponse):
    """Answer that sends chunks until they end.

    It is cut off when the client disconnects, after `MAX_LIST_S`, when a page cannot be read, or when the reader loses
    the right to read the list.
    """

    def __init__(self, chunks: AsyncGenerator[bytes], media_type: str, headers: Mapping[str, str] | None) -> None:
        super().__init__(headers=headers, media_type=media_type)
        del self.headers["content-length"]
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_disconnected, ends_at = disconnect_check(scope), time.monotonic() + MAX_LIST_S
        async with contextlib.aclosing(self._chunks) as chunks:
            chunk = await anext(chunks)  # raises an error only before the answer begins
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                while not is_disconnected() and time.monotonic() < ends_at:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    chunk = await anext(chunks)
            except (
                *UNREAD,
                ApiError,
            ) as error:  # the server closes an unfinished answer, so that the client notices
                logger.warning("list was cut off", reason=type(error).__name__)
            except StopAsyncIteration:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
