"""Leader election: the process that holds an advisory lock does the work, and the others stand by."""

import threading
from collections.abc import Callable
from typing import Any

from psycopg import Connection
from psycopg.errors import ReadOnlySqlTransaction

from eventstore.errors import StoreUnavailable
from eventstore.log import follow
from eventstore.log.ledger import Ledger
from telemetry.supervision import supervision

RETRY_S = 1.0
"""Pause before the next attempt to become leader [seconds]."""


def ends_work(connection: Connection[Any], *waits_for: type[Exception]) -> Callable[[Exception], bool]:
    """Return a function that selects the errors after which all of a leader's work must start again."""
    return lambda error: connection.closed or isinstance(error, (ReadOnlySqlTransaction, *waits_for))


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
    """Until `stop` is set, try to hold the lock, and do the work on the connection that holds it.

    The connection listens to the log's bell. The work returns when `stop` is set, and reports its success under the
    name. An error of `waits_for` is reported as a trouble of that name, and the work starts again, here or in another
    process.
    """
    while not stop.is_set():
        try:
            with ledger.connection() as connection:
                row = connection.execute("SELECT pg_try_advisory_lock(%s) AS held", (lock,)).fetchone()
                if row and row["held"]:
                    _work(connection, work, stop, listens=listens)
                else:
                    supervision.waits_no_more(name)
        except waits_for as error:
            supervision.failed(name, error, is_waiting=True)
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
