"""What has to be looked at to be known (pools, queues), looked at every so often by a thread of its own."""

import threading
from collections.abc import Callable, Sequence

import structlog

from telemetry.supervision import supervision

EVERY_S = 5.0

logger = structlog.get_logger()


def start_pulse(looks: Sequence[Callable[[], None]], stop: threading.Event) -> threading.Thread:
    """Look now, and every few seconds until `stop` is set."""

    def look() -> None:
        while True:
            for one in looks:
                try:
                    one()
                except Exception as error:  # it only looks: what it looks at is told of elsewhere
                    logger.debug("not measured", reason=type(error).__name__)
            if stop.wait(EVERY_S):
                return

    return supervision.thread("pulse", look, stop)
