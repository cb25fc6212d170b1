"""What all bulk requests of an api process share: who judges, threads for the database, and how many there are."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from api.bulk.judges import Judges
from api.http.limits import MAX_BULK_AT_ONCE, MAX_BULK_OF_ONE
from api.http.shares import Shares
from schemas.sentence import Sentence

THREADS = 4

T = TypeVar("T")

_FULL = Sentence(
    f"The service takes {MAX_BULK_AT_ONCE} bulk requests at a time, {MAX_BULK_OF_ONE} of an organisation; others wait.",
    f"Der Dienst nimmt {MAX_BULK_AT_ONCE} Sammelimporte gleichzeitig an, {MAX_BULK_OF_ONE} einer Organisation;"
    " weitere warten.",
)


class Workshop:
    """Made once by the application, closed at its end."""

    def __init__(self) -> None:
        self.judges = Judges()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="bulk")
        self.places = Shares(MAX_BULK_AT_ONCE, MAX_BULK_OF_ONE, _FULL)

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """What a blocking call gives, which knows for which request it works."""
        known = partial(copy_context().run, work, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._threads, known)

    async def close(self) -> None:
        await self.judges.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
