"""Processor time by kind of process: what an account costs each of them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

Usage = Mapping[str, float]
"""Seconds of processor since the processes began, by kind."""


def usage_of(families: Mapping[str, list[int]]) -> Usage:
    """CPU time of each kind of process with its children, including ended ones."""
    return {kind: sum(map(_seconds, pids)) for kind, pids in families.items()}


def most_memory_of(families: Mapping[str, list[int]]) -> dict[str, float]:
    """Megabytes of the largest process of each kind that is alive: the most it has had, shared pages as well."""
    return {kind: max((mb for pid in pids for mb in _memory_mb(pid)), default=0.0) for kind, pids in families.items()}


def per_account(before: Usage, after: Usage, accounts: int) -> dict[str, float]:
    """Microseconds an account, by kind."""
    return {kind: (after[kind] - before.get(kind, 0.0)) * 1e6 / max(1, accounts) for kind in after}


def _seconds(pid: int) -> float:
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        alive = sum(_seconds(child.pid) for child in process.children())
        return _exact(pid) + times.children_user + times.children_system + alive
    except psutil.NoSuchProcess:
        return 0.0


def _memory_mb(pid: int) -> Iterator[float]:
    """Of the process and its children."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(OSError):  # it has just ended
                status = Path(f"/proc/{one.pid}/status").read_text()
                yield int(status.split("VmHWM:", 1)[1].split()[0]) / 1e3 if "VmHWM:" in status else 0.0


def _exact(pid: int) -> float:
    """Of all its threads, to the nanosecond: the kernel's usual figures go by hundredths of a second."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0]) / 1e9
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has just ended
    return total


def processor_model() -> str:
    """Describe the machine of the measurement, as far as it is known."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{os.cpu_count()} × {line.split(':', 1)[1].strip()}"
    return f"{os.cpu_count()} cores"
