"""Who judges batches: helper processes, as soon as there is much to do; a thread before, and whenever one is lost."""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from datetime import UTC, datetime

import structlog

from api.beside import beside
from api.bulk.helper import SIZE
from api.bulk.judging import Judged, Question, decode_judged, encode_question, judge_lines
from api.limits import MAX_JUDGING_S
from runtime.processors import usable_cores
from telemetry.log import arguments_for_children

HELPERS = min(2, usable_cores())
WORTH_IT = 3
"""Batches that a process has judged before it starts helpers: for a few lines they would come too late."""

logger = structlog.get_logger()


class Judges:
    """The helpers of one api process. Start them with `judge`, end them with `close`."""

    def __init__(self) -> None:
        self._idle: asyncio.Queue[Process] = asyncio.Queue()
        self._starting: set[asyncio.Task[None]] = set()
        self._ready = 0
        self._batches = 0
        self._is_closed = False

    async def judge(self, question: Question) -> list[Judged]:
        """A judgement for each line."""
        self._batches += 1
        if self._batches > WORTH_IT and self._ready + len(self._starting) < HELPERS and not self._is_closed:
            self._start()
        while (helper := await self._next()) is not None:
            try:
                async with asyncio.timeout(MAX_JUDGING_S):
                    judged = await _asked(helper, encode_question(question))
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                self._ready -= 1
                _end(helper)
            except BaseException:  # in the middle of an answer it is of no use to others
                self._ready -= 1
                _end(helper)
                raise
            else:
                self._idle.put_nowait(helper)
                return judged
        return await asyncio.to_thread(judge_lines, question)

    async def _next(self) -> Process | None:
        """A helper that has nothing to do, as soon as there is one; None while there are no helpers."""
        while self._ready:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    return await self._idle.get()
        return None

    async def close(self) -> None:
        """End the helpers."""
        self._is_closed = True
        for task in self._starting:
            task.cancel()
        while not self._idle.empty():
            helper = self._idle.get_nowait()
            assert helper.stdin is not None
            helper.stdin.close()
            await helper.wait()

    def _start(self) -> None:
        task = asyncio.create_task(self._started())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _started(self) -> None:
        helper = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "api.bulk.helper", *arguments_for_children()), stdin=PIPE, stdout=PIPE, limit=2**20
        )
        try:
            await _asked(helper, encode_question(_NOTHING))  # it is there when it answers
        except (asyncio.IncompleteReadError, ConnectionError):
            _end(helper)
        except asyncio.CancelledError:
            _end(helper)
            raise
        else:
            self._ready += 1
            self._idle.put_nowait(helper)


def _end(helper: Process) -> None:
    logger.warning("a helper is ended", helper=helper.pid)
    with contextlib.suppress(ProcessLookupError):
        helper.kill()


async def _asked(helper: Process, question: bytes) -> list[Judged]:
    assert helper.stdin is not None
    assert helper.stdout is not None
    helper.stdin.write(SIZE.pack(len(question)))
    helper.stdin.write(question)
    await helper.stdin.drain()
    size = SIZE.unpack(await helper.stdout.readexactly(SIZE.size))[0]
    answer = await helper.stdout.readexactly(size)
    return await beside(answer, decode_judged, answer)


_NOTHING = Question([], {}, "validate", "", datetime.min.replace(tzinfo=UTC))
