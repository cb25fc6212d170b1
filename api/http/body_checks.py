"""Decode and check bodies of requests: small bodies in batches on the event loop, large bodies in a thread.

Small bodies that arrive in the same iteration of the event loop form a batch. Each step of the check runs for all
bodies of the batch before the next step, so that the code of the step stays in the CPU's caches. A batch never waits
for a body that has not arrived. A large body is checked in a thread, so that other requests are answered meanwhile. One
thread checks medium bodies, another thread checks very large bodies. More threads would gain nothing, since only one at
a time has the interpreter lock, and would need more memory.

A thread runs all steps of a large body before it begins another body: the objects made of an account take several times
its size, and are freed with the body.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from api.http.limits import MAX_AT_ONCE_BYTES, MAX_BATCH_BODIES, MAX_MEDIUM_BYTES
from system.steps import Steps, finish_steps

P = ParamSpec("P")
T = TypeVar("T")

_medium, _large = (ThreadPoolExecutor(1, name) for name in ("bodies", "large-bodies"))


class _StepQueue:
    """Queue of small bodies to check in the next iterations of an event loop. Runs without context variables."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = Context()
        self._waiting: deque[tuple[asyncio.Future[Any], Steps[Any]]] = deque()
        self._running: deque[tuple[asyncio.Future[Any], Steps[Any]]] = deque()

    def add(self, steps: Steps[T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._waiting and not self._running:
            self._loop.call_soon(self._run_batch, context=self._context)
        self._waiting.append((future, steps))
        return future

    def _run_batch(self) -> None:
        running, waiting = self._running, self._waiting
        while waiting and len(running) < MAX_BATCH_BODIES:
            running.append(waiting.popleft())
        try:
            while running:
                if _run_step(*running[0]):
                    running.rotate(-1)
                else:
                    running.popleft()
        finally:
            if waiting or running:
                self._loop.call_soon(self._run_batch, context=self._context)


def _run_step(future: "asyncio.Future[T]", steps: Steps[T]) -> bool:
    """Run the next step, unless its caller was cancelled. Return False after the last step."""
    try:
        if not future.done():
            next(steps)
            return True
    except StopIteration as end:
        future.set_result(end.value)
    except Exception as error:
        future.set_exception(error)
    except BaseException:
        future.cancel()  # the work did not finish
        raise
    finally:
        # the error refers to this frame: without this line, error and frame would keep each other alive
        del future, steps
    return False


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _StepQueue] = WeakKeyDictionary()


async def run_steps(body: bytes, steps: Steps[T]) -> T:
    """Run the steps of the work on a body, and return its result.

    Raises its error. The steps run in a thread if the body is large, and must not depend on the caller's context
    variables.
    """
    loop = asyncio.get_running_loop()
    if len(body) > MAX_AT_ONCE_BYTES:
        return await loop.run_in_executor(_medium if len(body) <= MAX_MEDIUM_BYTES else _large, finish_steps, steps)
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = _StepQueue(loop)
    return await queue.add(steps)


async def run_on_body(body: bytes, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    """Run work of a single step on a body like `run_steps`, and return its result. Raises its error."""
    return await run_steps(body, _single_step(work, *arguments, **keywords))


def _single_step(work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> Steps[T]:
    yield from ()
    return work(*arguments, **keywords)
