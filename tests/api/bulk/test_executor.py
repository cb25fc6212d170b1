"""Batches of lines are checked even if helper processes are killed."""

import asyncio
import os
import signal
from datetime import UTC, datetime

import pytest

from api.bulk import executor
from api.bulk.checking import CheckRequest
from api.bulk.executor import BulkExecutor
from market.submission_check import Terms
from tests.support.make import an_account, encoded

QUESTION = CheckRequest([encoded(an_account("S", 1))] * 200, {"S": Terms()}, "create", "", datetime.now(UTC))


def test_a_batch_whose_helper_is_killed_is_judged_and_later_ones_have_helpers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "HELPERS_AFTER_BATCHES", 0)

    async def helper_of(executor: BulkExecutor) -> int:
        """The process that has started, once the executor has started it."""
        assert executor._helpers is not None
        assert executor._started is not None
        await asyncio.wrap_future(executor._started)
        return await asyncio.wrap_future(executor._helpers.submit(os.getpid))

    async def script() -> None:
        executor = BulkExecutor()
        try:
            expected = await executor.check(QUESTION)
            first = await helper_of(executor)
            under_way = asyncio.create_task(executor.check(QUESTION))
            await asyncio.sleep(0)
            os.kill(first, signal.SIGKILL)
            found = [
                await under_way,
                await executor.check(QUESTION),
                await executor.check(QUESTION),
            ]
            assert [[judged.code for judged in each] for each in found] == [[judged.code for judged in expected]] * 3
            assert await helper_of(executor) != first
        finally:
            await executor.close()

    asyncio.run(script())
