"""Liveness of a worker, which holds a session advisory lock that Postgres releases when the process dies.

A worker that has lost its connection gets another number, and the imports that it had started count as abandoned.
"""

import secrets
import threading

from eventstore.errors import StoreUnavailable
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from telemetry.supervision import supervision

CHECK_S = 1.0


class Liveness:
    """Holds the lock of this worker's number on a separate connection.

    After a lost connection, the worker gets a new number.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stop = threading.Event()
        self._held = threading.Event()
        self._worker = 0

    def start(self, stop: threading.Event) -> None:
        """Wait for Postgres until the lock is held or `stop` is set."""
        self._thread = supervision.thread("liveness", self._hold, self._stop)
        while not self._held.wait(CHECK_S) and not stop.is_set():
            pass

    def worker(self) -> int:
        """Return the worker's present number. Waits up to a second for a number."""
        self._held.wait(CHECK_S)
        return self._worker

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _hold(self) -> None:
        while not self._stop.is_set():
            try:
                with self._ledger.connection() as connection:
                    worker = secrets.randbelow(2**31 - 1) + 1
                    connection.execute("SELECT pg_advisory_lock(%s, %s)", (locks.WORKERS, worker))
                    self._worker = worker
                    self._held.set()
                    supervision.works("liveness")
                    while not self._stop.wait(CHECK_S):
                        connection.execute("SELECT 1")
                    connection.execute("SELECT pg_advisory_unlock_all()")
            except StoreUnavailable as error:
                supervision.failed("liveness", error, is_waiting=True)
                self._stop.wait(CHECK_S)
            finally:
                self._held.clear()
