"""A role opens the log when its database has been judged: at once, or at the first contact with a node that writes."""

import os
import threading
import time
from collections.abc import Callable

import structlog

from eventstore.log.ledger import Ledger
from eventstore.operations.fitness import Durability, refuse_unsafe

RETRY_S = 0.5

logger = structlog.get_logger()


def opener(database_url: str, durability: Durability) -> Callable[[Ledger], None]:
    """What opens a ledger on this database, for the start of a role. Raises UnsafeStore where it cannot be the log's.

    Where it is away or takes no writes, the ledger opens later; if the database turns out to be unfit then, or cannot
    be judged for want of rights, the process says so and ends with exit code 1.
    """
    is_judged = refuse_unsafe(database_url, durability)

    def open_ledger(ledger: Ledger) -> None:
        if is_judged:
            ledger.open()
            return
        logger.warning("the database is away or takes no writes: waiting for it")
        threading.Thread(target=_open_later, args=(ledger,), name="opening", daemon=True).start()

    def _open_later(ledger: Ledger) -> None:
        try:
            while not refuse_unsafe(database_url, durability):
                time.sleep(RETRY_S)
            ledger.open()
        except Exception as error:  # a thread that ends in silence leaves a role that waits for ever
            from cli.failures import tell_failure  # it knows the errors of every verb, and so imports all of them

            tell_failure(error)
            os._exit(1)  # nothing has been acknowledged: the log was never open

    return open_ledger
