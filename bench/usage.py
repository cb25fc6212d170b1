"""Processor time by kind of process: what an account costs each of them."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

Usage = Mapping[str, float]
"""Seconds of processor since the processes began, by kind."""


def usage_of(families: Mapping[str, list[int]]) -> Usage:
    """Return the CPU time of each kind of process with its children, including ended ones."""
    return {kind: sum(map(_seconds, pids)) for kind, pids in families.items()}


def most_memory_of(families: Mapping[str, list[int]]) -> dict[str, float]:
    """Return the peak memory of the largest live process of each kind, with shared pages [megabytes]."""
    return {kind: max((mb for pid in pids for mb in _memory_mb(pid)), default=0.0) for kind, pids in families.items()}


def per_account(before: Usage, after: Usage, accounts: int) -> dict[str, float]:
    """Return the CPU microseconds of an account, by kind of process."""
    return {kind: (after[kind] - before.get(kind, 0.0)) * 1e6 / max(1, accounts) for kind in after}


def run_measured(command: Sequence[str], folder: Path, **options: Any) -> tuple[int, float, float]:
    """Run a program in a folder, and return its exit code, its seconds, and its largest memory [KiB]."""
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, time.monotonic() - began, usage.ru_maxrss


def _seconds(pid: int) -> float:
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        alive = sum(_seconds(child.pid) for child in process.children())
        return _exact(pid) + times.children_user + times.children_system + alive
    except psutil.NoSuchProcess:
        return 0.0


def _memory_mb(pid: int) -> Iterator[float]:
    """Yield the peak memory of the process and of each of its children [megabytes]."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for process_or_child in (process, *process.children(recursive=True)):
            with suppress(OSError):  # it has just ended
                status = Path(f"/proc/{process_or_child.pid}/status").read_text()
                yield int(status.split("VmHWM:", 1)[1].split()[0]) / 1e3 if "VmHWM:" in status else 0.0


def _exact(pid: int) -> float:
    """Return the CPU seconds of all threads of a process, to the nanosecond: usual figures have only hundredths."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
            total += int((task / "schedstat").read_text().split()[0]) / 1e9
    return total


def processor_model() -> str:
    """Return the number of cores and the model of this machine's processor, if it is known."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{os.cpu_count()} × {line.split(':', 1)[1].strip()}"
    return f"{os.cpu_count()} cores"
