"""CPU cores that this process may use, as Linux reports them."""

import math
import os
from pathlib import Path

GROUP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""The cgroup of this process, and the limits of all cgroups (version 2)."""


def usable_cores() -> int:
    """Return the number of cores that this process may use, limited by `taskset` and containers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, granted_cores())))


def granted_cores(group: Path = GROUP, groups: Path = GROUPS) -> float:
    """Return the CPU limit of this process's cgroups, in cores; infinity if there is none.

    `cpu.max` holds microseconds of CPU time, or `max`, and the period in microseconds.
    """
    return min((_granted(place / "cpu.max") for place in groups_of(group, groups)), default=math.inf)


def groups_of(group: Path = GROUP, groups: Path = GROUPS) -> list[Path]:
    """Return the folders of the process's cgroup and its parents; none if the system does not report them."""
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
