"""Requests that bring something begin together where processors are short.

A request by itself finds the processor's caches filled by others, and costs an api process and Postgres several times
of what it costs among many. Where something waits for a processor half of the time, those that arrive within a few
milliseconds begin in one turn of the event loop: they are judged together (`api/beside.py`), and share an append.

Who sends one after the other waits for nobody: all begin as soon as about as many are here as have sent lately. Where
much arrives, it comes together by itself.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from api.stopping import asks_whether_gone
from runtime.processors import ProcessorPressure
from runtime.running_loop import running_loop

TOGETHER_S = 0.015
"""After so long since the last ones began, the next do at the latest: who comes later than that waits for nothing."""
LATELY_S = 0.2
MUCH = 120
"""More requests than that lately are together by themselves."""

Answering = Callable[[Request], Awaitable[Response]]


class _Sender(NamedTuple):
    """A connection on which something was answered: when, and whether it has closed since."""

    answered_at: float
    is_gone: Callable[[], bool]


class Arrivals:
    """Whoever arrives at the event loop, told apart by connection; for one loop."""

    def __init__(self, pressure: ProcessorPressure | None = None) -> None:
        self._pressure = pressure or ProcessorPressure()
        self._arrived_at: deque[float] = deque(maxlen=MUCH)
        self._senders: dict[Hashable, _Sender] = {}
        """In the order of their last answers."""
        self._inside = 0
        """Requests that wait here or are being answered."""
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._begun_at = 0.0

    def together(self, answer: Answering) -> Answering:
        """The handler, called when the request's turn has come.

        A connection counts as one that will send again when the handler has answered it: what it raises, as for
        somebody without a token, makes nobody wait.
        """

        async def answer_in_turn(request: Request) -> Response:
            self._inside += 1
            try:
                turn = self._turn()
                if turn is not None:
                    await turn
                response = await answer(request)
            finally:
                self._inside -= 1
            self._expect(request.scope)
            return response

        return answer_in_turn

    def _turn(self) -> "asyncio.Future[None] | None":
        """What a request waits for; None where it begins at once."""
        loop = running_loop()
        at = loop.time()
        comes_fast = len(self._arrived_at) == MUCH and at - self._arrived_at[0] < LATELY_S
        self._arrived_at.append(at)
        if not self._waiting and (comes_fast or not self._pressure.is_high()):
            return None
        expected = self._expected(at)
        if not self._waiting and expected < 2:
            return None
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._timer = loop.call_at(max(at, self._begun_at + TOGETHER_S), self._begin, loop)
        if self._timer is not None and self._inside >= expected:
            self._timer.cancel()
            self._timer = None
            loop.call_soon(self._begin, loop)
        return turn

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._begun_at = None, loop.time()
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():  # who waited may have gone
                turn.set_result(None)

    def _expect(self, scope: Scope) -> None:
        """Whoever was answered now may send again soon."""
        at = running_loop().time()
        self._forget(at)
        sender = scope.get("client")
        self._senders.pop(sender, None)
        self._senders[sender] = _Sender(at, asks_whether_gone(scope))

    def _expected(self, at: float) -> int:
        self._forget(at)
        return sum(not sender.is_gone() for sender in self._senders.values())

    def _forget(self, at: float) -> None:
        """Those who were not answered lately."""
        while self._senders and at - self._senders[oldest := next(iter(self._senders))].answered_at > LATELY_S:
            del self._senders[oldest]
