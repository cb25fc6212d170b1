"""Work on a large body is done beside the event loop, in one of a few threads, so that the others' requests go on."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from api.limits import MAX_BESIDE_BYTES, THREADS_BESIDE

T = TypeVar("T")

_threads = ThreadPoolExecutor(THREADS_BESIDE, "beside")


async def beside(body: bytes, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What the work on this body gives: done at once for a small one, which costs less than handing it over."""
    if len(body) <= MAX_BESIDE_BYTES:
        return work(*arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(work, *arguments, **named))
