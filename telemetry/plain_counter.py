"""Requests of one kind in plain numbers, which go into the metrics some at a time.

A metric of the client is half a dozen calls and a lock each time: among everything else that a request does, that is a
hundredth of its processor time.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from prometheus_client import Counter, Histogram


class PlainCounter:
    """Counts for one thread. Any other may `settle`, one at a time; what is added meanwhile is told the next time."""

    __slots__ = ("_bounds", "_buckets", "_count", "_counter", "_histogram", "_seconds", "_told")

    def __init__(self, counter: Counter, histogram: Histogram | None = None, bounds: Sequence[float] = ()) -> None:
        """Children of metrics; `bounds` are the histogram's."""
        self._counter = counter
        self._histogram: Any = histogram  # the client has no call for several observations at a time
        self._bounds = bounds
        self._count = 0
        self._seconds = 0.0
        self._buckets = [0] * (len(bounds) + 1)
        self._told = (0, 0.0, list(self._buckets))

    def add(self, seconds: float = 0.0) -> None:
        """One more, which took so long."""
        self._count += 1
        if self._bounds:
            self._seconds += seconds
            self._buckets[bisect_left(self._bounds, seconds)] += 1

    def settle(self) -> None:
        """Move what was added since into the metrics."""
        told_count, told_seconds, told_buckets = self._told
        if self._count == told_count:
            return
        count, seconds, buckets = self._told = self._count, self._seconds, list(self._buckets)
        self._counter.inc(count - told_count)
        if self._histogram is None:
            return
        self._histogram._sum.inc(seconds - told_seconds)
        for value, now, before in zip(self._histogram._buckets, buckets, told_buckets, strict=True):
            if now > before:
                value.inc(now - before)
