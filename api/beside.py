"""Where the work on a request's body is done: a small one's together with others, a large one's in a thread.

Small bodies that are there in the same turn of the event loop are worked on one right after the other, each step for
all of them before the next: so its code stays in the processor's caches, which takes an eighth less than to bring each
request to its end before the next. Nobody waits for anybody who is not there yet.

Work on a large body is done beside the event loop, so that the others' requests go on. One thread does all of it,
another what is very large. With more of them no more is done, since only one has the interpreter at a time; the event
loop waits for each of them, and memory is needed for what they all make.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from api.limits import MAX_AT_ONCE_BYTES, MAX_MEDIUM_BYTES, MAX_TOGETHER
from eventstore.errors import StoreUnavailable

T = TypeVar("T")

_medium, _large = (ThreadPoolExecutor(1, name) for name in ("beside", "beside-large"))


class _Turn:
    """What is to be done together in the next turn of an event loop, in a context of its own."""

    def __init__(self) -> None:
        self._context = Context()
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()

    def do(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._do_all, loop, context=self._context)
        self._waiting.append((future, work))
        return future

    def _do_all(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._waiting:  # nothing stays in this frame, which errors hold
                _settle(*self._waiting.popleft())
        finally:
            if self._waiting:
                loop.call_soon(self._do_all, loop, context=self._context)


def _settle(future: "asyncio.Future[T]", work: Callable[[], T]) -> None:
    """Do the work for whoever waits for it still."""
    try:
        if not future.done():
            future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    finally:
        del future, work  # the error holds this frame, and would be held by it


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turn] = WeakKeyDictionary()


async def beside(body: bytes, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What the work on this body gives, or raises; it must not depend on the caller's context."""
    loop, bound = asyncio.get_running_loop(), partial(work, *arguments, **named)
    if len(body) > MAX_AT_ONCE_BYTES:
        return await loop.run_in_executor(_medium if len(body) <= MAX_MEDIUM_BYTES else _large, bound)
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = _Turn()
    return await turn.do(bound, loop)


class _Places:
    """So many at a time. Where the database does not answer to one of them, those who wait are told so at once."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._lost = 0
        """How often the database did not answer."""

    async def __aenter__(self) -> None:
        lost = self._lost
        await self._free.acquire()
        if self._lost != lost:
            self._free.release()
            raise StoreUnavailable("the database has not answered the one before")

    async def __aexit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        self._lost += isinstance(error, StoreUnavailable)
        self._free.release()


class Turns:
    """How many accounts are read and not yet packed at a time: each is six times its size then. For one event loop.

    Very large ones have turns. Of others as many are worked on together as it takes for the processor's caches.
    """

    def __init__(self) -> None:
        self._small, self._medium, self._large = _Places(MAX_TOGETHER), _Places(MAX_TOGETHER), _Places(1)

    def of(self, body: bytes) -> AbstractAsyncContextManager[None]:
        """This body's turn, in which it is read, judged and packed.

        Raises StoreUnavailable, as may what is done in the turn.
        """
        if len(body) <= MAX_AT_ONCE_BYTES:
            return self._small
        return self._medium if len(body) <= MAX_MEDIUM_BYTES else self._large
