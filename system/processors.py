"""CPU cores that this process may use, and CPU pressure, as Linux reports them."""

import math
import os
import time
from pathlib import Path

GROUP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""The cgroup of this process, and the limits of all cgroups (version 2)."""
PRESSURE = Path("/proc/pressure/cpu")
HIGH_PRESSURE = 0.5
"""CPU pressure above which it is high: the share of the time in which a process waits for a CPU."""
READ_INTERVAL_S = 0.25


def usable_cores() -> int:
    """Return the number of cores that this process may use, limited by `taskset` and containers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, granted_cores())))


def granted_cores(group: Path = GROUP, groups: Path = GROUPS) -> float:
    """Return the CPU limit of this process's cgroups, in cores; infinity if there is none.

    `cpu.max` holds microseconds of CPU time, or `max`, and the period in microseconds.
    """
    return min((_granted(folder / "cpu.max") for folder in groups_of(group, groups)), default=math.inf)


def groups_of(group: Path = GROUP, groups: Path = GROUPS) -> list[Path]:
    """Return the folders of the process's cgroup and its parents; no folders if the system does not report them."""
    try:
        [path] = [line[3:] for line in group.read_text().splitlines() if line.startswith("0::/")]
    except (OSError, ValueError):
        return []
    cgroup = groups / path.strip("/")
    return [folder for folder in (cgroup, *cgroup.parents) if folder.is_relative_to(groups)]


def _granted(file: Path) -> float:
    try:
        quota, period = file.read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


class ProcessorPressure:
    """Share of the time in which a process of this machine waited for a CPU."""

    def __init__(self, file: Path = PRESSURE) -> None:
        self._file = file
        self._at, self._waited_s = time.monotonic(), self._total_s()
        self._is_high = False

    def is_high(self) -> bool:
        """Return True if the share was above HIGH_PRESSURE when it was last read, READ_INTERVAL_S ago at most."""
        if time.monotonic() - self._at >= READ_INTERVAL_S:
            self._is_high = self.share() > HIGH_PRESSURE
        return self._is_high

    def share(self) -> float:
        """Return the share since the last call, from 0 to about 1; 0 if the system does not report it."""
        before_at, before_s = self._at, self._waited_s
        self._at, self._waited_s = time.monotonic(), self._total_s()
        passed_s = self._at - before_at
        return (self._waited_s - before_s) / passed_s if passed_s > 0 else 0.0

    def _total_s(self) -> float:
        """Return the seconds of waiting since the machine's start. The line ends with `total=` and microseconds."""
        try:
            line = self._file.read_text().splitlines()[0]
            return int(line.rpartition("total=")[2]) / 1e6
        except (OSError, ValueError, IndexError):
            return 0.0
