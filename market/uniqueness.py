"""Checks that the items of an array differ."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from market.rule import inlined, reading


def all_different(items: Iterable[Any]) -> bool:
    listed = list(items)
    return len(set(listed)) == len(listed)


def unique_by(*fields: str) -> Callable[[Sequence[Any]], bool]:
    """Return a check that no two items of an array have the same values in all named fields."""
    key = attrgetter(*fields)

    @inlined("len({v}) < 2 or {holds}({v})")
    @reading(*(f"[].{field}" for field in fields))
    def holds(items: Sequence[Any]) -> bool:
        return all_different(map(key, items))

    return holds
