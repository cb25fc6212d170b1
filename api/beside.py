"""Work on a large body is done beside the event loop, in a thread, so that the others' requests go on.

One thread does all of it, another what is very large. With more of them no more is done, since only one has the
interpreter at a time; the event loop waits for each of them, and memory is needed for what they all make.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

from api.limits import MAX_AT_ONCE_BYTES, MAX_MEDIUM_BYTES
from eventstore.errors import StoreUnavailable

T = TypeVar("T")

_medium, _large = (ThreadPoolExecutor(1, name) for name in ("beside", "beside-large"))


async def beside(body: bytes, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What the work on this body gives: done at once for a small one, which costs less than handing it over."""
    if len(body) <= MAX_AT_ONCE_BYTES:
        return work(*arguments, **named)
    thread = _medium if len(body) <= MAX_MEDIUM_BYTES else _large
    return await asyncio.get_running_loop().run_in_executor(thread, partial(work, *arguments, **named))


class Turns:
    """Very large bodies have turns: what is made of one, six times its size, seldom meets what is made of another.

    Where the database does not answer to one of them, those who wait behind it are told so at once. For one event loop.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._lost = 0
        """How often the database did not answer."""

    def of(self, body: bytes) -> AbstractAsyncContextManager[None]:
        """This body's turn, in which it is read, judged and packed; all others have theirs at any time.

        Raises StoreUnavailable, as may what is done in the turn.
        """
        return self._turn() if len(body) > MAX_MEDIUM_BYTES else nullcontext()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        lost = self._lost
        async with self._lock:
            if self._lost != lost:
                raise StoreUnavailable("the database has not answered the one before")
            try:
                yield
            except StoreUnavailable:
                self._lost += 1
                raise
