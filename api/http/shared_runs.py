"""Share runs of a piece of work: callers that arrive during a run share the next run."""

import asyncio
from collections.abc import Awaitable, Callable


class SharedRuns:
    """Runs the work as often as needed, but never twice at the same time."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Wait for a run that begins after this call. Raises the errors of that run.

        A caller that is cancelled does not cancel the run.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            self._next.add_done_callback(_retrieve)
        await asyncio.shield(self._next)

    async def _after(self, previous: asyncio.Task[None] | None) -> None:
        if previous is not None and not previous.done():
            await asyncio.wait({previous})
        self._running, self._next = self._next, None
        await self._work()


def _retrieve(run: asyncio.Task[None]) -> None:
    """Read the error, so that asyncio does not report it if all callers were cancelled."""
    if not run.cancelled():
        run.exception()
