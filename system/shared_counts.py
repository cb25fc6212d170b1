"""A number of each of several processes, for all of them to read: in an open file that they inherit."""

import mmap
import os
import tempfile
import time
from typing import IO

FRESH_NS = 500_000_000
"""What was told longer ago is of a process that hangs or has ended."""
_BYTES = 16


def counts_file(places: int) -> IO[bytes]:
    """An open file for the numbers of so many processes; it is gone when the last of them has ended."""
    in_memory = os.memfd_create("counts") if hasattr(os, "memfd_create") else None
    file = tempfile.TemporaryFile() if in_memory is None else os.fdopen(in_memory, "r+b")  # noqa: SIM115 - given away
    file.write(bytes(_BYTES * places))
    file.flush()
    return file


class SharedCounts:
    """The numbers as the process at `place`, from 0, sees them: each with the moment at which it was told."""

    def __init__(self, fd: int, place: int) -> None:
        self._told = memoryview(mmap.mmap(fd, 0)).cast("q")  # one clock for all processes of a machine
        self._place = place

    def tell(self, count: int) -> None:
        """This process's own number. Who does not tell it again soon is left out."""
        self._told[2 * self._place] = count
        self._told[2 * self._place + 1] = time.monotonic_ns()

    def leave(self) -> None:
        """Tell nothing any more."""
        self._told[2 * self._place + 1] = 0

    def least_of_others(self) -> int | None:
        """The least number that another process tells; None where no other tells any."""
        told, since = self._told, time.monotonic_ns() - FRESH_NS
        places = (place for place in range(len(told) // 2) if place != self._place)
        return min((told[2 * place] for place in places if told[2 * place + 1] > since), default=None)
