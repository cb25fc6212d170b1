"""Opening of the log by a role, after its database was tested: at once, or when a writable node answers."""

import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from psycopg import OperationalError

from eventstore.log.ledger import Ledger
from eventstore.operations.fitness import Durability, NotChecked, refuse_unsafe
from projections.auxiliary.troubles import start_reporting
from projections.versions.install import refuse_uninstalled
from telemetry.supervision import supervision

RETRY_S = 0.5
CONNECTING = "connection to the database"


def ledger_opener(
    database_url: str, durability: Durability, role: str, kinds: Sequence[str]
) -> Callable[[Ledger], None]:
    """Return the function that opens a role's log on this database. Raises UnsafeStore for an unfit database.

    From this call on, the troubles of the process are reported under the role's name. `kinds` are the kinds of
    processes whose rights the role needs: api, worker, relay. While the database is unavailable, read-only or without a
    schema, the reason is a trouble of the role, and the log opens later. If the database is then found unfit, or cannot
    be tested because rights are missing, the process logs the reason and exits with 1.
    """

    def is_fit() -> bool:
        try:
            refuse_unsafe(database_url, durability, kinds)
            refuse_uninstalled(database_url)
        except (NotChecked, OperationalError) as away:
            supervision.failed(CONNECTING, away, is_waiting=True)
            return False
        supervision.works(CONNECTING)
        return True

    def open_ledger(ledger: Ledger) -> None:
        start_reporting(ledger, f"{role}@{socket.gethostname()}:{os.getpid()}")
        if was_fit:
            ledger.open()
        else:
            supervision.thread("opening", partial(_open_later, ledger))

    def _open_later(ledger: Ledger) -> None:
        try:
            while not is_fit():
                time.sleep(RETRY_S)
            ledger.open()
        except Exception as error:  # without this line, the role would wait forever
            from cli.service.failures import (
                # imported here: the module describes the errors of every verb, and imports their libraries
                print_failure,
            )

            print_failure(error)
            os._exit(1)  # no data were acknowledged, because the log was never open

    was_fit = is_fit()
    return open_ledger
