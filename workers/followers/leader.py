"""Leader election: the process that holds an advisory lock does the work, and the others stand by."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from psycopg import Connection
from psycopg.errors import ReadOnlySqlTransaction

from eventstore.errors import StoreUnavailable
from eventstore.log import follow
from eventstore.log.ledger import Ledger
from telemetry.supervision import supervision

RETRY_S = 1.0
"""Pause before the next attempt to become leader [seconds]."""


def ends_work(connection: Connection[Any], *waits_for: type[Exception]) -> Callable[[Exception], bool]:
    """Return a function that returns True for errors after which all of a leader's work must start again."""
    return lambda error: connection.closed or isinstance(error, (ReadOnlySqlTransaction, *waits_for))


class Follower(ABC):
    """Work of one process at a time, on a connection that holds an advisory lock; other processes stand by.

    The work returns when `stop` is set, and reports its success under `name`. An error of `waits_for` is reported as a
    trouble of that name, and the work starts again, in this or another process.
    """

    name: ClassVar[str]
    lock: ClassVar[int]
    waits_for: ClassVar[tuple[type[Exception], ...]] = (StoreUnavailable,)
    listens: ClassVar[bool] = True
    """True if the connection listens for the notification that Postgres sends after each append."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @abstractmethod
    def work(self, connection: Connection[Any], stop: threading.Event) -> None:
        """Work on the connection until `stop` is set."""

    def start(self, stop: threading.Event) -> threading.Thread:
        """Start a thread that calls `run`, and return the thread."""
        return supervision.thread(self.name, lambda: self.lead(stop), stop)

    def run(self, stop: threading.Event) -> None:
        """Run in this thread until `stop` is set."""
        supervision.run(self.name, lambda: self.lead(stop), stop)

    def lead(self, stop: threading.Event) -> None:
        """Try to hold the lock, and work while it is held, until `stop` is set."""
        while not stop.is_set():
            try:
                with self._ledger.connection() as connection:
                    row = connection.execute("SELECT pg_try_advisory_lock(%s) AS held", (self.lock,)).fetchone()
                    if row and row["held"]:
                        self._work_alone(connection, stop)
                    else:
                        supervision.stopped_waiting(self.name)
            except self.waits_for as error:
                supervision.failed(self.name, error, is_waiting=True)
            stop.wait(RETRY_S)

    def _work_alone(self, connection: Connection[Any], stop: threading.Event) -> None:
        try:
            if self.listens:
                follow.listen(connection)
            self.work(connection, stop)
        finally:
            if not connection.closed:
                connection.execute("UNLISTEN *")
                connection.execute("SELECT pg_advisory_unlock_all()")
