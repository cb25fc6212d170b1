"""Does intake need the processors for itself? What has arrived is created afterwards then.

It does while much arrives and the relay's machine is short of processors. Niceness alone does not see to it: what
workers ask of Postgres, Postgres does with the same right as what the api asks.
"""

import math
import time
from collections import deque
from typing import Any

from psycopg import Connection

from eventstore.aggregates.import_process import IMPORT_PROCESS, ImportStaged
from eventstore.log import follow
from system.processors import HIGH, ProcessorPressure

LOOK_EVERY_S = 0.15
LATELY_S = 0.5
FORGOTTEN_S = 5.0
"""After so long without a look, as when another relay was active, it begins anew."""
MUCH = 200
"""As many imports within that time are much."""

_STAGED = [topic for topic, event in IMPORT_PROCESS.topics.items() if event is ImportStaged]


class Intake:
    """Looks at the log and at the machine, a few times a second at most.

    What arrives is counted between two looks, by this machine's own clock: those that wrote it may have others.
    """

    def __init__(self, pressure: ProcessorPressure | None = None) -> None:
        self._pressure = pressure or ProcessorPressure()
        self._heads: deque[tuple[float, int]] = deque()
        """The log's head at each look, back to the first that is not late."""
        self._goes_first = False

    def goes_first(self, connection: Connection[Any]) -> bool:
        """Whether nothing should be begun now that can be done later."""
        at = time.monotonic()
        if self._heads and at - self._heads[-1][0] > FORGOTTEN_S:
            self._heads.clear()
        if not self._heads or at - self._heads[-1][0] >= LOOK_EVERY_S:
            head = follow.log_head(connection)
            at = time.monotonic()  # the log may have taken its time to say so
            self._heads.append((at, head))
            while len(self._heads) > 1 and at - self._heads[1][0] >= LATELY_S:
                self._heads.popleft()
            is_short = self._pressure.share() > HIGH
            self._goes_first = is_short and self._much_arrives(connection)
        return self._goes_first

    def _much_arrives(self, connection: Connection[Any]) -> bool:
        (first_at, first), (last_at, last) = self._heads[0], self._heads[-1]
        much = math.ceil(MUCH * max(1.0, (last_at - first_at) / LATELY_S))
        return follow.has_between(connection, first, last, _STAGED, much)
