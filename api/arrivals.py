"""Requests that bring something begin together where processors are short.

A request by itself finds the processor's caches filled by others: at 300 creates a second each costs an api process
and Postgres three times of what it costs among many. Where something waits for a processor half of the time, those
that arrive within a few milliseconds begin in one turn of the event loop: they are judged together (`api/beside.py`),
and share an append. What is asked meanwhile finds more of the processor free.

Who sends one after the other waits for nobody: as soon as everybody who has sent lately is there, or is being
answered, all begin. Where much arrives, it comes together by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from starlette.requests import Request
from starlette.responses import Response

from runtime.processors import ProcessorPressure
from runtime.running_loop import running_loop

TOGETHER_S = 0.015
"""After so long since the last ones began, the next do at the latest: who comes later than that waits for nothing."""
LATELY_S = 0.1
MUCH = 60
"""Requests within that time that come together by themselves."""

Answering = Callable[[Request], Awaitable[Response]]


class Arrivals:
    """Whoever arrives at one event loop, told apart by connection."""

    def __init__(self, pressure: ProcessorPressure | None = None) -> None:
        self._pressure = pressure or ProcessorPressure()
        self._before, self._now = _Period(0.0), _Period(0.0)
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._begun_at = 0.0
        self._under_way = 0

    def together(self, answer: Answering) -> Answering:
        """The handler, called when the request's turn has come."""

        async def answer_in_turn(request: Request) -> Response:
            turn = self._turn(request.scope.get("client"))
            if turn is not None:
                await turn
            self._under_way += 1
            try:
                return await answer(request)
            finally:
                self._under_way -= 1

        return answer_in_turn

    def _turn(self, sender: Hashable) -> "asyncio.Future[None] | None":
        """What a request of this sender waits for; None where it begins at once."""
        loop = running_loop()
        at = loop.time()
        if at >= self._now.ends_at:
            self._before = self._now if at < self._now.ends_at + LATELY_S else _Period(at)
            self._now = _Period(at + LATELY_S)
        self._now.notice(sender)
        if not self._waiting and not self._is_worth_waiting():
            return None
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._timer = loop.call_at(max(at, self._begun_at + TOGETHER_S), self._begin, loop)
        expected = max(len(self._before.senders), len(self._now.senders))
        if self._timer is not None and len(self._waiting) + self._under_way >= expected:
            self._timer.cancel()
            self._timer = None
            loop.call_soon(self._begin, loop)
        return turn

    def _is_worth_waiting(self) -> bool:
        return len(self._before.senders) > 1 and self._before.requests <= MUCH and self._pressure.is_high()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._begun_at = None, loop.time()
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():  # who waited may have gone
                turn.set_result(None)


class _Period:
    """What has arrived within `LATELY_S`, until a time of the loop's clock."""

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.requests = 0
        self.senders: set[Hashable] = set()

    def notice(self, sender: Hashable) -> None:
        self.requests += 1
        self.senders.add(sender)
