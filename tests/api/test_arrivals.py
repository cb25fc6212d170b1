"""Requests begin together where processors are short; who sends one after the other waits for nobody."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from api.arrivals import LATELY_S, MUCH, TOGETHER_S, Arrivals
from runtime.processors import ProcessorPressure
from tests.support.virtual_time import in_virtual_time

TOOK_LONG_S = 0.02


class Said(ProcessorPressure):
    """Says what it is told to say, whatever else this machine does."""

    def __init__(self, *, is_high: bool) -> None:
        super().__init__()
        self._said = is_high

    def is_high(self) -> bool:
        return self._said


class Service:
    """Answers each request after a while, and knows when it arrived and when it began."""

    def __init__(self, *, is_short: bool = True, takes_s: float = 0.003) -> None:
        self._takes_s = takes_s
        self.waits: list[float] = []
        self.began: list[float] = []
        self.answered: Counter[str] = Counter()
        self._answer = Arrivals(Said(is_high=is_short)).together(self._answering)

    async def ask(self, connection: str | None, *, fails: bool = False) -> Response:
        loop = asyncio.get_running_loop()
        headers = [(b"arrived", str(loop.time()).encode()), (b"fails", b"yes" if fails else b"")]
        client = (connection, 1) if connection else None
        return await self._answer(Request({"type": "http", "client": client, "headers": headers, "path": connection}))

    async def ask_again_and_again(self, connection: str, times: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        for _ in range(times):
            await self.ask(connection)

    async def _answering(self, request: Request) -> Response:
        at = asyncio.get_running_loop().time()
        self.began.append(at)
        self.waits.append(at - float(request.headers["arrived"]))
        await asyncio.sleep(self._takes_s)
        if request.headers["fails"]:
            raise ValueError("refused")
        self.answered[request.scope["path"]] += 1
        return Response()


async def one_by_one(service: Service, count: int, every_s: float, connections: int = 64) -> None:
    """So many requests, each on another connection than the one before it."""
    asked = []
    for number in range(count):
        asked.append(asyncio.ensure_future(service.ask(f"c{number % connections}")))
        await asyncio.sleep(every_s)
    await asyncio.gather(*asked)


def test_those_that_come_one_by_one_begin_together() -> None:
    service = Service()
    in_virtual_time(one_by_one(service, 400, every_s=TOGETHER_S / 4.5))
    in_order = [count for _, count in sorted(Counter(service.began).items())]
    assert in_order[:25] == [1] * 25, "nobody knows yet how many will follow"
    assert set(in_order[35:-1]) == {4, 5}
    assert max(service.waits) <= TOGETHER_S + 1e-6


@pytest.mark.parametrize(
    ("is_short", "every_s", "connections"),
    [(False, 0.005, 64), (True, 0.9 * LATELY_S / MUCH, 64), (True, 1.1 * LATELY_S, 64), (True, 0.005, 1)],
    ids=["processors are free", "much arrives", "little arrives", "all are of one connection"],
)
def test_nobody_waits_where_it_gains_nothing(is_short: bool, every_s: float, connections: int) -> None:
    service = Service(is_short=is_short)
    in_virtual_time(one_by_one(service, 400, every_s, connections))
    assert sum(wait > 0 for wait in service.waits) == 0


@given(senders=st.integers(1, 8), apart_s=st.floats(0, TOOK_LONG_S))
def test_clients_that_send_one_after_the_other_are_as_fast_as_ever(senders: int, apart_s: float) -> None:
    """Nobody is waited for who is being answered, and for a while only who has just begun or ended."""
    assert senders * LATELY_S / TOOK_LONG_S < MUCH, "more would not be made to wait at all"

    async def all_send(service: Service) -> float:
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for number in range(senders):
                group.create_task(service.ask_again_and_again(f"c{number}", 100, number * apart_s))
        return asyncio.get_running_loop().time() - began

    service, usual = Service(takes_s=TOOK_LONG_S), Service(takes_s=TOOK_LONG_S, is_short=False)
    assert in_virtual_time(all_send(service)) <= in_virtual_time(all_send(usual)) + (senders - 1) * LATELY_S


@given(
    st.lists(st.tuples(st.floats(0, 0.05), st.integers(0, 6), st.booleans(), st.booleans()), min_size=1, max_size=60)
)
def test_everybody_gets_their_own_answer_soon(arrivals: list[tuple[float, int, bool, bool]]) -> None:
    """Whatever comes of the others: some are refused, some go before their turn has come."""

    async def asked(service: Service) -> list[Any]:
        asking = []
        for pause_s, connection, fails, goes in arrivals:
            await asyncio.sleep(pause_s)
            asking.append(asyncio.ensure_future(service.ask(f"c{connection}" if connection else None, fails=fails)))
            if goes:
                asyncio.get_running_loop().call_later(TOGETHER_S / 3, asking[-1].cancel)
        return await asyncio.gather(*asking, return_exceptions=True)

    service = Service()
    outcomes = in_virtual_time(asked(service))
    for (_, _, fails, goes), outcome in zip(arrivals, outcomes, strict=True):
        meant = ValueError if fails else Response
        assert isinstance(outcome, meant) or (goes and isinstance(outcome, asyncio.CancelledError))
    assert max(service.waits, default=0.0) <= TOGETHER_S + 1e-6
    if not any(fails or goes for _, _, fails, goes in arrivals):
        assert service.answered.total() == len(arrivals)
