"""The loop that is remembered is the one that runs."""

import asyncio
import multiprocessing
import threading

import pytest
import uvloop

from runtime.running_loop import running_loop


async def _is_it() -> bool:
    return running_loop() is asyncio.get_running_loop()


def test_each_loop_of_a_thread_is_found_while_it_runs() -> None:
    assert [asyncio.run(_is_it()), uvloop.run(_is_it()), asyncio.run(_is_it())] == [True] * 3
    with pytest.raises(RuntimeError):
        running_loop()


def test_another_thread_has_another_loop() -> None:
    found: list[bool] = []

    async def ask_in_both() -> None:
        assert await _is_it()
        thread = threading.Thread(target=lambda: found.append(asyncio.run(_is_it())))
        thread.start()
        await asyncio.to_thread(thread.join)
        assert await _is_it()

    asyncio.run(ask_in_both())
    assert found == [True]


def _ask_in_a_child() -> None:
    with pytest.raises(RuntimeError):
        running_loop()  # the parent's loop does not run here
    assert asyncio.run(_is_it())


def test_a_process_that_was_forked_meanwhile_does_not_take_the_loop_for_its_own() -> None:
    async def fork() -> int | None:
        assert await _is_it()
        child = multiprocessing.get_context("fork").Process(target=_ask_in_a_child)
        child.start()
        await asyncio.to_thread(child.join, 30)
        return child.exitcode

    assert asyncio.run(fork()) == 0
