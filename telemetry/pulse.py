"""Thread that reports the state of pools and queues as metrics, at an interval."""

import threading
from collections.abc import Callable, Sequence

import structlog

from telemetry.supervision import supervision

EVERY_S = 5.0
"""Interval between two reports [seconds]."""

logger = structlog.get_logger()


def start_pulse(collectors: Sequence[Callable[[], None]], stop: threading.Event) -> threading.Thread:
    """Call each function now, and every few seconds until `stop` is set."""

    def collect() -> None:
        while True:
            for report in collectors:
                try:
                    report()
                except Exception as error:  # the failure itself is reported elsewhere
                    logger.debug("could not collect metrics", reason=type(error).__name__)
            if stop.wait(EVERY_S):
                return

    return supervision.thread("pulse", collect, stop)
