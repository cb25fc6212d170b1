"""Long jobs that requests ask for, again and again, and that nobody waits for: when that was, and how it goes since.

A job that nobody has asked for any more for a while is given up; what is done of it is forgotten.
"""

from datetime import timedelta
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.log import locks
from eventstore.log.long_jobs import LongJob, add_job, end_job, open_job

UNASKED = timedelta(minutes=15)
"""How long a job is gone on with that nobody asks for any more."""


class Pace(msgspec.Struct, frozen=True):
    """Seconds since a job was asked for first, since anybody has asked for it, and since a part of it was done."""

    seconds: float
    unasked_s: float
    quiet_s: float


class TooManyJobs(Exception):
    """So many jobs of this kind are open for the supplier that there is no further one."""


_SELECT_PACE = """
SELECT extract(epoch FROM clock_timestamp() - asked_at)::float8,
       extract(epoch FROM clock_timestamp() - coalesce(requested_at, asked_at))::float8,
       extract(epoch FROM clock_timestamp() - greatest(asked_at, (
           SELECT max(done_at) FROM long_job_parts AS p WHERE p.job = j.job)))::float8
FROM long_jobs AS j
WHERE job = %s
"""
_REQUEST = "UPDATE long_jobs SET requested_at = clock_timestamp() WHERE job = %s AND ended_at IS NULL"
_COUNT_OPEN = """
SELECT count(*)
FROM long_jobs
WHERE ended_at IS NULL AND kind = %s AND arguments::json ->> 'supplier' = %s
"""
_SELECT_UNASKED = "SELECT job FROM long_jobs WHERE ended_at IS NULL AND requested_at < clock_timestamp() - %s"


class WantedParts(msgspec.Struct, frozen=True):
    """What a new job is to consist of: parts as `add_job` takes them, of the log up to a position, for an edition."""

    edition: str
    upto: int
    pieces: list[tuple[str, int]]


def request_job(
    connection: Connection[Any], kind: str, arguments: str, wanted: WantedParts, *, supplier: str, most: int
) -> LongJob:
    """Add a job, or give the one that somebody has added meanwhile. Raises TooManyJobs.

    Of this kind, a supplier has `most` at the same time.
    """
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        lock = f"{kind} of {supplier}"
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (locks.LONG_JOBS, lock))
        if (there := open_job(connection, kind, arguments)) is not None:
            return there
        refuse_more(connection, kind, supplier=supplier, most=most)
        added = add_job(connection, kind, arguments, wanted.edition, wanted.upto, wanted.pieces)
        note_request(connection, added.job)
    return added


def refuse_more(connection: Connection[Any], kind: str, *, supplier: str, most: int) -> None:
    """Raises TooManyJobs where the supplier has `most` open jobs of this kind."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_COUNT_OPEN, (kind, supplier)).fetchone()
    if row and row[0] >= most:
        raise TooManyJobs


def note_request(connection: Connection[Any], job: str) -> None:
    """Somebody has asked for it, now."""
    connection.execute(_REQUEST, (job,))


def pace_of(connection: Connection[Any], job: str) -> Pace | None:
    """How it goes; None for a job that has been forgotten."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_SELECT_PACE, (job,)).fetchone()
    return Pace(*row) if row else None


def give_up_unasked(connection: Connection[Any]) -> list[str]:
    """End the jobs that requests have asked for, and do not any more; their names."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        jobs = [str(job) for (job,) in cursor.execute(_SELECT_UNASKED, (UNASKED,)).fetchall()]
    for job in jobs:
        end_job(connection, job, "given up")
    return jobs
