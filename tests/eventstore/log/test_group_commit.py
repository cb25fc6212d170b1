"""The writer of a process accepts a bounded number of appends and writes clients' appends together."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg_pool import PoolTimeout

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import SupplierCreated
from eventstore.errors import LedgerBusy, StoreUnavailable
from eventstore.events import Recorded
from eventstore.log.group_commit import ANSWER_TIMEOUT_S, AppendResult, GroupCommitter, LoopCommitter
from eventstore.log.recorder import Append, LedgerDatastore, LedgerRecorder
from tests.support.make import NOON
from tests.support.pressure import FixedPressure
from tests.support.virtual_time import in_virtual_time


def test_the_writer_takes_no_more_than_it_can_hold(database: PostgresUrls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventstore.log.group_commit.MAX_WAITING", 0)
    datastore = LedgerDatastore(database.service, connections=1)
    committer = GroupCommitter(LedgerRecorder(datastore))
    with pytest.raises(LedgerBusy):
        committer.submit_all([Append([])], lambda results: None)
    committer.close()
    datastore.close()


def test_the_writer_goes_on_after_an_unexpected_error(database: PostgresUrls) -> None:
    """The failure is reported, and later appends are written."""
    errors: list[Exception] = [ZeroDivisionError("once")]

    def after_commit() -> None:
        if errors:
            raise errors.pop()

    datastore = LedgerDatastore(database.service, connections=1)
    committer = GroupCommitter(LedgerRecorder(datastore), after_commit)
    appends = [Append([recorded("supplier/A")]), Append([recorded("supplier/B")])]
    assert [committer.append(append) for append in appends] == [1, 2]
    assert committer.is_running
    committer.close()
    datastore.close()


def test_creates_are_written_while_others_use_all_connections(database: PostgresUrls) -> None:
    """A batch would wait for a connection of the pool, and all its creates would be answered 503."""
    datastore = LedgerDatastore(database.service, connections=10)
    committer = GroupCommitter(LedgerRecorder(datastore))
    with contextlib.ExitStack() as others:
        for _ in range(9):
            others.enter_context(datastore.pool.connection())
        with pytest.raises(PoolTimeout):
            datastore.pool.getconn(timeout=0)
        assert committer.append(Append([recorded("supplier/A")])) == 1
    committer.close()
    datastore.close()


def recorded(stream: str) -> Recorded:
    return Recorded(stream, 1, SupplierCreated(), NOON, stream.split("/")[1], "t")


class Writer:
    """Replaces the writer's thread: batches wait until the test writes them."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Append]] = []
        self._done: list[Callable[[list[AppendResult]], None]] = []
        self._written = 0

    def submit_all(self, appends: Sequence[Append], done: Callable[[list[AppendResult]], None]) -> None:
        self.batches.append(appends)
        self._done.append(done)

    async def write(self) -> None:
        """Answer the oldest batch; positions continue."""
        first, count = self._written + 1, len(self.batches[len(self.batches) - len(self._done)])
        self._written += count
        self._done.pop(0)([*range(first, first + count)])
        await self.settle()

    async def write_all(self) -> None:
        while self._done:
            await self.write()

    @staticmethod
    async def settle() -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    @property
    def answered(self) -> int:
        return len(self.batches) - len(self._done)

    @property
    def sizes(self) -> list[int]:
        return [*map(len, self.batches)]


WAIT = -1
Submit = Callable[[int], "list[asyncio.Future[int]]"]


def among_clients(scene: Callable[[Writer, Submit], Awaitable[Any]], *, is_short: bool = False) -> Any:
    """Run a scene with a function that submits appends at once; `is_short` of CPU."""

    async def played() -> Any:
        writer = Writer()
        committer = LoopCommitter(writer, FixedPressure(is_high=is_short))  # type: ignore[arg-type]
        return await scene(writer, lambda count: [committer.submit(Append([])) for _ in range(count)])

    return asyncio.run(played())


