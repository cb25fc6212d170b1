"""Small bodies that arrive together are checked in a batch, step by step. Each caller gets its own result."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.body_checks import run_on_body, run_steps
from api.http.limits import MAX_AT_ONCE_BYTES, MAX_BATCH_BODIES, MAX_MEDIUM_BYTES
from system.steps import Steps

SMALL, MEDIUM = b"{}", bytes(MAX_AT_ONCE_BYTES + 1)
LARGE = bytes(MAX_MEDIUM_BYTES + 1)


def test_each_step_is_done_for_all_before_the_next() -> None:
    done: list[tuple[str, int]] = []

    def work(number: int) -> Steps[int]:
        done.append(("read", number))
        yield
        done.append(("judged", number))
        return number

    async def together() -> list[int]:
        return await asyncio.gather(*(run_steps(SMALL, work(number)) for number in range(3)))

    assert asyncio.run(together()) == [0, 1, 2]
    assert done == [(step, number) for step in ("read", "judged") for number in range(3)]


GONE = asyncio.CancelledError


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.one_of(st.integers(), st.just(ValueError), st.just(GONE))),
        max_size=2 * MAX_BATCH_BODIES,
    )
)
def test_everybody_gets_what_their_own_work_gives(works: list[tuple[int, Any]]) -> None:
    """Results do not depend on the work of others, on the number of steps, or on callers that have gone."""
    began = []

    def work(number: int, steps: int, outcome: Any) -> Steps[Any]:
        began.append(number)
        for _ in range(steps):
            yield
        if outcome is ValueError:
            raise ValueError(number)
        return outcome

    async def together() -> list[Any]:
        tasks = [asyncio.ensure_future(run_steps(SMALL, work(number, *task))) for number, task in enumerate(works)]
        await asyncio.sleep(0)
        for task, (_, outcome) in zip(tasks, works, strict=True):
            if outcome is GONE:
                task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(together())
    assert [result if isinstance(result, int) else type(result) for result in results] == [
        outcome for _, outcome in works
    ]
    assert [result.args for result in results if isinstance(result, ValueError)] == [
        (number,) for number, (_, outcome) in enumerate(works) if outcome is ValueError
    ]
    assert began == [number for number, (_, outcome) in enumerate(works) if outcome is not GONE]


@pytest.mark.parametrize(("body", "most"), [(SMALL, MAX_BATCH_BODIES), (MEDIUM, 1), (LARGE, 1)])
def test_so_many_are_begun_and_not_ended_at_a_time(body: bytes, most: int) -> None:
    begun, seen = 0, [0]

    def work() -> Steps[None]:
        nonlocal begun
        begun += 1
        seen.append(begun)
        yield
        yield
        begun -= 1

    async def together() -> None:
        await asyncio.gather(*(run_steps(body, work()) for _ in range(3 * MAX_BATCH_BODIES)))

    asyncio.run(together())
    assert (max(seen), begun) == (most, 0)


def test_nobody_waits_for_what_is_worked_on_in_another_thread() -> None:
    go_on = threading.Event()

    async def together() -> list[str]:
        waiting = [asyncio.ensure_future(run_on_body(body, go_on.wait)) for body in (LARGE, LARGE)]
        answered = [await asyncio.wait_for(run_on_body(body, str, "answered"), 60) for body in (SMALL, MEDIUM)]
        go_on.set()
        await asyncio.gather(*waiting)
        return answered

    assert asyncio.run(together()) == ["answered", "answered"]


def test_a_work_that_stops_the_loop_leaves_the_others_theirs() -> None:
    def stop() -> Steps[None]:
        yield
        raise KeyboardInterrupt

    def other_work() -> Steps[str]:
        yield
        yield
        return "done"

    loop = asyncio.new_event_loop()
    stopped = loop.create_task(run_steps(SMALL, stop()))
    other = loop.create_task(run_steps(SMALL, other_work()))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(other)
    assert loop.run_until_complete(asyncio.wait_for(other, 60)) == "done"
    loop.run_until_complete(asyncio.wait([stopped]))
    assert stopped.cancelled()
    loop.close()


class Read:
    """An object made of a body."""


def test_of_work_that_fails_nothing_is_kept() -> None:
    """The objects are freed without the garbage collector: those of the failed work, and those of its batch."""
    references: list[weakref.ref[Read]] = []

    def fail(_: Read) -> None:
        raise ValueError

    async def run(work: Callable[[Read], Any]) -> None:
        read = Read()
        references.append(weakref.ref(read))
        with suppress(ValueError):
            await run_on_body(SMALL, work, read)

    async def together() -> None:
        await asyncio.gather(run(fail), run(id))

    gc.disable()
    try:
        asyncio.run(together())
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()
