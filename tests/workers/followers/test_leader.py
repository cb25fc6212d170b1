"""Of those who would lead, one works; another takes over when it ends."""

import threading
from typing import Any

from psycopg import Connection

from eventstore.log.ledger import Ledger
from workers.followers.leader import lead

LOCK = 4_711


def test_one_leads_and_its_lock_is_free_afterwards(ledger: Ledger) -> None:
    led: list[str] = []
    stop = threading.Event()

    def work(connection: Connection[Any], stopped: threading.Event) -> None:
        with ledger.connection() as other:
            row = other.execute("SELECT pg_try_advisory_lock(%s) AS held", (LOCK,)).fetchone()
        led.append("alone" if row and not row["held"] else "not alone")
        stopped.set()

    lead(ledger, LOCK, "a test", work, stop)
    lead(ledger, LOCK, "a test", work, stop)
    assert led == ["alone"], "a stop that is set is obeyed"
    lead(ledger, LOCK, "a test", work, threading.Event(), listens=False)
    assert led == ["alone", "alone"]