LONG, BY_NUMBER, USUAL = (3600.0, 0.0, 0.0), (0.0, 900.0, 3600.0), (0.005, 0.0006, 0.012)
"""Seconds to gather: at least, for each append, at most."""


@pytest.mark.parametrize(
    ("gather", "is_short", "steps", "sizes"),
    [
        pytest.param(LONG, False, [1, 0] * 5, [1] * 5, id="who sends alone waits for nobody"),
        pytest.param(LONG, True, [1, 0] * 3, [1] * 3, id="nor where processors are short"),
        pytest.param(LONG, False, [3, 0, 2, 1], [3, 3], id="those who were answered are waited for"),
        pytest.param(BY_NUMBER, False, [4, 0, 3, 1], [4, 4], id="of many longer"),
        pytest.param(LONG, False, [2, 3, 0], [2, 3], id="what has come meanwhile is enough"),
        pytest.param(USUAL, False, [3, 0, 1, WAIT, 0, 1], [3, 1, 1], id="fewer are written after a moment"),
        pytest.param(LONG, True, [2, 3, 0, 2], [2, 5], id="where processors are short all are one batch"),
        pytest.param(USUAL, True, [2, 1, 0, WAIT, 0, 1], [2, 1, 1], id="those who left are waited for once"),
    ],
)
def test_appends_of_several_clients_are_written_together(
    monkeypatch: pytest.MonkeyPatch, gather: tuple[float, ...], is_short: bool, steps: list[int], sizes: list[int]
) -> None:
    """A step is a number of appends to submit at once, 0 to write the oldest batch, or WAIT for a batch."""
    for name, seconds in zip(("GATHER_S", "GATHER_EACH_S", "MAX_GATHER_S"), gather, strict=True):
        monkeypatch.setattr(f"eventstore.log.group_commit.{name}", seconds)

    async def scene(writer: Writer, submit: Submit) -> list[int]:
        for step in steps:
            while step == WAIT and len(writer.batches) == writer.answered:
                await asyncio.sleep(0.001)
            if step > 0:
                submit(step)
                await writer.settle()
            elif step == 0:
                await writer.write()
        await writer.write_all()
        return writer.sizes

    assert among_clients(scene, is_short=is_short) == sizes


@given(st.lists(st.integers(0, 4), max_size=12), st.booleans())
def test_every_append_is_written_once_and_in_order_however_they_come(bursts: list[int], is_short: bool) -> None:
    async def scene(writer: Writer, submit: Submit) -> list[int]:
        futures = []
        for count in bursts:  # none: the writer gets something done
            futures += submit(count)
            if not count:
                await writer.settle()
                await writer.write_all()
        async with asyncio.timeout(30):
            while not all(future.done() for future in futures):
                await writer.write_all()
                await asyncio.sleep(0.001)
        return [future.result() for future in futures]

    assert among_clients(scene, is_short=is_short) == [*range(1, sum(bursts) + 1)]


@pytest.mark.promise("create-answered-within-time")
@given(st.lists(st.tuples(st.floats(0, 2), st.booleans()), min_size=1, max_size=20))
def test_no_append_waits_longer_than_its_time_however_long_batches_take(steps: list[tuple[float, bool]]) -> None:
    """Each step pauses, may write the oldest batch, and appends."""

    async def scene() -> None:
        writer = Writer()
        committer = LoopCommitter(writer, FixedPressure(is_high=False))  # type: ignore[arg-type]
        loop, waited = asyncio.get_running_loop(), list[float]()

        async def append() -> None:
            began = loop.time()
            with contextlib.suppress(StoreUnavailable):
                await committer.submit(Append([]))
            waited.append(loop.time() - began)

        async with asyncio.TaskGroup() as group:
            for pause, is_written in steps:
                await asyncio.sleep(pause)
                if is_written and writer.sizes and len(writer.sizes) > writer.answered:
                    await writer.write()
                group.create_task(append())
        assert len(waited) == len(steps)
        assert max(waited) <= ANSWER_TIMEOUT_S + 1e-6

    in_virtual_time(scene())
