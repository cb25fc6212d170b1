"""Threads of the service that run during a block of a test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from eventstore.log.ledger import Ledger
from workers.run import run_worker


@contextmanager
def running(start: Callable[[threading.Event], threading.Thread]) -> Iterator[threading.Event]:
    """Start a thread, and end it after the block; the event ends it before."""
    stop = threading.Event()
    thread = start(stop)
    try:
        yield stop
    finally:
        stop.set()
        thread.join()


@contextmanager
def working(ledger: Ledger, **named: Any) -> Iterator[threading.Event]:
    """Run a worker process with its relay and sweeper."""

    def start(stop: threading.Event) -> threading.Thread:
        thread = threading.Thread(target=run_worker, args=(ledger, None), kwargs={"stop": stop, **named})
        thread.start()
        return thread

    with running(start) as stop:
        yield stop
