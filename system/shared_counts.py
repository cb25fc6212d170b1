"""A number for each of several processes, in an open file that all processes inherit and read."""

import mmap
import os
import tempfile
import time
from typing import IO

FRESH_NS = 500_000_000
"""Age above which a number is ignored, because its process hangs or has ended [nanoseconds]."""
_BYTES = 16


def counts_file(processes: int) -> IO[bytes]:
    """Return an open file for the numbers of `processes` processes. The file is deleted when the last process ends."""
    in_memory = os.memfd_create("counts") if hasattr(os, "memfd_create") else None
    file = tempfile.TemporaryFile() if in_memory is None else os.fdopen(in_memory, "r+b")  # noqa: SIM115 - given away
    file.write(bytes(_BYTES * processes))
    file.flush()
    return file


class SharedCounts:
    """Numbers of all processes, each with the time of its last write. `index` is the index of this process, from 0."""

    def __init__(self, fd: int, index: int) -> None:
        self._numbers = memoryview(mmap.mmap(fd, 0)).cast("q")  # one clock for all processes of a machine
        self._index = index

    def write(self, count: int) -> None:
        """Write the number of this process. Other processes ignore the number after FRESH_NS."""
        self._numbers[2 * self._index] = count
        self._numbers[2 * self._index + 1] = time.monotonic_ns()

    def clear(self) -> None:
        """Mark this process's number as outdated: the other processes ignore it from now on."""
        self._numbers[2 * self._index + 1] = 0

    def min_of_others(self) -> int | None:
        """Return the smallest number of the other processes; None if no other process has written a number within
        FRESH_NS.
        """
        numbers, since = self._numbers, time.monotonic_ns() - FRESH_NS
        processes = (index for index in range(len(numbers) // 2) if index != self._index)
        return min((numbers[2 * index] for index in processes if numbers[2 * index + 1] > since), default=None)
