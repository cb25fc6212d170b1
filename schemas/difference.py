"""Difference of two JSON bodies, field by field."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from schemas.base import Wire
from schemas.reading.problems import attr_of
from schemas.reading.shape import untyped
from schemas.reading.work import STORED_BOUNDS, Bounds, Work

_CHANGES_PER_CHECK = 256
"""Changes between two checks of the time limit."""
_LAST_ENTRY_BYTES = 200
"""Bytes of an answer that are reserved for the entry `left_out` at its end."""
_MIN_FREE_BYTES = 1_000
"""Free bytes that an answer must have to list another change."""

_encoder = msgspec.json.Encoder(decimal_format="number")


class FieldChange(Wire, frozen=True, kw_only=True):
    """Change at one path: `kind` is added, removed or changed; `before` and `after` are its values.

    A list that leaves changes out ends with an entry of the kind `left_out`. The `left_out` of this entry is the number
    of left out changes, or null if counting takes too long.
    """

    path: str
    """Dotted path of the difference (Feld)."""
    kind: Literal["added", "removed", "changed", "left_out"]
    """Kind of the difference: added, removed or changed (Art der Änderung); left_out ends a long list."""
    before: Any = None
    """The value before (Wert vorher)."""
    after: Any = None
    """The value after (Wert nachher)."""
    left_out: int | UnsetType | None = UNSET
    """In the last entry of kind left_out:

    number of further places that differ (Anzahl der ausgelassenen Änderungen).
    """


def difference(before: bytes, after: bytes, bounds: Bounds = STORED_BOUNDS) -> Iterator[FieldChange]:
    """Yield a change for each path at which two bodies differ, in the order of the first. Arrays are compared by index.

    Raises NotJson, TooMuchWork.
    """
    yield from _changes(untyped(before, bounds), untyped(after, bounds), ())


def bounded_difference(before: bytes, after: bytes, bounds: Bounds, max_bytes: int) -> bytes:
    """Return the difference as a JSON array of at most `max_bytes`. Raises NotJson, TooMuchWork."""
    entries: list[bytes] = []
    left_out, is_over = 0, False
    free = max_bytes - _LAST_ENTRY_BYTES
    work = Work(bounds.walk_s)
    for number, change in enumerate(difference(before, after, bounds)):
        if number % _CHANGES_PER_CHECK == 0 and work.is_over():
            is_over = True
            break
        entry = _encoder.encode(change) if free > _MIN_FREE_BYTES else b""
        if entry and len(entry) < free:
            entries.append(entry)
            free -= len(entry) + 1
        else:
            left_out += 1
    if left_out or is_over:
        end = FieldChange(path="", kind="left_out", left_out=None if is_over else left_out)
        entries.append(_encoder.encode(end))
    return b"[" + b",".join(entries) + b"]"


def _changes(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[FieldChange]:
    match before, after:
        case dict(), dict():
            for name in dict.fromkeys((*before, *after)):
                yield from _change_at(before, after, name, name in before, name in after, (*path, name))
        case list(), list():
            for index in range(max(len(before), len(after))):
                item_path = (*path, str(index))
                yield from _change_at(before, after, index, index < len(before), index < len(after), item_path)
        case _ if before != after or isinstance(before, bool) != isinstance(after, bool):
            yield FieldChange(path=_attr(path), kind="changed", before=before, after=after)


def _change_at(
    before: Any, after: Any, key: Any, was: bool, is_now: bool, path: tuple[str, ...]
) -> Iterator[FieldChange]:
    if was and is_now:
        yield from _changes(before[key], after[key], path)
    elif was:
        yield FieldChange(path=_attr(path), kind="removed", before=before[key])
    else:
        yield FieldChange(path=_attr(path), kind="added", after=after[key])


def _attr(path: tuple[str, ...]) -> str:
    """Return the dotted path of steps, with long names cut; "" for the whole body."""
    return attr_of(path) if path else ""
