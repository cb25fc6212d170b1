"""Judging of batches: in helper processes where there is much to do; in a thread before, and where one is lost.

A process of its own has the whole of a processor, and the event loop of the api the whole of its own.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor, Future

import structlog

from api.bulk.judging import Judged, Question, judge_lines
from api.http.limits import MAX_JUDGING_S
from system.parallel import belong_to, spawned
from system.processors import usable_cores
from telemetry.log import arguments_for_children, begin_process

HELPERS = min(2, usable_cores())
WORTH_IT = 3
"""Batches that a process has judged before it starts helpers: for a few lines they would come too late."""
NICENESS = 2
"""A book that comes in keeps neither workers nor other requests from a processor; it waits for them."""

logger = structlog.get_logger()


class Judges:
    """The helpers of one api process. Start them with `judge`, end them with `close`."""

    def __init__(self) -> None:
        self._pool: Executor | None = None
        self._started: Future[object] | None = None
        self._batches = 0
        self._is_closed = False

    async def judge(self, question: Question) -> Sequence[Judged]:
        """A judgement for each line."""
        self._batches += 1
        if self._pool is None and self._batches > WORTH_IT and not self._is_closed:
            self._pool = spawned(HELPERS, _begin, (*arguments_for_children(), os.getpid()))
            self._started = self._pool.submit(os.getpid)
        pool = self._pool
        if pool is not None and self._started is not None and self._started.done():
            try:
                return await asyncio.wrap_future(pool.submit(_judge_in_time, question))
            except Exception as error:  # one has died, has taken too long, or failed: the batch is judged here
                logger.warning("a helper has failed", reason=type(error).__name__)
                if isinstance(error, BrokenExecutor) and self._pool is pool:
                    self._pool = None
        return await asyncio.to_thread(judge_lines, question)

    async def close(self) -> None:
        """End the helpers."""
        self._is_closed, pool, self._pool = True, self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)


def _begin(level: str, form: str, parent: int) -> None:
    """Called in each helper when it starts."""
    begin_process(level, form, is_role=True)
    os.nice(NICENESS)
    belong_to(parent)


def _judge_in_time(question: Question) -> Sequence[Judged]:
    """The judgements. Ends the helper when they take too long: the api judges without it then."""
    signal.setitimer(signal.ITIMER_REAL, MAX_JUDGING_S)
    try:
        return judge_lines(question)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
