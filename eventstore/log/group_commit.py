"""Group commit: many small appends share one transaction and one flush.

`GroupCommitter` is a thread of each process. `GroupCommitter` writes all queued appends, bounded by count and bytes,
and never sleeps to collect more. `LoopCommitter` connects `GroupCommitter` with an event loop: it passes the appends
that the loop has collected since the last batch, so that thread and loop do not wake each other for every append. If
several clients send at the same time, `LoopCommitter` waits a moment for their appends, since each transaction has a
fixed cost.
"""

import asyncio
import queue
import time
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import Future
from functools import partial
from itertools import accumulate, count
from typing import Any

import psycopg

from eventstore.errors import LedgerBusy, RolledBack, StoreUnavailable, VersionConflict
from eventstore.log.connecting import waiting_for_standbys
from eventstore.log.recorder import Append, LedgerRecorder
from eventstore.log.store_errors import store_errors
from system.processors import ProcessorPressure
from telemetry.measures import measures
from telemetry.supervision import supervision

MAX_BATCH_EVENTS = 200
MAX_BATCH_BYTES = 2_000_000
"""Events, and bytes of payloads, of a full batch. The append that reaches a limit still belongs to the batch."""
MAX_WAITING = 2_000
"""Appends that may wait in a process. Further appends raise LedgerBusy."""
ANSWER_TIMEOUT_S = 1.5
"""Longest wait for the database before a request is answered with 503 [seconds]."""
GATHER_S, GATHER_EACH_S, MAX_GATHER_S = 0.005, 0.0006, 0.012
"""Longest time between two batches [seconds]:

GATHER_EACH_S for each append of the first batch, at least GATHER_S and at most MAX_GATHER_S. The time is longer after a
large batch, since many clients need time to send again.
"""
ROLLED_BACK_TRIES = 3
"""Tries for a batch that the database rolls back in favour of another transaction.

After these tries, the callers of the batch retry.
"""
PATIENCE = 3
"""Factor of the wait while CPU is short: clients need longer to send again, and fewer batches cost less."""

WRITER = "log writer"
"""Name of the writer thread."""

AppendResult = int | BaseException
"""Position of an append's first event, or the error: VersionConflict, StoreUnavailable, psycopg.Error."""


class _Item:
    """Waiting append. `keys` are its streams and command ids: two appends of a batch must not have a key in common."""

    __slots__ = ("append", "keys", "settle")

    def __init__(self, append: Append, settle: Callable[[AppendResult], None]) -> None:
        self.append = append
        self.settle = settle
        self.keys = {event.stream for event in append.events}
        self.keys |= {answer.command_id for answer in append.answers.values()}


class GroupCommitter:
    """Writer thread. A conflicting append fails alone; a full queue raises LedgerBusy instead of growing.

    `after_commit` is called in the writer's thread after each batch.
    """

    def __init__(self, recorder: LedgerRecorder, after_commit: Callable[[], None] = lambda: None) -> None:
        self._recorder = recorder
        self._after_commit = after_commit
        self._jobs: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self._queued: list[_Item] = []
        self._is_open = True
        self._thread = supervision.thread(WRITER, self._write_batches)

    def append(self, append: Append) -> int:
        """Append, wait and return the first event's position. Raises VersionConflict, StoreUnavailable, LedgerBusy."""
        future: Future[int] = Future()
        self._enqueue([_Item(append, partial(_settle_future, future))])
        return future.result()

    def submit_all(self, appends: Sequence[Append], done: Callable[[list[AppendResult]], None]) -> None:
        """Submit several independent appends.

        `done` is called with a result for each append, in the writer's thread. Raises LedgerBusy.
        """
        results: list[AppendResult] = [0] * len(appends)
        settled = count(1)

        def settle(index: int, result: AppendResult) -> None:
            results[index] = result
            if next(settled) == len(appends):
                done(results)

        self._enqueue([_Item(append, partial(settle, index)) for index, append in enumerate(appends)])

    def _enqueue(self, items: list[_Item]) -> None:
        if self._jobs.qsize() >= MAX_WAITING:
            raise LedgerBusy(f"{MAX_WAITING} appends are waiting")
        self._jobs.put(items)

    @property
    def waiting(self) -> int:
        """Approximate number of waiting appends; appends that were submitted together count once."""
        return self._jobs.qsize() + len(self._queued)

    @property
    def is_running(self) -> bool:
        """False after `close`, and while the writer waits after a failure."""
        return self._thread.is_alive() and supervision.is_due(WRITER)

    def close(self) -> None:
        """Write all queued appends and stop."""
        self._jobs.put(None)
        self._thread.join()

    def _write_batches(self) -> None:
        while self._is_open or self._queued:
            self._is_open = self._collect() and self._is_open
            batch = self._next_batch()
            if batch:
                self._write(batch)

    def _collect(self) -> bool:
        """Move all submitted appends to the queue; wait only if the queue is empty. Return False after `close`."""
        try:
            while True:
                items = self._jobs.get_nowait() if self._queued else self._jobs.get()
                if items is None:
                    return False
                self._queued += items
        except queue.Empty:
            return True

    def _next_batch(self) -> list[_Item]:
        """Take the next batch from the queue: bounded, with each stream and command id only once.

        Further appends stay queued.
        """
        batch: list[_Item] = []
        left: list[_Item] = []
        keys: set[str] = set()
        size = events = 0
        for item in self._queued:
            is_full = size >= MAX_BATCH_BYTES or events >= MAX_BATCH_EVENTS
            if is_full or item.keys & keys:
                left.append(item)
                continue
            batch.append(item)
            keys |= item.keys
            size, events = size + item.append.bytes, events + len(item.append.events)
        self._queued = left
        return batch

    def _write(self, batch: list[_Item]) -> None:
        tries_left = ROLLED_BACK_TRIES
        while batch:
            try:
                positions = self._append(batch)
            except RolledBack as error:
                tries_left -= 1
                if tries_left == 0:
                    _refuse(batch, error)
                    return
                continue
            except VersionConflict as conflict:
                batch = _without_conflicting(batch, conflict.numbers)
                continue
            except psycopg.Error as error:  # nothing was stored: find the append that causes the error
                if len(batch) == 1:
                    _refuse(batch, error)
                    return
                for item in batch:
                    self._write([item])
                return
            except Exception as error:  # the error is reported to the callers, and the writer continues
                _refuse(batch, error)
                return
            for item, position in zip(batch, positions, strict=True):
                item.settle(position)
            self._after_commit()
            return

    def _append(self, batch: Sequence[_Item]) -> list[int]:
        events = [event for item in batch for event in item.append.events]
        payloads = {stream: payload for item in batch for stream, payload in item.append.payloads.items()}
        firsts = list(accumulate((len(item.append.events) for item in batch), initial=0))[:-1]
        answers = {
            first + index: answer
            for first, item in zip(firsts, batch, strict=True)
            for index, answer in item.append.answers.items()
        }
        datastore: Any = self._recorder.datastore
        with store_errors(), datastore.writers_pool.connection() as connection, waiting_for_standbys(connection):
            began = time.perf_counter()
            position = 1 + self._recorder.append(connection, Append(events, payloads, answers))
            measures().appended(len(events), time.perf_counter() - began)
        return [position + first for first in firsts]


