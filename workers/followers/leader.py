"""How one of several processes is chosen for a piece of work: it holds an advisory lock, and the others stand by."""

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
"""How long one that stands by, or has lost the database, waits before it tries again."""


def ends_work(connection: Connection[Any], *waits_for: type[Exception]) -> Callable[[Exception], bool]:
    """Choose the errors of a part of a leader's work after which all of the work must start again."""
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
    """Until `stop` is set: hold the lock on a connection, which listens to the log's bell, and do the work on it.

    The work returns when `stop` is set, and reports its success under the name. Its errors of `waits_for`
    are a trouble of that name, and the work starts again, here or in another process.
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
