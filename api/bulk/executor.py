"""Resources that all bulk requests of an api process share: helper processes, threads, and a limit of requests.

After a few batches, helper processes check further batches, so that the event loop has a CPU core to itself. A thread
of this process checks the first batches, and batches for which a helper fails.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

import structlog

from api.bulk.checking import CheckedLine, CheckRequest, check_lines
from api.http.concurrency_limit import ConcurrencyLimit
from api.http.limits import MAX_BULK_AT_ONCE, MAX_BULK_OF_ONE, MAX_CHECK_S
from schemas.sentence import Sentence
from system.parallel import belong_to, spawned
from system.processors import usable_cores
from telemetry.log import arguments_for_children, begin_process

THREADS = 4
HELPERS = min(2, usable_cores())
HELPERS_AFTER_BATCHES = 3
"""Batches that a process checks before it starts helpers. For a few lines, helpers would start too late."""
NICENESS = 2
"""CPU niceness of helpers: bulk imports wait for workers and other requests."""
COUNT_TIMEOUT_S = 15.0
"""Longest wait for a run's counts to be stored [seconds].

After this wait, the request ends without the receipts of these lines.
"""

P = ParamSpec("P")
T = TypeVar("T")
logger = structlog.get_logger()

_FULL = Sentence(
    f"The service accepts at most {MAX_BULK_AT_ONCE} bulk requests at a time, {MAX_BULK_OF_ONE} of an organisation."
    " Repeat the request later.",
    f"Der Dienst nimmt höchstens {MAX_BULK_AT_ONCE} Sammelimporte gleichzeitig an, {MAX_BULK_OF_ONE} einer"
    " Organisation. Wiederholen Sie die Anfrage später.",
)


class BulkExecutor:
    """Threads, helper processes and the limit of requests that all bulk requests of an api process share.

    Each application has one, and closes it when it stops.
    """

    def __init__(self) -> None:
        self.concurrency = ConcurrencyLimit(MAX_BULK_AT_ONCE, MAX_BULK_OF_ONE, _FULL)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="bulk")
        self._helpers: Executor | None = None
        self._started: Future[int] | None = None
        self._batches = 0
        self._is_closed = False

    async def in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a blocking call in a thread, with the context variables of its request, and return its result."""
        bound_work = partial(copy_context().run, work, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._threads, bound_work)

    async def check(self, request: CheckRequest) -> Sequence[CheckedLine]:
        """Check the lines in a helper process, or in a thread of this process. Return a result for each line."""
        self._batches += 1
        if self._helpers is None and self._batches > HELPERS_AFTER_BATCHES and not self._is_closed:
            self._helpers = spawned(HELPERS, _begin, (*arguments_for_children(), os.getpid()))
            self._started = self._helpers.submit(os.getpid)
        helpers = self._helpers
        if helpers is not None and self._started is not None and self._started.done():
            try:
                return await asyncio.wrap_future(helpers.submit(_check_in_time, request))
            except Exception as error:  # a helper died, took too long, or failed: check the batch here
                logger.warning("helper process failed", reason=type(error).__name__)
                if isinstance(error, BrokenExecutor) and self._helpers is helpers:
                    self._helpers = None
        return await asyncio.to_thread(check_lines, request)

    async def close(self) -> None:
        self._is_closed, helpers, self._helpers = True, self._helpers, None
        if helpers is not None:
            await asyncio.to_thread(helpers.shutdown, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _begin(level: str, form: str, parent: int) -> None:
    """Set up a helper process when it starts: logging, niceness, and its end with the api process."""
    begin_process(level, form, is_role=True)
    os.nice(NICENESS)
    belong_to(parent)


def _check_in_time(request: CheckRequest) -> Sequence[CheckedLine]:
    """Check the lines. After MAX_CHECK_S, SIGALRM ends this helper process, and the api process checks the batch."""
    signal.setitimer(signal.ITIMER_REAL, MAX_CHECK_S)
    try:
        return check_lines(request)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
