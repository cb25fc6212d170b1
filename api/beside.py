"""Work on a large body is done beside the event loop, in a thread, so that the others' requests go on.

One thread does all of it, another what is very large. With more of them nothing is done sooner, since only one has the
interpreter at a time; the event loop waits for each of them, and memory is needed for what they all make.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from api.limits import MAX_AT_ONCE_BYTES, MAX_MEDIUM_BYTES

T = TypeVar("T")

_medium, _large = (ThreadPoolExecutor(1, name) for name in ("beside", "beside-large"))


async def beside(body: bytes, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What the work on this body gives: done at once for a small one, which costs less than handing it over."""
    if len(body) <= MAX_AT_ONCE_BYTES:
        return work(*arguments, **named)
    thread = _medium if len(body) <= MAX_MEDIUM_BYTES else _large
    return await asyncio.get_running_loop().run_in_executor(thread, partial(work, *arguments, **named))


class Turns:
    """Very large bodies have turns: what is made of one, six times its size, is gone before the next one is read.

    For one event loop.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def of(self, body: bytes) -> AbstractAsyncContextManager[Any]:
        """This body's turn, in which it is read and judged; all others have theirs at any time."""
        return self._lock if len(body) > MAX_MEDIUM_BYTES else nullcontext()
