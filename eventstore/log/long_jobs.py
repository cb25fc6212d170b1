"""Long jobs and their parts: rows that the worker processes of all machines share, each change one statement.

A part is open, taken by a worker until its lease ends, or done with a result. It is open again as soon as its worker is
gone, which its advisory lock tells, or when the lease ends; whoever was late then cannot finish it any more. A part
that was taken `MAX_ATTEMPTS` times without being done is given up. Times are the database's.
"""

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import class_row, tuple_row

from eventstore.log import locks

LEASE = timedelta(seconds=60)
MAX_ATTEMPTS = 5
KEPT = timedelta(days=7)
"""How long it is remembered that a job has ended."""


class LongJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is not over. `arguments` is JSON; `upto` is the log's last position when it was asked for."""

    job: str
    kind: str
    arguments: str
    edition: str
    upto: int
    asked_at: datetime


class JobPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part that a worker has taken; `piece` is JSON and says what to do, in the words of the job's kind."""

    job: str
    number: int
    piece: str
    attempt: int


class GivenUp(msgspec.Struct, frozen=True):
    """A part that failed as often as is tried, and how the last time."""

    number: int
    piece: str
    error: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job is: parts, and the events that they hold."""

    parts: int = 0
    parts_done: int = 0
    parts_taken: int = 0
    events: int = 0
    events_done: int = 0
    given_up: GivenUp | None = None
    refused_by: str = ""

    @property
    def is_done(self) -> bool:
        return self.parts_done == self.parts


def remaining_s(done: int, total: int, seconds: float) -> float | None:
    """How long the rest will take when it goes on as it went in these seconds; None while nothing is known. Pure."""
    if done >= total:
        return 0.0
    return round((total - done) * seconds / done, 1) if done > 0 and seconds > 0 else None


_IS_ALIVE = """EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND classid = %(lock_class)s::bigint::oid AND objid::bigint = p.worker AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""
_IS_TAKEN = f"(p.worker <> 0 AND p.lease_until > clock_timestamp() AND {_IS_ALIVE})"
_OF_LOCKS = {"lock_class": locks.WORKERS}

_SELECT_OPEN = """
SELECT job, kind, arguments, edition, upto, asked_at
FROM long_jobs
WHERE kind = %s AND arguments = %s AND ended_at IS NULL
"""
_SELECT_JOB = """
SELECT job, kind, arguments, edition, upto, asked_at
FROM long_jobs
WHERE job = %s AND ended_at IS NULL
"""
_INSERT_JOB = """
INSERT INTO long_jobs (job, kind, arguments, edition, upto) VALUES (%s, %s, %s, %s, %s)
"""
_INSERT_PART = """
INSERT INTO long_job_parts (job, number, piece, events) VALUES (%s, %s, %s, %s)
"""
_TAKE = f"""
UPDATE long_job_parts
SET worker = %(worker)s, attempt = attempt + 1, lease_until = clock_timestamp() + %(lease)s
WHERE (job, number) = (
    SELECT p.job, p.number
    FROM long_job_parts AS p
    WHERE p.job = %(job)s AND p.done_at IS NULL AND p.attempt < %(attempts)s AND NOT {_IS_TAKEN}
    ORDER BY p.number <> %(number)s, p.number
    LIMIT 1
    FOR UPDATE SKIP LOCKED)
RETURNING job, number, piece, attempt
"""  # noqa: S608 - constants
_OF_MINE = "WHERE job = %(job)s AND number = %(number)s AND worker = %(worker)s AND attempt = %(attempt)s"
_RENEW = f"UPDATE long_job_parts SET lease_until = clock_timestamp() + %(lease)s {_OF_MINE} AND done_at IS NULL"  # noqa: S608 - constants
_FINISH = f"""
UPDATE long_job_parts SET result = %(result)s, done_at = clock_timestamp(), worker = 0, error = ''
{_OF_MINE} AND done_at IS NULL
"""  # noqa: S608 - constants
_GIVE_BACK = f"""
UPDATE long_job_parts SET worker = 0, error = %(error)s, attempt = attempt - %(uncounted)s
{_OF_MINE} AND done_at IS NULL
"""  # noqa: S608 - constants
_REFUSE = "UPDATE long_jobs SET refused_by = %s WHERE job = %s AND refused_by <> %s"
_SELECT_STANDING = f"""
SELECT count(*), count(done_at), count(*) FILTER (WHERE done_at IS NULL AND {_IS_TAKEN}),
       coalesce(sum(events), 0)::bigint, coalesce(sum(events) FILTER (WHERE done_at IS NOT NULL), 0)::bigint,
       coalesce((SELECT refused_by FROM long_jobs WHERE job = %(job)s), '')
FROM long_job_parts AS p
WHERE job = %(job)s
"""  # noqa: S608 - constants
_SELECT_GIVEN_UP = f"""
SELECT number, piece, error
FROM long_job_parts AS p
WHERE job = %(job)s AND done_at IS NULL AND attempt >= %(attempts)s AND NOT {_IS_TAKEN}
ORDER BY number
LIMIT 1
"""  # noqa: S608 - constants
_SELECT_WAITING = f"""
SELECT p.job, p.number
FROM long_job_parts AS p
JOIN long_jobs AS j USING (job)
WHERE j.ended_at IS NULL AND p.done_at IS NULL AND p.attempt < %(attempts)s AND NOT {_IS_TAKEN}
ORDER BY j.asked_at, p.number
LIMIT %(limit)s
"""  # noqa: S608 - constants
_SELECT_RESULTS = "SELECT number, result FROM long_job_parts WHERE job = %s AND done_at IS NOT NULL ORDER BY number"
_SELECT_PIECES = "SELECT piece FROM long_job_parts WHERE job = %s ORDER BY number"
_AGAIN = """
UPDATE long_job_parts SET attempt = 0, error = ''
WHERE job = %s AND done_at IS NULL AND attempt >= %s
"""
_SELECT_HOLDERS = """
SELECT count(*) FILTER (WHERE classid::bigint = %(lock_class)s AND objsubid = 2),
       count(*) FILTER (WHERE classid = 0 AND objid::bigint = %(relay)s AND objsubid = 1)
FROM pg_locks
WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def open_job(connection: Connection[Any], kind: str, arguments: str) -> LongJob | None:
    """The job of this kind and these arguments that is not over."""
    with connection.cursor(row_factory=class_row(LongJob)) as cursor:
        return cursor.execute(_SELECT_OPEN, (kind, arguments)).fetchone()


def known_job(connection: Connection[Any], job: str) -> LongJob | None:
    """The job, while it is not over."""
    with connection.cursor(row_factory=class_row(LongJob)) as cursor:
        return cursor.execute(_SELECT_JOB, (job,)).fetchone()


def add_job(
    connection: Connection[Any], kind: str, arguments: str, edition: str, upto: int, pieces: Sequence[tuple[str, int]]
) -> LongJob:
    """A new job of these parts, each what to do and how many events it holds. What has ended long ago is forgotten."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM long_jobs WHERE ended_at < clock_timestamp() - %s", (KEPT,))
        job = f"{kind}-{secrets.token_hex(4)}"
        cursor.execute(_INSERT_JOB, (job, kind, arguments, edition, upto))
        cursor.executemany(_INSERT_PART, [(job, n, piece, events) for n, (piece, events) in enumerate(pieces, 1)])
    added = known_job(connection, job)
    assert added is not None
    return added


