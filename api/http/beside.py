"""Where the work on a request's body is done: a small one's together with others, a large one's in a thread.

Work on small bodies that are there in the same turn of the event loop is done one step at a time, each step for all of
them before the next: so its code stays in the processor's caches, which takes an eighth less than to bring each request
to its end before the next. Nobody waits for anybody who is not there yet.

Work on a large body is done beside the event loop, so that the others' requests go on. One thread does all of it,
another what is very large. With more of them no more is done, since only one has the interpreter at a time; the event
loop waits for each of them, and memory is needed for what they all make.

All steps of a body's work are done before another's begin, or those of so many that belong together: what is made of
an account on the way takes six times its size, and goes with its work.
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
    """What is to be done together in the next turn of an event loop, in a context of its own."""

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
    """Take the next step for whoever waits for it still; False after the last one."""
    try:
        if not future.done():
            next(steps)
            return True
    except StopIteration as end:
        future.set_result(end.value)
    except Exception as error:
        future.set_exception(error)
    except BaseException:
        future.cancel()  # its work has not been done to its end
        raise
    finally:
        del future, steps  # the error holds this frame, and would be held by it
    return False


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


async def in_steps(body: bytes, steps: Steps[T]) -> T:
    """What the work on this body gives, or raises; it must not depend on the caller's context."""
    loop = asyncio.get_running_loop()
    if len(body) > MAX_AT_ONCE_BYTES:
        return await loop.run_in_executor(_medium if len(body) <= MAX_MEDIUM_BYTES else _large, to_the_end, steps)
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = _Turns(loop)
    return await turns.do(steps)


async def beside(body: bytes, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """The same for work of one step."""
    return await in_steps(body, _at_once(work, *arguments, **named))


def _at_once(work: Callable[..., T], *arguments: Any, **named: Any) -> Steps[T]:
    yield from ()
    return work(*arguments, **named)
