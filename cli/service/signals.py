"""How a process learns that it is to stop: by SIGTERM and SIGINT."""

import signal
import threading
from queue import SimpleQueue

from telemetry.supervision import supervision


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set.

    A handler runs between any two steps of the main thread, also while that holds the event's own lock, so it must not
    set the event: both would wait for ever. It hands the signal to a thread, through a queue that may be used so.
    """
    stop = threading.Event()
    told: SimpleQueue[int] = SimpleQueue()

    def set_when_told() -> None:
        told.get()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.put(number))
    supervision.thread("signals", set_when_told)
    return stop
