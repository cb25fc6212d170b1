"""Does intake need the processors for itself? What has arrived is created afterwards then.

It does while much arrives and the relay's machine is short of processors. Niceness alone does not see to it: what
workers ask of Postgres, Postgres does with the same right as what the api asks.
"""

import time
from datetime import timedelta
from typing import Any

from psycopg import Connection

from eventstore.clock import now
from runtime.processors import ProcessorPressure
from workers.broker import STREAMS_PER_MESSAGE

LOOK_EVERY_S = 0.15
LATELY = timedelta(seconds=0.5)
MUCH = STREAMS_PER_MESSAGE
"""As many imports within that time are much."""
SHORT = 0.5
"""Something waits for a processor for this share of the time, and more, where there are too few."""

_SELECT_MUCH_ARRIVES = """
SELECT count(*) = %(much)s AS arrives
FROM (SELECT FROM import_status WHERE status = 'PENDING' AND modified_at > %(since)s LIMIT %(much)s) AS staged
"""


class Intake:
    """Looks at the log and at the machine, a few times a second at most."""

    def __init__(self, pressure: ProcessorPressure | None = None) -> None:
        self._pressure = pressure or ProcessorPressure()
        self._looked_at = 0.0
        self._goes_first = False

    def goes_first(self, connection: Connection[Any]) -> bool:
        """Whether nothing should be begun now that can be done later."""
        if time.monotonic() - self._looked_at > LOOK_EVERY_S:
            is_short = self._pressure.share() > SHORT
            self._goes_first = is_short and _much_arrives(connection)
            self._looked_at = time.monotonic()
        return self._goes_first


def _much_arrives(connection: Connection[Any]) -> bool:
    row = connection.execute(_SELECT_MUCH_ARRIVES, {"much": MUCH, "since": now() - LATELY}).fetchone()
    return bool(row and row["arrives"])
