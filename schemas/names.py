"""Names that one JSON object gives twice: readers keep the last value, so that the first would be lost unseen."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from schemas.base import Problem

REPEATED_FIELD = "repeated_field"

_encoder = msgspec.json.Encoder()


def may_repeat_names(body: bytes, value: Any) -> bool:
    """False when no object of a body repeats a name: nothing of it was lost in `value`, which it was read as.

    Cheap, because it is asked of every body: what is lost takes its colon along. A colon that is spelt as an escape
    only hides a repeated name, and costs nothing else.
    """
    return body.count(b":") > _encoder.encode(value).count(b":")


def repeated_names(body: bytes) -> list[Problem]:
    """Each name that an object repeats, at its path. The body is well-formed and of bounded depth."""
    value = json.loads(body, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    return [
        Problem(".".join(path), REPEATED_FIELD, "This field is given twice in one object.")
        for path in _repeated(value, ())
    ]


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs."""


def _repeated(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    match value:
        case _Pairs():
            yield from ((*path, name) for name, times in Counter(name for name, _ in value).items() if times > 1)
            for name, child in value:
                yield from _repeated(child, (*path, name))
        case list():
            for index, child in enumerate(value):
                yield from _repeated(child, (*path, str(index)))
        case _:
            pass
