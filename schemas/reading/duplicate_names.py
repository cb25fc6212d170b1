"""Repeated names in JSON objects.

Without this module, the first value would be lost without an error, because readers keep the last value.
"""

import math
import re
from typing import Any

import msgspec

from schemas.base import Problem
from schemas.reading import shape_errors
from schemas.reading.problems import UNKNOWN_FIELD, ProblemList, attr_of
from schemas.reading.shape_errors import MAX_DEPTH
from schemas.reading.work import MAX_SCAN_S, Work
from schemas.sentence import Sentence

REPEATED_FIELD = "repeated_field"
MAX_NAMES_IN_MEMORY = 250_000
"""Names that a scan holds in memory. Beyond this number, the scan finds no further repeated names."""

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"(\s*+:)?|[{}\[\],]', re.DOTALL)
_BRACKET = re.compile(rb"[{}\[\]]")
_PIECE_BYTES = 65_536
_TOKENS_PER_CHECK = 4_096
"""Tokens between two checks of the time limit."""

_encoder = msgspec.json.Encoder()


def repeats_names(body: bytes, value: Any) -> bool:
    """Return True if an object of a body repeats a name. `value` is the body as it was read.

    Reading keeps only one value of a repeated name, so the value, written again, has fewer colons than the body. Colons
    that were sent as Unicode escapes also count. This comparison is fast, and is done for every body.
    """
    colons = body.count(b":")
    if b"\\u003" in body:
        plain = body.replace(b"\\\\", b"")
        colons += plain.count(b"\\u003a") + plain.count(b"\\u003A")
    return colons > _encoder.encode(value).count(b":")


def repeated_names(body: bytes, depth: float = MAX_DEPTH) -> list[Problem]:
    """Return a problem for each repeated name, at its path. The body must be valid JSON.

    The time and the memory are limited, so names of a large body may be missing. Raises RecursionError if the body has
    more levels than `depth`, even in a value that reading loses.
    """
    return _Scan(body, depth=depth).problems()


def name_errors(body: bytes, documented: frozenset[str]) -> list[Problem]:
    """Return repeated names, and undocumented names of the root object, of a body that is too large to read."""
    return _Scan(body, documented).problems()


def has_larger_object(body: bytes, names: float) -> bool:
    """Return True if an object of a body has more names than this. The body is not decoded, and may be invalid.

    The body is read in pieces, so that other threads continue meanwhile.
    """
    if body.count(b":") <= names:
        return False
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    counts, is_in_text = [0], 0
    for at in range(0, len(plain), _PIECE_BYTES):
        parts = plain[at : at + _PIECE_BYTES].split(b'"')
        signs = b"".join(parts[is_in_text::2])
        is_in_text ^= (len(parts) - 1) & 1
        begin = 0
        for bracket in _BRACKET.finditer(signs):
            counts[-1] += signs.count(b":", begin, bracket.start())
            begin = bracket.end()
            if counts[-1] > names:
                return True
            if bracket.group() in b"{[":
                counts.append(0)
            elif len(counts) > 1:
                counts.pop()
        counts[-1] += signs.count(b":", begin)
    return counts[-1] > names


class _Container:
    """Object or array whose end has not been read: its names, and the name or number of its current item."""

    def __init__(self, *, is_object: bool) -> None:
        self.names: set[str] | None = set() if is_object else None
        self.repeated: set[str] = set()
        self.step = "" if is_object else "0"


class _Scan:
    """One pass over the tokens of a body, without building the values of the whole body."""

    def __init__(self, body: bytes, documented: frozenset[str] | None = None, depth: float = math.inf) -> None:
        self._body = body
        self._documented = documented
        self._depth = depth
        self._listed = ProblemList()
        self._open: list[_Container] = []
        self._names_in_memory = 0

    def problems(self) -> list[Problem]:
        work = Work(MAX_SCAN_S)
        for number, token in enumerate(_TOKEN.finditer(self._body)):
            if number % _TOKENS_PER_CHECK == 0 and work.is_over():
                break
            start = self._body[token.start()]
            if start == 0x22:  # "
                if token.group(1) and self._open:
                    self._name(token)
            elif start == 0x2C:  # ,
                self._comma()
            elif start in b"{[":
                self._open.append(_Container(is_object=start == 0x7B))
                if len(self._open) > self._depth:
                    raise RecursionError
            elif self._open:
                closed = self._open.pop()
                self._names_in_memory -= len(closed.names or ())
        return self._listed.problems()

    def _name(self, token: re.Match[bytes]) -> None:
        inside = self._open[-1]
        if inside.names is None:
            return
        text = token.group()[: token.start(1) - token.start()]
        name = inside.step = msgspec.json.decode(text, type=str) if b"\\" in text else text[1:-1].decode()
        if name in inside.names:
            if name not in inside.repeated:
                inside.repeated.add(name)
                self._note(REPEATED_FIELD, shape_errors.REPEATED)
        elif self._names_in_memory < MAX_NAMES_IN_MEMORY:
            inside.names.add(name)
            self._names_in_memory += 1
        if self._documented is not None and len(self._open) == 1 and name not in self._documented:
            self._note(UNKNOWN_FIELD, shape_errors.UNDOCUMENTED)

    def _comma(self) -> None:
        if self._open and self._open[-1].names is None:
            self._open[-1].step = str(int(self._open[-1].step) + 1)

    def _note(self, code: str, detail: Sentence) -> None:
        capacity = self._listed.capacity(code)
        if capacity.is_full:
            capacity.left_out += 1
        else:  # no path is made for a problem that is not listed, since this would take most of the time
            self._listed.note(attr_of([container.step for container in self._open]), code, detail)
