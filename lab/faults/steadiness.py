"""Check that a long run is steady: the memory of its processes, and acknowledged accounts a second."""

import contextlib
import statistics
import time
from collections.abc import Sequence

import msgspec
import psutil

MIN_DURATION_S = 20 * 60.0
"""Shorter runs are shown but not judged: each third must contain every fault."""
MOST_MEMORY, LEAST_RATE = 1.2, 0.75
"""Largest memory and least rate of the last third of a run, as multiples of those of the first third."""
MEGABYTE = 1e6


class Sample(msgspec.Struct, frozen=True):
    """A sample: seconds since the start, memory of all processes except Postgres, and accounts acknowledged so far."""

    at_s: float
    memory_bytes: int
    acknowledged: int


class Watch:
    """Takes samples, and summarises them by minute."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.samples: list[Sample] = []

    def sample(self, supervisor_pid: int, acknowledged: int) -> None:
        self.samples.append(Sample(time.monotonic() - self._began, memory_of(supervisor_pid), acknowledged))

    def lines(self) -> list[str]:
        """Return a line for each minute: the median memory of the processes, and the rate since the minute before."""
        lines = [f"{'minute':>6} {'memory MB':>10} {'acknowledged/s':>15}"]
        minutes = sorted({int(sample.at_s // 60) for sample in self.samples})
        for minute in minutes:
            part = [sample for sample in self.samples if sample.at_s // 60 == minute]
            before = [sample for sample in self.samples if sample.at_s < 60 * minute][-1:]
            memory = statistics.median(sample.memory_bytes for sample in part) / MEGABYTE
            lines.append(f"{minute:>6} {memory:>10.0f} {_rate([*before, *part]):>15.1f}")
        return lines


def memory_of(supervisor_pid: int) -> int:
    """Return the memory of a process tree, with its share of shared pages, without Postgres."""
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        supervisor = psutil.Process(supervisor_pid)
        for process in (supervisor, *supervisor.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.name() != "postgres":
                    total += int(process.memory_full_info().pss)
    return total


def steadiness_findings(samples: Sequence[Sample]) -> list[str]:
    """List changes from the first third of a long run to its last; none for a short run. Pure."""
    if not samples or samples[-1].at_s < MIN_DURATION_S:
        return []
    third = samples[-1].at_s / 3
    first = [sample for sample in samples if sample.at_s <= third]
    last = [sample for sample in samples if sample.at_s > 2 * third]
    if len(first) < 2 or len(last) < 2:
        return ["there are not enough looks to judge steadiness"]
    before, after = (statistics.median(sample.memory_bytes for sample in part) / MEGABYTE for part in (first, last))
    findings = []
    if after > before * MOST_MEMORY:
        findings.append(f"memory grew from {before:.0f} to {after:.0f} MB")
    if _rate(last) < _rate(first) * LEAST_RATE:
        findings.append(f"the rate fell from {_rate(first):.1f} to {_rate(last):.1f} acknowledged a second")
    return findings


def _rate(part: Sequence[Sample]) -> float:
    seconds = part[-1].at_s - part[0].at_s
    return (part[-1].acknowledged - part[0].acknowledged) / seconds if seconds else 0.0
