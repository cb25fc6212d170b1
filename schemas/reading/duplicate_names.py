"""Repeated names in JSON objects. Readers keep the last value, so the first one would be lost unnoticed."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from schemas.base import Problem
from schemas.reading import misfits
from schemas.reading.problems import ProblemList, attr_of
from schemas.reading.work import MAX_SCAN_S, Work

REPEATED_FIELD = "repeated_field"

_encoder = msgspec.json.Encoder()


def repeats_names(body: bytes, value: Any) -> bool:
    """Return True if an object of a body repeats a name. `value` is the body as it was read.

    A repeated field loses its value in reading, and the colon before it. So it is enough to count colons, also those
    in texts that were sent as their codes. This is cheap, and is done for every body.
    """
    colons = body.count(b":")
    if b"\\u003" in body:
        plain = body.replace(b"\\\\", b"")
        colons += plain.count(b"\\u003a") + plain.count(b"\\u003A")
    return colons > _encoder.encode(value).count(b":")


class _Pairs(list[tuple[str, Any]]):
    """Members of an object, repeated ones included."""


def repeated_names(body: bytes, *, within_s: float = MAX_SCAN_S) -> list[Problem]:
    """Return a problem for each repeated name, at its path. The body must be valid JSON of bounded depth.

    Raises TooMuchWork after this CPU time [seconds].
    """
    found, work = ProblemList(), Work(within_s)

    def pairs(members: list[tuple[str, Any]]) -> _Pairs:
        work.go_on()
        return _Pairs(members)

    value = json.loads(body, object_pairs_hook=pairs, parse_float=str, parse_int=str)
    for path in _repeated(value, ()):
        work.go_on()
        found.note(attr_of(path), REPEATED_FIELD, misfits.REPEATED)
    return found.problems()


def _repeated(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, _Pairs):
        met: dict[str, int] = {}
        for name, inner in value:
            met[name] = met.get(name, 0) + 1
            if met[name] == 2:
                yield (*path, name)
            yield from _repeated(inner, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, (*path, str(index)))
