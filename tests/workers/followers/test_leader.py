"""Followers: one process works, and another takes over when it ends."""

import threading
from typing import Any

from psycopg import Connection

from eventstore.log.ledger import Ledger
from workers.followers.leader import Follower


class Working(Follower):
    """Stops at once, and notes whether another connection could have taken the lock."""

    name, lock = "a test", 4_711

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.was_free: list[bool] = []

    def work(self, connection: Connection[Any], stop: threading.Event) -> None:
        with self._ledger.connection() as other:
            [row] = other.execute("SELECT pg_try_advisory_lock(%s) AS held", (self.lock,)).fetchall()
        self.was_free.append(row["held"])
        stop.set()


def test_one_works_and_its_lock_is_free_afterwards(ledger: Ledger) -> None:
    follower, stop = Working(ledger), threading.Event()
    follower.lead(stop)
    follower.lead(stop)
    assert follower.was_free == [False], "it does not start after its end was requested"
    follower.lead(threading.Event())
    assert follower.was_free == [False, False]
