"""What differs between two JSON bodies, field by field."""

from collections.abc import Iterator
from typing import Any

from schemas.base import Wire
from schemas.shape import untyped


class FieldChange(Wire, frozen=True, kw_only=True):
    """One place: `kind` says whether it was added, removed or changed; `before` and `after` are what stands there."""

    path: str
    """Dotted path of what differs (Feldpfad)."""
    kind: str
    """How it differs: added, removed or changed (Art der Änderung)."""
    before: Any = None
    """The value before (Wert vorher)."""
    after: Any = None
    """The value after (Wert nachher)."""


def difference(before: bytes, after: bytes) -> list[FieldChange]:
    """Every place at which two bodies differ, in the order of the first; arrays by index. Raises NotJson."""
    return list(_changes(untyped(before), untyped(after), ()))


def _changes(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[FieldChange]:
    match before, after:
        case dict(), dict():
            for name in dict.fromkeys((*before, *after)):
                yield from _change_at(before, after, name, name in before, name in after, (*path, name))
        case list(), list():
            for index in range(max(len(before), len(after))):
                here = (*path, str(index))
                yield from _change_at(before, after, index, index < len(before), index < len(after), here)
        case _ if before != after or isinstance(before, bool) != isinstance(after, bool):
            yield FieldChange(path=".".join(path), kind="changed", before=before, after=after)


def _change_at(
    before: Any, after: Any, key: Any, was: bool, is_now: bool, path: tuple[str, ...]
) -> Iterator[FieldChange]:
    if was and is_now:
        yield from _changes(before[key], after[key], path)
    elif was:
        yield FieldChange(path=".".join(path), kind="removed", before=before[key])
    else:
        yield FieldChange(path=".".join(path), kind="added", after=after[key])
