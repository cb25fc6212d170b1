"""Files in which the processes of a service count together, written so that a full disk stops no process.

The Prometheus client maps its files into memory. On a full disk, storing to a page of such a file ends the process
(SIGBUS). This module keeps the counts in the memory of the process, and `write_counts` copies them to the files. If a
copy fails, the next copy includes its counts.
"""

import contextlib
import os
import struct
import threading
from collections.abc import Iterator
from typing import Any

from prometheus_client import mmap_dict, values

_HEAD = 8
_VALUE = struct.Struct("dd")
_SIZE = struct.Struct("i")
_files: list["CountsFile"] = []
_writing = threading.Lock()


class CountsFile:
    """The values of a process in the Prometheus client's file format; replaces the client's `MmapedDict`.

    Not thread-safe.
    """

    def __init__(self, filename: str) -> None:
        """Continue with the content of the file. Counts begin at zero if the file is damaged or cannot be read."""
        self._filename = filename
        self._fd: int | None = None
        self._content, self._offsets = _read(filename)
        self._is_written = False
        _files.append(self)

    def read_value(self, key: str) -> tuple[float, float]:
        """Return the value of a key and its time; zeros for a new key."""
        value, at = _VALUE.unpack_from(self._content, self._offset(key))
        return value, at

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Set the value of a key, which the next `write` copies to the file."""
        _VALUE.pack_into(self._content, self._offset(key), value, timestamp)
        self._is_written = False

    def write(self) -> None:
        """Write the values to the file. The next call repeats a failed write. Others may count meanwhile."""
        if self._is_written:
            return
        self._is_written = True  # reset before the copy, so that the next write includes later counts
        content = memoryview(bytes(self._content))
        try:
            if self._fd is None:
                self._fd = os.open(self._filename, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _write_all(self._fd, content[_HEAD:], _HEAD)
            # write the length last, so that a reader never reads a length without its values
            _write_all(self._fd, content[:_HEAD], 0)
        except OSError:
            self._is_written = False

    def _offset(self, key: str) -> int:
        if key not in self._offsets:
            encoded = key.encode()
            padded = encoded + b" " * (8 - (len(encoded) + 4) % 8)
            self._content += _SIZE.pack(len(encoded)) + padded + bytes(_VALUE.size)
            self._offsets[key] = len(self._content) - _VALUE.size
            _SIZE.pack_into(self._content, 0, len(self._content))
        return self._offsets[key]


def count_in_files() -> None:
    """Make the Prometheus client use `CountsFile` for the values of several processes."""
    values.MmapedDict = CountsFile  # type: ignore[assignment, attr-defined]


def write_counts() -> None:
    """Write all files of this process."""
    with _writing:
        for file in tuple(_files):
            file.write()


def _read(filename: str) -> tuple[bytearray, dict[str, int]]:
    """Return the content of a file and the offset of each value in it; empty content for an unreadable file."""
    with contextlib.suppress(OSError, ValueError, RuntimeError, struct.error), open(filename, "rb") as file:
        content = bytearray(file.read())
        used = _SIZE.unpack_from(content, 0)[0]
        del content[used:]
        if used >= _HEAD:
            entries: Iterator[Any] = mmap_dict._read_all_values(content, used)  # type: ignore[no-untyped-call]
            return content, {key: offset for key, _, _, offset in entries}
    return bytearray(_SIZE.pack(_HEAD) + bytes(_HEAD - _SIZE.size)), {}


def _write_all(fd: int, content: memoryview, offset: int) -> None:
    while content:
        written = os.pwrite(fd, content, offset)
        content, offset = content[written:], offset + written
