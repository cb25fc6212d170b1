"""Decode and check bodies of requests: small ones in batches on the event loop, large ones in a thread.

Small bodies that arrive in the same iteration of the event loop form a batch, which runs one step at a time: each step
runs for all of them before the next step, so that its code stays in the CPU's caches. A batch never waits for a body
that has not arrived.

A large body is checked in a thread, so that other requests are answered meanwhile. One thread checks medium bodies,
another very large ones. More threads would gain nothing, since only one at a time has the interpreter lock, and would
need more memory.

All steps of a body run before another body begins, apart from those of its batch: the objects made of an account take
several times its size, and are freed with it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from api.http.limits import MAX_AT_ONCE_BYTES, MAX_MEDIUM_BYTES, MAX_TOGETHER
from system.steps import Steps, to_the_end

T = TypeVar("T")

_medium, _large = (ThreadPoolExecutor(1, name) for name in ("beside", "beside-large"))


class _Turns:
    """Queue of small bodies to check in the next iterations of an event loop. Runs without context variables."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = Context()
        self._waiting: deque[tuple[asyncio.Future[Any], Steps[Any]]] = deque()
        self._begun: deque[tuple[asyncio.Future[Any], Steps[Any]]] = deque()

    def do(self, steps: Steps[T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._waiting and not self._begun:
            self._loop.call_soon(self._do_some, context=self._context)
        self._waiting.append((future, steps))
        return future

    def _do_some(self) -> None:
        begun, waiting = self._begun, self._waiting
        while waiting and len(begun) < MAX_TOGETHER:
            begun.append(waiting.popleft())
        try:
            while begun:
                if _goes_on(*begun[0]):
                    begun.rotate(-1)
                else:
                    begun.popleft()
        finally:
            if waiting or begun:
                self._loop.call_soon(self._do_some, context=self._context)


def _goes_on(future: "asyncio.Future[T]", steps: Steps[T]) -> bool:
    """Run the next step, unless its caller has gone. Return False after the last step."""
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
        del future, steps  # the error refers to this frame: without this they would keep each other alive
    return False


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


async def in_steps(body: bytes, steps: Steps[T]) -> T:
    """Run the steps of the work on this body, and return its result. Raises its error.

    The steps run in a thread if the body is large. They must not depend on the caller's context variables.
    """
    loop = asyncio.get_running_loop()
    if len(body) > MAX_AT_ONCE_BYTES:
        return await loop.run_in_executor(_medium if len(body) <= MAX_MEDIUM_BYTES else _large, to_the_end, steps)
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = _Turns(loop)
    return await turns.do(steps)


async def beside(body: bytes, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Run work of a single step on this body as `in_steps` does, and return its result. Raises its error."""
    return await in_steps(body, _at_once(work, *arguments, **named))


def _at_once(work: Callable[..., T], *arguments: Any, **named: Any) -> Steps[T]:
    yield from ()
    return work(*arguments, **named)
