"""Stop of a process by SIGTERM and SIGINT."""

import os
import signal
import threading

from system.stopping import stop_in_time
from telemetry.supervision import supervision


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set. The process must then end in time (`system.stopping`).

    A signal handler must not set the event itself: it may interrupt the main thread while the main thread holds the
    event's lock, which would be a deadlock. A handler also waits for the main thread, which may be busy in a library.
    Therefore a thread reads signals from a pipe.
    """
    stop = threading.Event()
    received, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def set_when_received() -> None:
        os.read(received, 1)
        stop_in_time()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    supervision.thread("signals", set_when_received)
    return stop
