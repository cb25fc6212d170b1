"""Are there processors for all that wants to run? As Linux says it, in `/proc/pressure/cpu`."""

import time
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")


class ProcessorPressure:
    """The share of time in which something that could run waited for a processor, of the whole machine."""

    def __init__(self, file: Path = PRESSURE) -> None:
        self._file = file
        self._at, self._waited_s = time.monotonic(), self._total_s()

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
