"""Stops of the intake: nothing is appended to a log that does not continue its signed checkpoints.

While a stop is in force, a trigger on `events` refuses each append of every process, also after restarts. An operator
ends a stop with a reason. The trigger also refuses appends until the log was compared with its checkpoints after the
server's start: the log may be a copy or an older backup.
"""

from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection

from eventstore.errors import IntakeStopped, NotCompared
from eventstore.log.rows import fetch_struct, structs_of, value_of

STOPPED = "LG002"
"""SQLSTATE of an append that a stop refuses."""
NOT_COMPARED = "LG003"
"""SQLSTATE of an append before the first comparison of the log with its checkpoints."""
IS_COMPARED = "SELECT is_log_compared()"

_SELECT = "SELECT stopped_at, size, reason FROM intake_stops WHERE ended_at IS NULL"
_INSERT = """
INSERT INTO intake_stops (size, note, reason)
SELECT %(size)s, %(note)s, %(reason)s
WHERE NOT EXISTS (SELECT FROM intake_stops WHERE note = %(note)s)
ON CONFLICT ((ended_at IS NULL)) WHERE ended_at IS NULL DO NOTHING
"""
_COMPARED = """
INSERT INTO log_comparisons (accepted_by, accepted_for) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""
_END = """
UPDATE intake_stops SET ended_at = clock_timestamp(), ended_by = %s, ended_for = %s WHERE ended_at IS NULL
"""


class IntakeStop(msgspec.Struct, frozen=True):
    """Stop in force: its time, the size of the checkpoint that the log does not continue, and a sentence."""

    stopped_at: datetime
    size: int
    reason: str


def intake_stop(connection: Connection[Any]) -> IntakeStop | None:
    """Return the stop in force, or None."""
    return next(iter(structs_of(connection, IntakeStop, _SELECT)), None)


async def read_intake_stop(connection: AsyncConnection[Any]) -> IntakeStop | None:
    """Return the stop in force, or None."""
    return await fetch_struct(connection, IntakeStop, _SELECT)


def require_intake(connection: Connection[Any]) -> None:
    """Raise IntakeStopped or NotCompared if the trigger would refuse an append."""
    if intake_stop(connection) is not None:
        raise IntakeStopped("intake is stopped")
    if not is_compared(connection):
        raise NotCompared("the log was not compared with its checkpoints yet")


def stop_intake(connection: Connection[Any], *, size: int, note: str, reason: str) -> bool:
    """Stop the intake because of a checkpoint.

    Return whether a new stop has begun. No stop begins while another stop is in force, or if there was a stop for this
    checkpoint before.
    """
    return connection.execute(_INSERT, {"size": size, "note": note, "reason": reason}).rowcount == 1


def end_stop(connection: Connection[Any], *, by: str, reason: str) -> bool:
    """End the stop in force for a reason. Return whether a stop was in force."""
    return connection.execute(_END, (by, reason)).rowcount == 1


def note_comparison(connection: Connection[Any], *, by: str | None = None, reason: str | None = None) -> bool:
    """Record that the log was compared, or that an operator (`by`) accepts the log without a comparison.

    Return whether this is the first record since the server has started.
    """
    return connection.execute(_COMPARED, (by, reason)).rowcount == 1


def is_compared(connection: Connection[Any]) -> bool:
    """Return whether the log was compared with its checkpoints since the server has started."""
    return bool(value_of(connection, IS_COMPARED))


def restore_url(admin_url: str) -> str:
    """Return the owner's database URL with a setting under which a restore may append before the log is compared."""
    return f"{admin_url}{'&' if '?' in admin_url else '?'}options=-c%20importledger.is_restoring%3Don"
