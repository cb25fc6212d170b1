"""Resources that all bulk requests of an api process share: helper processes, threads, and places.

Helper processes judge batches when there is much to do, so that the event loop has a CPU core to itself. Before that,
and if a helper is lost, a thread judges them.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import structlog

from api.bulk.judging import Judged, Question, judge_lines
from api.http.limits import MAX_BULK_AT_ONCE, MAX_BULK_OF_ONE, MAX_JUDGING_S
from api.http.shares import Shares
from schemas.sentence import Sentence
from system.parallel import belong_to, spawned
from system.processors import usable_cores
from telemetry.log import arguments_for_children, begin_process

THREADS = 4
HELPERS = min(2, usable_cores())
WORTH_IT = 3
"""Batches that a process judges before it starts helpers. For a few lines they would start too late."""
NICENESS = 2
"""CPU niceness of helpers: bulk imports wait for workers and other requests."""
COUNT_PATIENCE_S = 15.0
"""Longest wait of receipts for the counts of their run [seconds]. Afterwards the request ends without them."""

T = TypeVar("T")
logger = structlog.get_logger()

_FULL = Sentence(
    f"The service accepts at most {MAX_BULK_AT_ONCE} bulk requests at a time, {MAX_BULK_OF_ONE} of an organisation."
    " Repeat the request later.",
    f"Der Dienst nimmt höchstens {MAX_BULK_AT_ONCE} Sammelimporte gleichzeitig an, {MAX_BULK_OF_ONE} einer"
    " Organisation. Bitte die Anfrage später wiederholen.",
)


class Workshop:
    """Threads, helper processes and places for requests that all bulk requests of an api process share.

    One for each application, which closes it when it stops.
    """

    def __init__(self) -> None:
        self.places = Shares(MAX_BULK_AT_ONCE, MAX_BULK_OF_ONE, _FULL)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="bulk")
        self._helpers: Executor | None = None
        self._started: Future[int] | None = None
        self._batches = 0
        self._is_closed = False

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return what a blocking call returns. It runs in the context of its request."""
        known = partial(copy_context().run, work, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._threads, known)

    async def judge(self, question: Question) -> Sequence[Judged]:
        """Return a judgement for each line."""
        self._batches += 1
        if self._helpers is None and self._batches > WORTH_IT and not self._is_closed:
            self._helpers = spawned(HELPERS, _begin, (*arguments_for_children(), os.getpid()))
            self._started = self._helpers.submit(os.getpid)
        helpers = self._helpers
        if helpers is not None and self._started is not None and self._started.done():
            try:
                return await asyncio.wrap_future(helpers.submit(_judge_in_time, question))
            except Exception as error:  # a helper died, took too long, or failed: judge the batch here
                logger.warning("helper process failed", reason=type(error).__name__)
                if isinstance(error, BrokenExecutor) and self._helpers is helpers:
                    self._helpers = None
        return await asyncio.to_thread(judge_lines, question)

    async def close(self) -> None:
        self._is_closed, helpers, self._helpers = True, self._helpers, None
        if helpers is not None:
            await asyncio.to_thread(helpers.shutdown, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _begin(level: str, form: str, parent: int) -> None:
    """Called in each helper when it starts."""
    begin_process(level, form, is_role=True)
    os.nice(NICENESS)
    belong_to(parent)


def _judge_in_time(question: Question) -> Sequence[Judged]:
    """Return the judgements. Ends the helper if they take too long: the api then judges the batch itself."""
    signal.setitimer(signal.ITIMER_REAL, MAX_JUDGING_S)
    try:
        return judge_lines(question)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
