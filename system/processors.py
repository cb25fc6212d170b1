"""How many processors there are for this process, and whether all that wants to run has one. As Linux says it."""

import math
import os
import time
from pathlib import Path

GROUP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""Of which group of processes this one is, and what each group may use (the second version of groups)."""
PRESSURE = Path("/proc/pressure/cpu")
HIGH = 0.5
"""Something waits for a processor for this share of the time, and more, where there are too few."""
LOOK_EVERY_S = 0.25


def usable_cores() -> int:
    """The cores that this process may use: `taskset` and containers restrict which, or how much of their time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, granted_cores())))


def granted_cores(group: Path = GROUP, groups: Path = GROUPS) -> float:
    """So many cores' time is granted to the process's group and to those that it is in; infinite where none says it.

    `cpu.max` holds microseconds of processor, or `max`, and the period in which they may be used.
    """
    return min((_granted(place / "cpu.max") for place in groups_of(group, groups)), default=math.inf)


def groups_of(group: Path = GROUP, groups: Path = GROUPS) -> list[Path]:
    """The folders of the process's group and of those that it is in; none where the system does not say it."""
    try:
        [path] = [line[3:] for line in group.read_text().splitlines() if line.startswith("0::/")]
    except (OSError, ValueError):
        return []
    own = groups / path.strip("/")
    return [place for place in (own, *own.parents) if place.is_relative_to(groups)]


def _granted(file: Path) -> float:
    try:
        quota, period = file.read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


class ProcessorPressure:
    """The share of time in which something that could run waited for a processor, of the whole machine."""

    def __init__(self, file: Path = PRESSURE) -> None:
        self._file = file
        self._at, self._waited_s = time.monotonic(), self._total_s()
        self._is_high = False

    def is_high(self) -> bool:
        """Whether there are too few processors, as it was within the last look: there are a few a second at most."""
        if time.monotonic() - self._at >= LOOK_EVERY_S:
            self._is_high = self.share() > HIGH
        return self._is_high

    def share(self) -> float:
        """Since it was last asked, from 0 to about 1; 0 where the system does not say it."""
        before_at, before_s = self._at, self._waited_s
        self._at, self._waited_s = time.monotonic(), self._total_s()
        passed_s = self._at - before_at
        return (self._waited_s - before_s) / passed_s if passed_s > 0 else 0.0

    def _total_s(self) -> float:
        """Seconds since the machine's start. The line begins with `some`, and ends with `total=` and microseconds."""
        try:
            line = self._file.read_text().splitlines()[0]
            return int(line.rpartition("total=")[2]) / 1e6
        except (OSError, ValueError, IndexError):
            return 0.0
