"""Troubles of all processes of the service, in a table for `/readyz`, `doctor`, metrics and the console.

A process repeats its troubles while they last. A trouble that was not repeated for 20 seconds is over, or its process
has ended.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection

from eventstore.errors import StoreUnavailable
from eventstore.log.ledger import Ledger
from eventstore.log.rows import fetch_structs, structs_of
from redaction.text import cleaned
from telemetry.supervision import Trouble, supervision

REPEATED_EVERY_S = 5.0
_SELECT = """
SELECT process, name, error, since, times, is_waiting, clock_timestamp() - since > interval '2 seconds' AS is_lasting
FROM troubles
WHERE seen_at > clock_timestamp() - interval '20 seconds'
ORDER BY since, process, name
"""
_DELETE = """
DELETE FROM troubles
WHERE (role = session_user AND process = %s AND NOT name = ANY(%s)) OR seen_at < clock_timestamp() - interval '1 hour'
"""
_UPSERT = """
INSERT INTO troubles (process, name, error, times, is_waiting) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (role, process, name) DO UPDATE
SET error = excluded.error, times = excluded.times, is_waiting = excluded.is_waiting, seen_at = clock_timestamp()
"""


class ReportedTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A trouble and its process; `since` is by the database's clock."""

    process: str
    name: str
    error: str
    since: datetime
    times: int
    is_waiting: bool
    is_lasting: bool
    """True if the trouble lasts longer than two seconds. Shorter troubles usually end with the next attempt."""


def start_reporting(ledger: Ledger, process: str) -> None:
    """Start a thread that reports the troubles of this process until it ends."""

    def report() -> None:
        is_reported = False
        while True:
            supervision.changed.wait(REPEATED_EVERY_S)
            supervision.changed.clear()
            troubles = supervision.troubles()
            if troubles or is_reported:
                with suppress(StoreUnavailable), ledger.connection() as connection:
                    report_troubles(connection, process, troubles)
                    is_reported = bool(troubles)

    supervision.thread("reports of troubles", report)


def report_troubles(connection: Connection[Any], process: str, troubles: Sequence[Trouble]) -> None:
    """Replace the reported troubles of a process."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(_DELETE, (process, [trouble.name for trouble in troubles]))
        rows = [(process, each.name, cleaned(each.error), each.times, each.is_waiting) for each in troubles]
        cursor.executemany(_UPSERT, rows)


def reported_troubles(connection: Connection[Any]) -> list[ReportedTrouble]:
    """Read the present troubles of all processes, the oldest first."""
    return structs_of(connection, ReportedTrouble, _SELECT)


async def read_troubles(connection: AsyncConnection[Any]) -> list[ReportedTrouble]:
    """Read the present troubles of all processes in the event loop, the oldest first."""
    return await fetch_structs(connection, ReportedTrouble, _SELECT)
