"""Effect of a fault on senders: the longest time without a 201, and how much of it Patroni (the manager) needed."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import msgspec

AFTER_THE_MANAGER_S = 5.0
"""Seconds that the service may need beyond the manager."""


class Measured(msgspec.Struct, frozen=True):
    """Result of a fault: the longest gap of each api, and the time until a new primary, None without one [seconds]."""

    fault: str
    gaps_s: dict[str, float]
    manager_s: float | None
    acknowledged: int
    alone_s: float | None = None
    """Longest allowed gap [seconds]; None for the time until a new primary plus AFTER_THE_MANAGER_S."""

    @property
    def allowed_s(self) -> float:
        return self.alone_s if self.alone_s is not None else (self.manager_s or 0.0) + AFTER_THE_MANAGER_S

    @property
    def gap_s(self) -> float:
        return max(self.gaps_s.values())

    @property
    def is_missed(self) -> bool:
        return self.gap_s > self.allowed_s

    @property
    def line(self) -> str:
        gaps = ", ".join(f"{name} {gap:.1f} s" for name, gap in self.gaps_s.items())
        manager = f"{self.manager_s:.1f} s" if self.manager_s is not None else "-"
        verdict = "MISSED" if self.is_missed else "ok"
        return (
            f"{self.fault:<22} gap {self.gap_s:5.1f} s ({gaps})  manager {manager:>6}  allowed {self.allowed_s:5.1f} s"
            f"  {self.acknowledged:5} acknowledged  {verdict}"
        )


def longest_gap(times: Sequence[float], begins: float, ends: float) -> float:
    """Return the longest time without an entry between two moments. `times` ascend."""
    inside = times[bisect_left(times, begins) : bisect_left(times, ends)]
    marks = [begins, *inside, ends]
    return max(later - earlier for earlier, later in pairwise(marks))


def number_within(times: Sequence[float], begins: float, ends: float) -> int:
    """Count entries between two moments. `times` ascend."""
    return bisect_left(times, ends) - bisect_left(times, begins)
