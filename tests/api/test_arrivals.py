"""Requests begin together where processors are short; who sends one after the other waits for nobody."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from api.app import create_app
from api.arrivals import LATELY_S, MUCH, TOGETHER_S, Answering, Arrivals
from api.operations import OPERATIONS
from api.stopping import GONE
from tests.support.pressure import Said
from tests.support.virtual_time import in_virtual_time

SLACK_S = 1e-6


def test_every_post_of_one_body_takes_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []

    def together(arrivals: Arrivals, answer: Answering) -> Answering:
        taken.append(answer)
        return answer

    monkeypatch.setattr(Arrivals, "together", together)
    create_app("postgresql:///nowhere", bytes(32))
    posts = [one for one in OPERATIONS if one.method == "POST" and one.roles is not None and not one.is_ndjson]
    assert len(taken) == len(posts) > 0


class Service:
    """Answers each request after a while, and knows when it arrived and when it began."""

    def __init__(self, *, is_short: bool = True, takes_s: float = 0.003) -> None:
        self._takes_s = takes_s
        self.waits: list[float] = []
        self.began: list[float] = []
        self._answer = Arrivals(Said(is_high=is_short)).together(self._answering)

    async def ask(
        self, connection: str, number: int = 0, *, fails: bool = False, is_gone: Callable[[], bool] = lambda: False
    ) -> Response:
        at = str(asyncio.get_running_loop().time()).encode()
        headers = [(b"arrived", at), (b"fails", b"yes" if fails else b""), (b"number", b"%d" % number)]
        return await self._answer(
            Request({"type": "http", "client": (connection, 1), "headers": headers, GONE: is_gone})
        )

    async def one_by_one(self, count: int, every_s: float, connections: int = 64) -> None:
        """So many requests, each on another connection than the one before it."""
        asked = []
        for number in range(count):
            asked.append(asyncio.ensure_future(self.ask(f"c{number % connections}")))
            await asyncio.sleep(every_s)
        await asyncio.gather(*asked)

    async def _answering(self, request: Request) -> Response:
        at = asyncio.get_running_loop().time()
        self.began.append(at)
        self.waits.append(at - float(request.headers["arrived"]))
        await asyncio.sleep(self._takes_s)
        if request.headers["fails"]:
            raise ValueError(request.headers["number"])
        return Response(request.headers["number"])


@pytest.mark.parametrize("connections", [8, 64])
def test_those_that_come_one_by_one_begin_together(connections: int) -> None:
    service = Service()
    in_virtual_time(service.one_by_one(400, TOGETHER_S / 4.5, connections))
    in_order = [count for _, count in sorted(Counter(service.began).items())]
    assert set(in_order[5:-1]) == {4, 5}
    assert max(service.waits) <= TOGETHER_S + SLACK_S


@pytest.mark.parametrize("every_s", [1.05 * LATELY_S / MUCH, 0.95 * TOGETHER_S])
def test_as_much_and_as_little_is_worth_waiting_for(every_s: float) -> None:
    service = Service()
    in_virtual_time(service.one_by_one(300, every_s))
    assert sum(wait > SLACK_S for wait in service.waits) > 100


@pytest.mark.parametrize(
    ("is_short", "every_s", "connections"),
    [(False, 0.005, 64), (True, 1.05 * TOGETHER_S, 64), (True, 0.005, 1)],
    ids=["processors are free", "little arrives", "all are of one connection"],
)
def test_nobody_waits_where_it_gains_nothing(is_short: bool, every_s: float, connections: int) -> None:
    service = Service(is_short=is_short)
    in_virtual_time(service.one_by_one(600, every_s, connections))
    assert max(service.waits) <= SLACK_S


def test_nobody_waits_where_much_arrives() -> None:
    """But for the first, of whom nobody knows yet how many will follow."""
    service = Service()
    in_virtual_time(service.one_by_one(600, 0.95 * LATELY_S / MUCH))
    assert max(service.waits[MUCH + 20 :]) <= SLACK_S


def test_who_takes_another_connection_each_time_waits_for_nobody() -> None:
    """Those that are closed send nothing more."""

    async def sent(service: Service) -> None:
        for number in range(100):
            answered = asyncio.Event()
            await service.ask(f"c{number}", is_gone=answered.is_set)
            answered.set()

    service = Service(takes_s=0.005)
    in_virtual_time(sent(service))
    assert max(service.waits) <= SLACK_S


def test_nobody_waits_for_those_who_are_refused() -> None:
    """Such as who sends without a token."""

    async def refused(service: Service) -> None:
        for number in range(50):
            with pytest.raises(ValueError, match="0"):
                await service.ask(f"stranger{number % 9}", fails=True)
            await asyncio.sleep(0.002)

    async def sent(service: Service) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(refused(service))
            for _ in range(20):
                await service.ask("importer")

    service = Service(takes_s=0.005)
    in_virtual_time(sent(service))
    assert max(service.waits) <= SLACK_S


@given(senders=st.integers(1, 8), apart_s=st.floats(0, 0.02), takes_s=st.floats(0.005, 0.04))
def test_clients_that_send_one_after_the_other_are_as_fast_as_ever(
    senders: int, apart_s: float, takes_s: float
) -> None:
    """Nobody is waited for who is being answered, and for a while only who has just ended."""

    async def sent(service: Service, connection: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        for _ in range(100):
            await service.ask(connection)

    async def all_sent(service: Service) -> float:
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for number in range(senders):
                group.create_task(sent(service, f"c{number}", number * apart_s))
        return asyncio.get_running_loop().time() - began

    service, usual = Service(takes_s=takes_s), Service(takes_s=takes_s, is_short=False)
    for_those_who_ended_s = (senders - 1) * LATELY_S
    assert in_virtual_time(all_sent(service)) <= in_virtual_time(all_sent(usual)) + for_those_who_ended_s + SLACK_S


@given(
    st.lists(st.tuples(st.floats(0, 0.05), st.integers(0, 6), st.booleans(), st.booleans()), min_size=1, max_size=60)
)
def test_everybody_gets_their_own_answer_soon(arrivals: list[tuple[float, int, bool, bool]]) -> None:
    """Whatever comes of the others: some are refused, some go before their turn has come."""

    async def asked(service: Service) -> list[Any]:
        asking = []
        for number, (pause_s, connection, fails, goes) in enumerate(arrivals):
            await asyncio.sleep(pause_s)
            asking.append(asyncio.ensure_future(service.ask(f"c{connection}", number, fails=fails)))
            if goes:
                asyncio.get_running_loop().call_later(TOGETHER_S / 3, asking[-1].cancel)
        return await asyncio.gather(*asking, return_exceptions=True)

    service = Service()
    outcomes = in_virtual_time(asked(service))
    for number, ((_, _, fails, goes), outcome) in enumerate(zip(arrivals, outcomes, strict=True)):
        if goes and isinstance(outcome, asyncio.CancelledError):
            continue
        assert str(outcome) == str(number) if fails else outcome.body == b"%d" % number
    assert max(service.waits, default=0.0) <= TOGETHER_S + SLACK_S