def end_job(connection: Connection[Any], job: str, outcome: str) -> None:
    """Remember how it ended, and forget its parts."""
    with connection.transaction():
        connection.execute("DELETE FROM long_job_parts WHERE job = %s", (job,))
        connection.execute(
            "UPDATE long_jobs SET ended_at = clock_timestamp(), outcome = %s WHERE job = %s", (outcome, job)
        )


def try_again(connection: Connection[Any], job: str) -> None:
    """Parts that were given up may be taken again: somebody has typed the command again."""
    connection.execute(_AGAIN, (job, MAX_ATTEMPTS))


def take_part(connection: Connection[Any], job: str, number: int, worker: int) -> JobPart | None:
    """Take this part, or another of the job that is open; None when there is none."""
    wanted = {"job": job, "number": number, "worker": worker, "lease": LEASE, "attempts": MAX_ATTEMPTS}
    with connection.cursor(row_factory=class_row(JobPart)) as cursor:
        return cursor.execute(_TAKE.encode(), wanted | _OF_LOCKS).fetchone()


def renew_part(connection: Connection[Any], part: JobPart, worker: int) -> bool:
    """Keep a part for longer; False when it is another's by now."""
    return connection.execute(_RENEW.encode(), _of(part, worker) | {"lease": LEASE}).rowcount == 1


def finish_part(connection: Connection[Any], part: JobPart, worker: int, result: str) -> bool:
    """Note the result, in the transaction of whatever the part has written; False when it is another's by now."""
    return connection.execute(_FINISH.encode(), _of(part, worker) | {"result": result}).rowcount == 1


def give_back_part(
    connection: Connection[Any], part: JobPart, worker: int, *, error: str = "", is_counted: bool = True
) -> None:
    """Let others take it; `is_counted` when it was tried, and failed."""
    said = {"error": error[:1000], "uncounted": 0 if is_counted else 1}
    connection.execute(_GIVE_BACK.encode(), _of(part, worker) | said)


def refuse_job(connection: Connection[Any], job: str, edition: str) -> None:
    """Say that workers of this edition cannot take its parts."""
    connection.execute(_REFUSE, (edition, job, edition))


def standing_of(connection: Connection[Any], job: str) -> Standing:
    """How far a job is now."""
    wanted = {"job": job, "attempts": MAX_ATTEMPTS} | _OF_LOCKS
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_SELECT_STANDING.encode(), wanted).fetchone()
        given_up = cursor.execute(_SELECT_GIVEN_UP.encode(), wanted).fetchone()
    assert row is not None
    parts, done, taken, events, events_done, refused_by = row
    return Standing(
        parts=parts,
        parts_done=done,
        parts_taken=taken,
        events=events,
        events_done=events_done,
        given_up=GivenUp(*given_up) if given_up else None,
        refused_by=refused_by,
    )


def waiting_parts(connection: Connection[Any], limit: int) -> list[tuple[str, int]]:
    """(job, number) of parts that nobody has taken, those of the oldest job first."""
    wanted = {"limit": limit, "attempts": MAX_ATTEMPTS} | _OF_LOCKS
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(_SELECT_WAITING.encode(), wanted).fetchall()


def results_of(connection: Connection[Any], job: str) -> list[str]:
    """The results of the parts that are done, in the order of the parts."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return [result for _, result in cursor.execute(_SELECT_RESULTS, (job,))]


def pieces_of(connection: Connection[Any], job: str) -> list[str]:
    """What its parts are, in their order."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return [piece for (piece,) in cursor.execute(_SELECT_PIECES, (job,))]


def workers_and_relays(connection: Connection[Any]) -> tuple[int, int]:
    """How many worker processes live, and how many relays ring for them."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_SELECT_HOLDERS, _OF_LOCKS | {"relay": locks.RELAY}).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _of(part: JobPart, worker: int) -> dict[str, Any]:
    return {"job": part.job, "number": part.number, "attempt": part.attempt, "worker": worker}
