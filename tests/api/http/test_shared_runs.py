"""Concurrent callers share one run of a function, which begins after all calls that it serves."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.shared_runs import SharedRuns


@given(st.lists(st.integers(min_value=0, max_value=4), min_size=1, max_size=20))
def test_a_call_returns_after_a_turn_that_began_after_it_and_turns_never_overlap(pauses: list[int]) -> None:
    """Each caller waits a number of steps of the loop before it calls."""
    begun = ended = 0

    async def work() -> None:
        nonlocal begun, ended
        assert begun == ended
        begun += 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended += 1

    async def call(runs: SharedRuns, pause: int) -> None:
        for _ in range(pause):
            await asyncio.sleep(0)
        before = begun
        await runs.run()
        assert ended > before

    async def all_call() -> None:
        runs = SharedRuns(work)
        await asyncio.gather(*(call(runs, pause) for pause in pauses))

    asyncio.run(all_call())
    assert begun <= len(pauses)


def test_an_error_is_raised_to_all_callers_of_its_turn_and_the_next_turn_runs() -> None:
    outcomes = iter([ValueError("first"), None])

    async def work() -> None:
        if (error := next(outcomes)) is not None:
            raise error

    async def call() -> Sequence[BaseException | None]:
        runs = SharedRuns(work)
        failed = await asyncio.gather(runs.run(), runs.run(), return_exceptions=True)
        await runs.run()
        return failed

    assert [str(error) for error in asyncio.run(call())] == ["first", "first"]


def test_a_caller_that_stops_waiting_does_not_end_the_turn() -> None:
    async def cancelled() -> bool:
        done = asyncio.Event()

        async def work() -> None:
            await asyncio.sleep(0.01)
            done.set()

        waiting = asyncio.ensure_future(SharedRuns(work).run())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.wait_for(done.wait(), 30)
        return done.is_set()

    assert asyncio.run(cancelled())
