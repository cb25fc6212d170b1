"""One number for each of several processes, which all of them can read. It is in an open file that they inherit."""

import mmap
import os
import tempfile
import time
from typing import IO

FRESH_NS = 500_000_000
"""Age in nanoseconds above which a number is ignored: its process hangs or has ended."""
_BYTES = 16


def counts_file(places: int) -> IO[bytes]:
    """Return an open file for the numbers of `places` processes. It is deleted when the last of them ends."""
    in_memory = os.memfd_create("counts") if hasattr(os, "memfd_create") else None
    file = tempfile.TemporaryFile() if in_memory is None else os.fdopen(in_memory, "r+b")  # noqa: SIM115 - given away
    file.write(bytes(_BYTES * places))
    file.flush()
    return file


class SharedCounts:
    """The numbers of all processes, each with the time when it was written. `place` is this process, from 0."""

    def __init__(self, fd: int, place: int) -> None:
        self._numbers = memoryview(mmap.mmap(fd, 0)).cast("q")  # one clock for all processes of a machine
        self._place = place

    def tell(self, count: int) -> None:
        """Write the number of this process. Others ignore it after FRESH_NS."""
        self._numbers[2 * self._place] = count
        self._numbers[2 * self._place + 1] = time.monotonic_ns()

    def leave(self) -> None:
        """Let the other processes ignore this process's number from now on."""
        self._numbers[2 * self._place + 1] = 0

    def least_of_others(self) -> int | None:
        """Return the least number of any other process; None if no other has written one within FRESH_NS."""
        numbers, since = self._numbers, time.monotonic_ns() - FRESH_NS
        places = (place for place in range(len(numbers) // 2) if place != self._place)
        return min((numbers[2 * place] for place in places if numbers[2 * place + 1] > since), default=None)
