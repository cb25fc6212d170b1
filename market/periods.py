"""Checks of periods: order within a period, gaps and overlaps between periods."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from itertools import pairwise
from operator import attrgetter
from typing import Any

from market.rule import inlined, reading


def ordered(start: str, end: str) -> Callable[[Any], bool]:
    """Return a check that a struct's end is not before its start.

    Start and end may be equal or absent. Both must be days, or moments with their zones.
    """
    both = attrgetter(start, end)

    @inlined(f"not {{v}}.{end} or not {{v}}.{start} or {{v}}.{start} <= {{v}}.{end}")  # an absent value is false
    @reading(start, end)
    def holds(value: Any) -> bool:
        first, last = both(value)
        return not last or not first or bool(first <= last)

    return holds


def follow_each_other(periods: Sequence[Any], gaps_until: date) -> bool:
    """Return True if agreements neither overlap nor leave a gap.

    The end of an agreement is its last day, or the day after its last day.

    A gap that ends by `gaps_until` is allowed. Only the last agreement may have no end.
    """
    in_order = sorted(periods, key=attrgetter("effective_from"))
    return all(
        _is_adjacent(earlier.effective_to, later.effective_from, gaps_until) for earlier, later in pairwise(in_order)
    )


def _is_adjacent(end: date | None, start: date, gaps_until: date) -> bool:
    if not end:
        return False
    return end <= start and (start.toordinal() - end.toordinal() <= 1 or start <= gaps_until)


def is_past(moment: datetime, now: datetime) -> bool:
    return moment <= now
