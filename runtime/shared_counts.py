"""A number of each of several processes, for all of them to read: in an open file that they inherit."""

import mmap
import os
import tempfile
from typing import IO

ABSENT = -1
"""Stands at the place of a process that has not said anything yet, or has nothing more to say."""
_BYTES = 8


def counts_file(places: int) -> IO[bytes]:
    """An open file for the numbers of so many processes; it is gone when the last of them has ended."""
    in_memory = os.memfd_create("counts") if hasattr(os, "memfd_create") else None
    file = tempfile.TemporaryFile() if in_memory is None else os.fdopen(in_memory, "r+b")  # noqa: SIM115 - given away
    file.write(ABSENT.to_bytes(_BYTES, "little", signed=True) * places)
    file.flush()
    return file


class SharedCounts:
    """The numbers as the process at `place`, from 0, sees them. Writing one is a store of the processor."""

    def __init__(self, fd: int, place: int) -> None:
        self._counts = memoryview(mmap.mmap(fd, 0)).cast("q")
        self._place = place

    def tell(self, count: int) -> None:
        """This process's own number."""
        self._counts[self._place] = count

    def least_of_others(self) -> int | None:
        """The least number that another process tells; None where no other tells any."""
        others = (count for place, count in enumerate(self._counts) if place != self._place and count != ABSENT)
        return min(others, default=None)
