"""Stop of a process by SIGTERM and SIGINT."""

import signal
import threading
from queue import SimpleQueue

from telemetry.supervision import supervision


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set.

    A handler must not set the event itself: it may interrupt the main thread while that holds the lock of the event, a
    deadlock. It passes the signal to a thread through a queue that is safe in handlers.
    """
    stop = threading.Event()
    received: SimpleQueue[int] = SimpleQueue()

    def set_when_received() -> None:
        received.get()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: received.put(number))
    supervision.thread("signals", set_when_received)
    return stop
