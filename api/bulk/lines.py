"""Split a body that arrives in pieces into lines, numbered from 1.

Blank lines, and the text of too long lines, are dropped.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator

import msgspec

from api.http.body_checks import run_on_body
from api.http.limits import MAX_LINE_BYTES
from api.intake.typed_names import typed_number

_BLANKS = b" \t\r"
_NOT_BLANK = re.compile(rb"[^ \t\r\n][^\n]*")
_SLICE_BYTES = 64 * 1024
"""Bytes that are split in one step, since a large piece may have many lines of a few bytes."""


class Line(msgspec.Struct, frozen=True):
    """A line that is not blank, without outer blanks. `body` is None for a line that is too long."""

    number: int
    body: bytes | None


async def typed_number_of(line: Line) -> str:
    """Return the external account number in a line that could not be read."""
    body = line.body or b""
    return await run_on_body(body, typed_number, body)


class LineSplitter:
    """Splits pieces into lines. Keeps at most one unfinished line in memory, and no line that is too long."""

    def __init__(self) -> None:
        self.count = 0
        """Number of lines so far, including blank lines."""
        self._pieces: list[bytes] = []
        self._held = 0

    def feed(self, piece: bytes) -> Iterator[Line]:
        """Yield the lines that end in this piece."""
        for at in range(0, len(piece), _SLICE_BYTES):
            first, end, remaining = piece[at : at + _SLICE_BYTES].partition(b"\n")
            self._hold(first)
            if not end:
                continue
            yield from self._end()
            whole, end, last = remaining.rpartition(b"\n")
            if end:
                yield from self._whole(whole + end)
            self._hold(last)

    def _whole(self, lines: bytes) -> Iterator[Line]:
        """Yield the lines that are not blank. Runs of blank lines are counted at once: there may be millions."""
        at = 0
        for line in _NOT_BLANK.finditer(lines):
            self.count += lines.count(b"\n", at, line.start()) + 1
            at = line.end() + 1
            yield Line(self.count, line[0].rstrip(_BLANKS))
        self.count += lines.count(b"\n", at)

    def close(self) -> Iterator[Line]:
        """Yield the last line, if the body does not end with a line feed."""
        if self._held:
            yield from self._end()

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > MAX_LINE_BYTES:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def _end(self) -> Iterator[Line]:
        is_too_long = self._held > MAX_LINE_BYTES
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        self.count += 1
        if self.count == 1:
            body = body.removeprefix(BOM_UTF8)
        body = body.strip(_BLANKS)
        if is_too_long:
            yield Line(self.count, None)
        elif body:
            yield Line(self.count, body)
