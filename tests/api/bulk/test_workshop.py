"""Batches of lines are checked even if helper processes are killed."""

import asyncio
import os
import signal
from datetime import UTC, datetime

import pytest

from api.bulk import workshop
from api.bulk.judging import Question
from api.bulk.workshop import Workshop
from market.judging import Terms
from tests.support.make import an_account, encoded

QUESTION = Question([encoded(an_account("S", 1))] * 200, {"S": Terms()}, "create", "", datetime.now(UTC))


def test_a_batch_whose_helper_is_killed_is_judged_and_later_ones_have_helpers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workshop, "WORTH_IT", 0)

    async def helper_of(judging: Workshop) -> int:
        """The process that has started, once the judges use it."""
        assert judging._helpers is not None
        assert judging._started is not None
        await asyncio.wrap_future(judging._started)
        return await asyncio.wrap_future(judging._helpers.submit(os.getpid))

    async def script() -> None:
        judging = Workshop()
        try:
            expected = await judging.judge(QUESTION)
            first = await helper_of(judging)
            under_way = asyncio.create_task(judging.judge(QUESTION))
            await asyncio.sleep(0)
            os.kill(first, signal.SIGKILL)
            found = [await under_way, await judging.judge(QUESTION), await judging.judge(QUESTION)]
            assert [[judged.code for judged in each] for each in found] == [[judged.code for judged in expected]] * 3
            assert await helper_of(judging) != first
        finally:
            await judging.close()

    asyncio.run(script())
