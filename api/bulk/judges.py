"""Who judges batches: helper processes, as soon as there is much to do; a thread before, and whenever one is lost."""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from datetime import UTC, datetime

import structlog

from api.bulk.helper import SIZE
from api.bulk.judging import Judged, Question, decode_judged, encode_question, judge_lines

HELPERS = max(1, min(2, os.cpu_count() or 1))
WORTH_IT = 3
"""Batches that a process has judged before it starts helpers: for a few lines they would come too late."""
LIMIT_S = 60.0
"""A helper that takes longer for a batch is ended, and another started."""

logger = structlog.get_logger()


class Judges:
    """The helpers of one api process. Start them with `judge`, end them with `close`."""

    def __init__(self) -> None:
        self._idle: list[Process] = []
        self._count = 0
        self._batches = 0
        self._is_closed = False
        self._free = asyncio.Semaphore(HELPERS + 1)
        self._starting: set[asyncio.Task[None]] = set()

    async def judge(self, question: Question) -> list[Judged]:
        """A judgement for each line."""
        async with self._free:
            self._batches += 1
            if self._batches > WORTH_IT and self._count < HELPERS and not self._is_closed:
                self._start()
            while self._idle:
                helper = self._idle.pop()
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                    async with asyncio.timeout(LIMIT_S):
                        found = await _asked(helper, encode_question(question))
                    self._idle.append(helper)
                    return found
                self._lose(helper)
            return await asyncio.to_thread(judge_lines, question)

    async def close(self) -> None:
        """End the helpers."""
        self._is_closed = True
        for task in self._starting:
            task.cancel()
        for helper in self._idle:
            assert helper.stdin is not None
            helper.stdin.close()
            await helper.wait()
        self._idle.clear()

    def _start(self) -> None:
        self._count += 1
        task = asyncio.create_task(self._started())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _started(self) -> None:
        helper = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "api.bulk.helper", stdin=PIPE, stdout=PIPE, limit=2**20
        )
        try:
            await _asked(helper, encode_question(_NOTHING))  # it is there when it answers
        except (asyncio.IncompleteReadError, ConnectionError):
            self._lose(helper)
        except asyncio.CancelledError:
            self._lose(helper)
            raise
        else:
            self._idle.append(helper)

    def _lose(self, helper: Process) -> None:
        self._count -= 1
        logger.warning("a helper was lost", helper=helper.pid)
        with contextlib.suppress(ProcessLookupError):
            helper.kill()


async def _asked(helper: Process, question: bytes) -> list[Judged]:
    assert helper.stdin is not None
    assert helper.stdout is not None
    helper.stdin.write(SIZE.pack(len(question)))
    helper.stdin.write(question)
    await helper.stdin.drain()
    size = SIZE.unpack(await helper.stdout.readexactly(SIZE.size))[0]
    return decode_judged(await helper.stdout.readexactly(size))


_NOTHING = Question([], {}, "validate", "", datetime.min.replace(tzinfo=UTC))
