"""Count the lines of a book in other processes."""

import collections
import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor

from importledger_client.manifest import Counting, NoAccount
from importledger_client.processes import helpers

_BATCH_LINES, _BATCH_BYTES = 500, 2**20
"""Lines and bytes that are counted together."""

Place = tuple[str, int]
"""Name of a source and number of a line."""
Counted = tuple[Counting, list[tuple[Place, str]]]
"""Counts of lines, and the place of each line that is not an account, with the reason."""


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count(lines: Sequence[tuple[Place, bytes]]) -> Counted:
    """Count lines, given by place and content."""
    counting, bad = Counting(), []
    for place, content in lines:
        try:
            counting.add(content)
        except NoAccount as error:
            bad.append((place, str(error)))
    return counting, bad


class Counter:
    """Counts lines in order. A small book is counted in this process."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._lines: list[tuple[Place, bytes]] = []
        self._size = 0
        self._sent = collections.deque[Future[Counted]]()
        self._whole: Counted = (Counting(), [])

    def add(self, place: Place, content: bytes) -> None:
        """Add a line."""
        if self._lines and (len(self._lines) >= _BATCH_LINES or self._size + len(content) > _BATCH_BYTES):
            self._send()
        self._lines.append((place, content))
        self._size += len(content)

    def finish(self) -> Counted:
        """Return the counts of all lines."""
        while self._sent:
            self._take(self._sent.popleft().result())
        self._take(count(self._lines))
        self.close()
        return self._whole

    def close(self) -> None:
        """End the processes, without waiting for counts that nobody needs."""
        if self._pool is not None:
            self._pool.shutdown(wait=not self._sent, cancel_futures=True)

    def _send(self) -> None:
        if self._pool is None:
            self._pool = helpers(self._processes)
        if len(self._sent) > self._processes + 1:
            self._take(self._sent.popleft().result())
        self._sent.append(self._pool.submit(count, self._lines))
        self._lines, self._size = [], 0

    def _take(self, counted: Counted) -> None:
        counting, bad = self._whole
        counting.merge(counted[0])
        bad += counted[1]