def _refuse(batch: Sequence[_Item], error: Exception) -> None:
    for item in batch:
        item.settle(error)


def _without_conflicting(batch: Sequence[_Item], conflicting: Set[int]) -> list[_Item]:
    """Fail the appends whose events conflicted (numbers in the batch, from 1); return all other appends."""
    others, n = [], 0
    for item in batch:
        span = range(n + 1, n + 1 + len(item.append.events))
        n += len(item.append.events)
        if not conflicting or conflicting & set(span):
            item.settle(VersionConflict(item.append.events[0].stream))
        else:
            others.append(item)
    return others


class LoopCommitter:
    """Connection of an event loop with a `GroupCommitter`.

    An append that takes too long, for example while the database hangs, fails with StoreUnavailable. Such an append may
    still be stored, and repeating it is safe.
    """

    def __init__(self, committer: GroupCommitter, pressure: ProcessorPressure | None = None) -> None:
        self._committer = committer
        self._pressure = pressure or ProcessorPressure()
        self._waiting: dict[asyncio.Future[int], Append] = {}
        self._written = 0
        """Size of the batch that is being written."""
        self._is_busy = False
        self._handed_over_at = 0.0
        self._gathering: asyncio.TimerHandle | None = None
        self._enough = 0
        """Number of waiting appends at which gathering ends."""

    @property
    def waiting(self) -> int:
        """Number of appends that wait for the next batch."""
        return len(self._waiting)

    def submit(self, append: Append) -> "asyncio.Future[int]":
        """Return a future of the append's position. For callers in the event loop. Raises LedgerBusy."""
        if len(self._waiting) >= MAX_WAITING:
            raise LedgerBusy(f"{MAX_WAITING} appends are waiting")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        self._waiting[future] = append
        loop.call_later(ANSWER_TIMEOUT_S, self._time_out, future)
        if self._gathering is not None and len(self._waiting) >= self._enough:
            self._gathering.cancel()
            self._gathering, self._is_busy = None, False
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._hand_over, loop)  # after other ready callbacks
        return future

    def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """Submit the waiting appends as a batch, when they are as many as in the last batch, or after a short wait.

        Clients that were just answered send again soon. Without the wait, the clients would split into two alternating
        groups, each with its own batch. A single client is never delayed. While CPU is short, two batches gain nothing,
        so that all clients share a batch.
        """
        patience, arrived = (PATIENCE, len(self._waiting)) if self._pressure.is_high() else (1, 0)
        self._enough, self._written = min(self._written + arrived, MAX_WAITING), 0
        gather_s = patience * min(GATHER_EACH_S * self._enough, MAX_GATHER_S)
        ends_at = self._handed_over_at + max(GATHER_S, gather_s)
        if self._enough > 1 and len(self._waiting) < self._enough and loop.time() < ends_at:
            self._gathering = loop.call_at(ends_at, self._hand_over, loop)
        else:
            self._hand_over(loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._gathering, self._handed_over_at = None, loop.time()
        batch, self._waiting = self._waiting, {}
        self._written, self._is_busy = len(batch), bool(batch)
        if batch:

            def done(results: list[AppendResult]) -> None:
                loop.call_soon_threadsafe(self._settle, loop, batch, results)

            try:
                self._committer.submit_all([*batch.values()], done)
            except LedgerBusy as busy:  # no append was submitted: fail all waiting appends, and accept the next
                self._settle(loop, batch, [busy] * len(batch))

    def _settle(
        self, loop: asyncio.AbstractEventLoop, futures: Iterable["asyncio.Future[int]"], results: Sequence[AppendResult]
    ) -> None:
        self._gather(loop)
        for future, result in zip(futures, results, strict=True):
            _settle_future(future, result)

    def _time_out(self, future: "asyncio.Future[int]") -> None:
        """Fail an append without a result after ANSWER_TIMEOUT_S."""
        if not future.done():
            self._waiting.pop(future, None)
            future.set_exception(StoreUnavailable("the database does not answer in time"))


def _settle_future(future: "Future[int] | asyncio.Future[int]", result: AppendResult) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
