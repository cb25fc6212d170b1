"""Files in which the processes of a service count together, written so that a full disk stops no process.

The Prometheus client maps its files into memory. On a full disk, storing to a page of such a file ends the process
(SIGBUS). Here the numbers live in the process's own memory, and the file is a copy that is written with `pwrite`: what
cannot be written is written later.
"""

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from typing import Any

from prometheus_client import mmap_dict, values

RETRY_S = 1.0
"""Time between two attempts to write a file after a failure."""
_HEAD = 8
_VALUE = struct.Struct("dd")
_SIZE = struct.Struct("i")


class CountsFile:
    """The values of one process in the client's file format; stands in for its `MmapedDict`. One thread at a time."""

    def __init__(self, filename: str) -> None:
        """Continue with what the file holds. Counts begin again at zero where it is damaged or cannot be read."""
        self._filename = filename
        self._fd: int | None = None
        self._failed_at: float | None = None
        self._content, self._places = _read(filename)
        self._write(0, len(self._content))

    def read_value(self, key: str) -> tuple[float, float]:
        """The value of this key and its time, zero for a new one."""
        value, at = _VALUE.unpack_from(self._content, self._place(key))
        return value, at

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Set the value. Never raises for want of room."""
        place = self._place(key)
        _VALUE.pack_into(self._content, place, value, timestamp)
        self._write(place, place + _VALUE.size)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _place(self, key: str) -> int:
        if key not in self._places:
            begin, encoded = len(self._content), key.encode()
            padded = encoded + b" " * (8 - (len(encoded) + 4) % 8)
            self._content += _SIZE.pack(len(encoded)) + padded + bytes(_VALUE.size)
            self._places[key] = len(self._content) - _VALUE.size
            _SIZE.pack_into(self._content, 0, len(self._content))
            self._write(begin, len(self._content))
            self._write(0, _HEAD)  # last: a reader never sees a length without what it counts
        return self._places[key]

    def _write(self, begin: int, end: int) -> None:
        """Copy these bytes to the file; all of them after a failure."""
        if self._failed_at is not None:
            if time.monotonic() - self._failed_at < RETRY_S:
                return
            begin, end = _HEAD, len(self._content)
        try:
            if self._fd is None:
                self._fd = os.open(self._filename, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with memoryview(self._content) as content:
                _write_all(self._fd, content[begin:end], begin)
                if self._failed_at is not None:
                    _write_all(self._fd, content[:_HEAD], 0)
        except OSError:
            self._failed_at = time.monotonic()
        else:
            self._failed_at = None


def count_in_files() -> None:
    """Let the Prometheus client keep the values of several processes in such files."""
    values.MmapedDict = CountsFile  # type: ignore[assignment, attr-defined]


def _read(filename: str) -> tuple[bytearray, dict[str, int]]:
    """The content of a file and the place of each value in it."""
    with contextlib.suppress(OSError, ValueError, RuntimeError, struct.error), open(filename, "rb") as file:
        content = bytearray(file.read())
        used = _SIZE.unpack_from(content, 0)[0]
        del content[used:]
        if used >= _HEAD:
            entries: Iterator[Any] = mmap_dict._read_all_values(content, used)  # type: ignore[no-untyped-call]
            return content, {key: place for key, _, _, place in entries}
    return bytearray(_SIZE.pack(_HEAD) + bytes(_HEAD - _SIZE.size)), {}


def _write_all(fd: int, content: memoryview, place: int) -> None:
    while content:
        written = os.pwrite(fd, content, place)
        content, place = content[written:], place + written
