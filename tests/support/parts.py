"""Workers for long jobs in the test's own process: their locks are held, a relay's too, and what is open is done."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from eventstore.log.long_jobs import waiting_parts
from projections import INLINE
from workers.parts import PartWorker


@contextmanager
def alive(database: PostgresUrls, *workers: int, is_relayed: bool = True) -> Iterator[Connection[Any]]:
    """These workers and the relay seem to run while the block does."""
    with psycopg.connect(database.service, autocommit=True) as connection:
        for worker in workers:
            connection.execute("SELECT pg_advisory_lock(%s, %s)", (locks.WORKERS, worker))
        if is_relayed:
            connection.execute("SELECT pg_advisory_lock(%s)", (locks.RELAY,))
        yield connection
        connection.execute("SELECT pg_advisory_unlock_all()")  # the server notices a moment later that we have gone


@contextmanager
def working(database: PostgresUrls, count: int = 2) -> Iterator[None]:
    """So many workers do whatever parts there are, as the relay's messages would have them do."""
    ledger, stop = Ledger(database.service, views=INLINE, connections=3 * count), threading.Event()

    def work(worker: int) -> None:
        doing = PartWorker(ledger, worker=lambda: worker, stop=stop)
        while not stop.wait(0.02):
            with ledger.connection() as connection:
                names = [f"{job}/{number}" for job, number in waiting_parts(connection, 5)]
            doing.work(names)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, count + 1)]
    with alive(database, *range(1, count + 1)):
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
            ledger.close()
