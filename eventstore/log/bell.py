"""The bell: NOTIFY after the commit, so that followers wake at once.

Not part of any append: inside a transaction NOTIFY takes a lock over the whole cluster until the commit's flush.
A lost ring costs a follower half a second, never an event.
"""

import threading

from eventstore.errors import StoreUnavailable
from eventstore.log.recorder import LedgerDatastore
from eventstore.log.store_errors import store_errors
from telemetry.supervision import supervision

CHANNEL = "importledger"
MIN_INTERVAL_S = 0.1


class CommitBell:
    """Rings from a thread of its own, at most once per interval."""

    def __init__(self, datastore: LedgerDatastore) -> None:
        self._datastore = datastore
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._thread = supervision.thread("bell", self._ring_on_demand, self._closed)

    def ring(self) -> None:
        """Ask for a ring; returns at once."""
        self._wanted.set()

    def close(self) -> None:
        """Ring what is still wanted, and stop."""
        self._closed.set()
        self._wanted.set()
        self._thread.join()

    def _ring_on_demand(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                with store_errors(), self._datastore.pool.connection() as connection:
                    connection.execute(f"NOTIFY {CHANNEL}")
            except StoreUnavailable:
                pass  # followers poll as well
            if self._closed.wait(MIN_INTERVAL_S):
                return
