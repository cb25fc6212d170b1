"""Erasing a person: the key, the payloads, the answers that repeat them and the platform's records are gone.

What stays is the history without content, and in the platform the account's number, its keys and when it was erased.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection

from eventstore import locks
from eventstore.aggregates.import_process import EraseSubject, stream_of
from eventstore.events import Recorded
from eventstore.log.ledger import Ledger
from eventstore.refused_attempts import DELETE_ATTEMPTS
from projections.history import read_account_history
from projections.platform.change import platform_change
from projections.platform.writing import apply_change

_ERASE = (
    "DELETE FROM payloads WHERE stream = ANY(%(streams)s)",
    "DELETE FROM remembered_answers WHERE command_id IN"
    " (SELECT command_id FROM events WHERE stream = ANY(%(streams)s) AND command_id IS NOT NULL)",
    "INSERT INTO payload_keys (stream, erased_at) VALUES (%(subject)s, %(at)s)"
    " ON CONFLICT (stream) DO UPDATE SET key = NULL, erased_at = excluded.erased_at",
)


def forget_attempts(ledger: Ledger, supplier: str, external: str) -> int:
    """Delete what was refused about an account, which may have no import at all; how many attempts that were."""
    with ledger.connection() as connection:
        return connection.execute(DELETE_ATTEMPTS, {"supplier": supplier, "external": external}).rowcount


def erase(ledger: Ledger, supplier: str, external: str, *, reason: str, at: datetime, by: str) -> Recorded | None:
    """Erase the person behind an import, in one transaction; None when that was done before.

    Needs a ledger on the administrator's URL. Safe to repeat. Raises IllegalTransition while the import is being
    processed, or where there is none.
    """
    subject = stream_of(supplier, external)

    def beside(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        # Alone with the platform: nothing about the person can be attached while this runs, or after it.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM,))
        streams = sorted({recorded.stream for recorded in read_account_history(connection, supplier, external)})
        for statement in _ERASE:
            connection.execute(statement.encode(), {"streams": streams, "subject": subject, "at": at})
        connection.execute(DELETE_ATTEMPTS.encode(), {"supplier": supplier, "external": external})
        for recorded in events:
            if (change := platform_change(recorded, None)) is not None:
                apply_change(connection, change)

    return ledger.execute(subject, EraseSubject(reason=reason), at=at, by=by, beside=beside)
