"""What all bulk requests of an api process share: who judges, threads for the database, and how many there are."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from api.bulk.judges import Judges
from api.limits import MAX_BULK_AT_ONCE
from api.status_codes import ApiError
from schemas.sentence import Sentence

THREADS = 4

T = TypeVar("T")


class Workshop:
    """Made once by the application, closed at its end."""

    def __init__(self) -> None:
        self.judges = Judges()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="bulk")
        self._requests = 0

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """A place for one request. Raises ApiError 503 when all are taken."""
        if self._requests >= MAX_BULK_AT_ONCE:
            detail = Sentence(
                f"The service takes {MAX_BULK_AT_ONCE} bulk requests at a time; others wait.",
                f"Der Dienst nimmt {MAX_BULK_AT_ONCE} Sammelimporte gleichzeitig an; weitere warten.",
            )
            raise ApiError(503, detail, headers={"Retry-After": "1"})
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """What a blocking call gives."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    async def close(self) -> None:
        await self.judges.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
