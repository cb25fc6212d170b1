"""Small bodies that are there together are worked on together, step by step; nobody's work is anybody else's."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.beside import Turns, beside
from api.limits import MAX_AT_ONCE_BYTES, MAX_MEDIUM_BYTES, MAX_TOGETHER
from eventstore.errors import StoreUnavailable

SMALL, MEDIUM = b"{}", bytes(MAX_AT_ONCE_BYTES + 1)


def test_each_step_is_done_for_all_before_the_next() -> None:
    done: list[tuple[str, int]] = []

    async def one(number: int) -> None:
        for step in ("read", "judged"):
            await beside(SMALL, done.append, (step, number))

    async def together() -> None:
        await asyncio.gather(*map(one, range(3)))

    asyncio.run(together())
    assert done == [(step, number) for step in ("read", "judged") for number in range(3)]


@given(st.lists(st.one_of(st.integers(), st.just(ValueError), st.just(asyncio.CancelledError)), max_size=20))
def test_everybody_gets_what_their_own_work_gives(outcomes: list[Any]) -> None:
    """Whatever that of the others gives or raises, and whoever has gone."""
    began = []

    def work(number: int, outcome: Any) -> Any:
        began.append(number)
        if outcome is ValueError:
            raise ValueError(number)
        return outcome

    async def together() -> list[Any]:
        tasks = [asyncio.ensure_future(beside(SMALL, work, *one)) for one in enumerate(outcomes)]
        await asyncio.sleep(0)
        for task, outcome in zip(tasks, outcomes, strict=True):
            if outcome is asyncio.CancelledError:
                task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    given_back = asyncio.run(together())
    assert [one if isinstance(one, int) else type(one) for one in given_back] == outcomes
    assert [one.args for one in given_back if isinstance(one, ValueError)] == [
        (number,) for number, outcome in enumerate(outcomes) if outcome is ValueError
    ]
    assert began == [number for number, outcome in enumerate(outcomes) if outcome is not asyncio.CancelledError]


def test_a_work_that_stops_the_loop_leaves_the_others_theirs() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    loop = asyncio.new_event_loop()
    stopped = loop.create_task(beside(SMALL, stop))
    other = loop.create_task(beside(SMALL, lambda: "done"))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(other)
    assert loop.run_until_complete(asyncio.wait_for(other, 5)) == "done"
    stopped.cancel()
    loop.run_until_complete(asyncio.wait([stopped]))
    loop.close()


class Read:
    """What is made of a body."""


def test_of_work_that_fails_nothing_is_kept() -> None:
    """Neither of one's own nor of what others brought at the same time, also before garbage is looked for."""
    kept: list[weakref.ref[Read]] = []

    def fail(_: Read) -> None:
        raise ValueError

    async def one(work: Callable[[Read], Any]) -> None:
        read = Read()
        kept.append(weakref.ref(read))
        with suppress(ValueError):
            await beside(SMALL, work, read)

    async def together() -> None:
        await asyncio.gather(one(fail), one(id))

    gc.disable()
    try:
        asyncio.run(together())
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


def test_work_knows_nothing_of_another_callers_context() -> None:
    caller = ContextVar("caller", default="")

    async def one(name: str) -> str:
        caller.set(name)
        return await beside(SMALL, caller.get)

    async def together() -> tuple[str, str]:
        return await asyncio.gather(one("first"), one("second"))

    assert [*asyncio.run(together())] == ["", ""]


def test_what_one_event_loop_has_left_is_nothing_to_the_next() -> None:
    async def leave() -> None:
        left = asyncio.ensure_future(beside(SMALL, lambda: "left"))
        await asyncio.sleep(0)
        assert not left.done()

    async def ask() -> str:
        return await asyncio.wait_for(beside(SMALL, lambda: "asked"), 5)

    asyncio.run(leave())
    assert asyncio.run(ask()) == "asked"


@pytest.mark.parametrize("body", [SMALL, MEDIUM, bytes(MAX_MEDIUM_BYTES)])
def test_so_many_accounts_are_worked_on_at_a_time(body: bytes) -> None:
    async def most() -> int:
        turns, inside, most = Turns(), 0, 0

        async def one() -> None:
            nonlocal inside, most
            async with turns.of(body):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(one() for _ in range(3 * MAX_TOGETHER)))
        return most

    assert asyncio.run(most()) == MAX_TOGETHER


def test_small_ones_do_not_wait_for_those_that_are_worked_on_in_a_thread() -> None:
    async def taken() -> bool:
        turns = Turns()
        for _ in range(MAX_TOGETHER):
            await turns.of(MEDIUM).__aenter__()
        async with asyncio.timeout(5), turns.of(SMALL):
            return True

    assert asyncio.run(taken())


def test_those_for_whom_there_was_no_place_are_told_that_the_database_does_not_answer() -> None:
    async def answers() -> tuple[int, set[type]]:
        turns, asked = Turns(), 0

        async def one() -> None:
            nonlocal asked
            async with turns.of(SMALL):
                asked += 1
                await asyncio.sleep(0.01)
                raise StoreUnavailable

        answered = await asyncio.gather(*(one() for _ in range(3 * MAX_TOGETHER)), return_exceptions=True)
        async with turns.of(SMALL):  # whoever comes later tries again
            return asked, {type(answer) for answer in answered}

    assert asyncio.run(answers()) == (MAX_TOGETHER, {StoreUnavailable})
