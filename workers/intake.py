"""Priority of intake: while many imports arrive and the relay's machine lacks CPU time, processing waits.

CPU niceness of the workers is not enough, since Postgres has the same priority for queries of workers and of the api.
"""

import math
import time
from collections import deque
from typing import Any

from psycopg import Connection

from eventstore.aggregates.import_process import IMPORT_PROCESS, ImportStaged
from eventstore.log import follow
from system.processors import HIGH_PRESSURE, ProcessorPressure

CHECK_EVERY_S = 0.15
WINDOW_S = 0.5
RESET_AFTER_S = 5.0
"""Time without a call, for example because another relay was active, after which the count starts again [seconds]."""
MIN_IMPORTS = 200
"""Number of imports within WINDOW_S from which on intake can have priority."""

_STAGED = [topic for topic, event in IMPORT_PROCESS.topics.items() if event is ImportStaged]


class Intake:
    """Counts the imports that arrive, and reads the CPU pressure, at most a few times a second.

    The time between two counts is measured with this machine's clock, since clocks of the api's machines may differ.
    """

    def __init__(self, pressure: ProcessorPressure | None = None) -> None:
        self._pressure = pressure or ProcessorPressure()
        self._heads: deque[tuple[float, int]] = deque()
        """(time, head of the log) of the last counts, from WINDOW_S ago on."""
        self._has_priority = False

    def has_priority(self, connection: Connection[Any]) -> bool:
        """Return True while intake has priority: many imports have arrived, and CPU time is short."""
        at = time.monotonic()
        if self._heads and at - self._heads[-1][0] > RESET_AFTER_S:
            self._heads.clear()
        if not self._heads or at - self._heads[-1][0] >= CHECK_EVERY_S:
            head = follow.log_head(connection)
            at = time.monotonic()  # read the clock again: the query may have taken long
            self._heads.append((at, head))
            while len(self._heads) > 1 and at - self._heads[1][0] >= WINDOW_S:
                self._heads.popleft()
            is_short = self._pressure.share() > HIGH_PRESSURE
            self._has_priority = is_short and self._many_arrive(connection)
        return self._has_priority

    def _many_arrive(self, connection: Connection[Any]) -> bool:
        (first_at, first), (last_at, last) = self._heads[0], self._heads[-1]
        least = math.ceil(MIN_IMPORTS * max(1.0, (last_at - first_at) / WINDOW_S))
        return follow.has_between(connection, first, last, _STAGED, least)
