"""How one of several processes is chosen for a piece of work: it holds an advisory lock, and the others stand by."""

import threading
from collections.abc import Callable
from typing import Any

import structlog
from psycopg import Connection

from eventstore.errors import StoreUnavailable, first_line
from eventstore.log import follow
from eventstore.log.ledger import Ledger

RETRY_S = 1.0
"""How long one that stands by, or has lost the database, waits before it tries again."""

logger = structlog.get_logger()


def lead(
    ledger: Ledger,
    lock: int,
    name: str,
    work: Callable[[Connection[Any], threading.Event], None],
    stop: threading.Event,
    *,
    waits_for: tuple[type[Exception], ...] = (StoreUnavailable,),
    listens: bool = True,
) -> None:
    """Until `stop` is set: hold the lock on a connection, which listens to the log's bell, and do the work on it.

    The work returns when `stop` is set. What it raises of `waits_for` is logged, and the work is taken up again, here
    or by another process.
    """
    while not stop.is_set():
        try:
            with ledger.connection() as connection:
                row = connection.execute("SELECT pg_try_advisory_lock(%s) AS held", (lock,)).fetchone()
                if row and row["held"]:
                    _work(connection, work, stop, listens=listens)
        except waits_for as error:
            logger.warning(f"{name} waits", reason=first_line(error))
        stop.wait(RETRY_S)


def _work(
    connection: Connection[Any],
    work: Callable[[Connection[Any], threading.Event], None],
    stop: threading.Event,
    *,
    listens: bool,
) -> None:
    try:
        if listens:
            follow.listen(connection)
        work(connection, stop)
    finally:
        if not connection.closed:
            connection.execute("UNLISTEN *")
            connection.execute("SELECT pg_advisory_unlock_all()")
