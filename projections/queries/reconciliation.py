"""Reconciliation jobs, which compute the totals of a run. A worker fills the job's row, portion by portion.

The row has the totals so far and the sort key of the last account in them, so that another worker can continue after a
kill. Deleting the row cancels the job. All times are the database's.
"""

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection

from eventstore.log import locks
from eventstore.log.recorder import CODE_VERSION
from eventstore.log.rows import fetch_rows, fetch_struct, rows_of
from projections.platform.totals import Totals, account_totals
from projections.views.import_run import RunPlace, run_accounts
from projections.views.import_status import SELECT_IMPORTS_WAIT
from schemas.sentence import Sentence

LEASE = timedelta(minutes=2)
"""Longest time for one portion. Another worker takes the job over afterwards."""
PORTION = 500
"""Accounts per query."""
PORTION_TIMEOUT = "60s"
"""Time limit of a statement of a portion."""
MAX_ATTEMPTS = 5
"""Attempts without progress. The job fails after the last."""
MAX_OPEN = 3
"""Jobs of a supplier at a time. Another request is refused."""
UNASKED = timedelta(minutes=15)
"""A job without a request in this time is deleted."""
FRESH = timedelta(minutes=1)
"""Time in which a result can be read again if its run has no new events."""
QUIET_S = 10.0
"""Seconds without progress after which an answer contains the reason."""


class TooManyReconciliations(Exception):
    """The supplier already has the greatest number of jobs at a time."""


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """A job as requests read it. `totals` is JSON, and empty before the end."""

    job: str
    accounts: int
    accounts_done: int
    error: str
    has_ended: bool
    totals: str
    seconds: float
    """Time since the first request."""
    quiet_s: float
    """Time since the last progress."""

    @property
    def eta_s(self) -> float | None:
        """Estimated seconds until the end; None before the first portion."""
        return remaining_s(self.accounts_done, self.accounts, self.seconds)


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a worker: the totals of the accounts up to a sort key (`place`)."""

    supplier: str
    run: str
    job: str
    accounts_done: int
    totals: Totals
    place: RunPlace


def remaining_s(done: int, total: int, seconds: float) -> float | None:
    """Return the seconds for the rest at the same rate; None if nothing is done yet. Pure."""
    if done >= total:
        return 0.0
    return round((total - done) * seconds / done, 1) if done > 0 and seconds > 0 else None


_IS_TAKEN = """(r.worker <> 0 AND r.lease_until > clock_timestamp() AND EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND classid = %(lock_class)s::bigint::oid AND objid::bigint = r.worker AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))"""
_OF_LOCKS = {"lock_class": locks.WORKERS}
_IS_USABLE = """(ended_at IS NULL OR (ended_at > clock_timestamp() - %(fresh)s
    AND (delivered_at IS NULL OR reached = %(reached)s)))"""
_COLUMNS = """job, accounts, accounts_done, error, ended_at IS NOT NULL AS has_ended,
    CASE WHEN ended_at IS NULL THEN '' ELSE totals END AS totals,
    extract(epoch FROM clock_timestamp() - asked_at)::float8 AS seconds,
    extract(epoch FROM clock_timestamp() - worked_at)::float8 AS quiet_s"""
_SELECT_REQUESTED = f"""
UPDATE reconciliations
SET requested_at = clock_timestamp()
WHERE supplier = %(supplier)s AND run = %(run)s AND {_IS_USABLE}
RETURNING {_COLUMNS}
"""  # noqa: S608 - constants
_CANCEL = f"DELETE FROM reconciliations WHERE supplier = %s AND run = %s RETURNING {_COLUMNS}"  # noqa: S608 - constants
_DELETE_UNUSABLE = f"""
DELETE FROM reconciliations WHERE supplier = %(supplier)s AND run = %(run)s AND NOT {_IS_USABLE}
"""  # noqa: S608 - constants
_INSERT = """
INSERT INTO reconciliations (supplier, run, job, reached, accounts)
SELECT %(supplier)s, %(run)s, %(job)s, %(reached)s, %(accounts)s
WHERE (SELECT count(*) FROM reconciliations WHERE supplier = %(supplier)s AND ended_at IS NULL) < %(most)s
ON CONFLICT DO NOTHING
"""
_SELECT_HOLDERS = """
SELECT count(*) FILTER (WHERE classid::bigint = %(lock_class)s AND objsubid = 2),
       count(*) FILTER (WHERE classid = 0 AND objid::bigint = %(relay)s AND objsubid = 1)
FROM pg_locks
WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def request(
    connection: AsyncConnection[Any], supplier: str, run: str, *, reached: int, accounts: int
) -> Reconciliation:
    """Return the run's job, or a new one. Raises TooManyReconciliations.

    `reached` is the position of the run's last event, `accounts` the approximate number of accounts. A result is
    returned once, and again for a minute if the position is the same.
    """
    wanted: Mapping[str, Any] = {
        "supplier": supplier, "run": run, "job": secrets.token_hex(8), "reached": reached, "accounts": accounts,
        "fresh": FRESH, "most": MAX_OPEN,
    }  # fmt: skip
    for _ in range(2):
        if (job := await fetch_struct(connection, Reconciliation, _SELECT_REQUESTED, **wanted)) is not None:
            return job
        await connection.execute(_DELETE_UNUSABLE.encode(), wanted)
        await connection.execute(_INSERT, wanted)
    job = await fetch_struct(connection, Reconciliation, _SELECT_REQUESTED, **wanted)
    if job is None:
        raise TooManyReconciliations
    return job


async def note_delivery(connection: AsyncConnection[Any], job: str) -> None:
    """Record that the result was sent."""
    await connection.execute("UPDATE reconciliations SET delivered_at = clock_timestamp() WHERE job = %s", (job,))


async def cancel(connection: AsyncConnection[Any], supplier: str, run: str) -> Reconciliation | None:
    """Delete the run's job and its result; return the deleted job."""
    return await fetch_struct(connection, Reconciliation, _CANCEL, supplier, run)


async def why_quiet(connection: AsyncConnection[Any]) -> Sentence | None:
    """Return why no job makes progress, if the database shows the reason."""
    [(workers, relays)] = await fetch_rows(connection, _SELECT_HOLDERS, **_OF_LOCKS, relay=locks.RELAY)
    [(imports_wait,)] = await fetch_rows(connection, SELECT_IMPORTS_WAIT)
    if not workers:
        return _NO_WORKER
    if not relays:
        return _NO_RELAY
    return _IMPORTS_WAIT if imports_wait else None


_NO_WORKER = Sentence(
    "No worker process runs. Start one: `importledger worker`.",
    "Es läuft kein Worker-Prozess. Bitte einen starten: `importledger worker`.",
)
_NO_RELAY = Sentence(
    "No relay runs, which sends messages to the workers. Start one: `importledger relay`.",
    "Es läuft kein Relay, das den Workern Nachrichten sendet. Bitte eines starten: `importledger relay`.",
)
_IMPORTS_WAIT = Sentence("Imports are waiting. They have priority.", "Importe warten. Sie haben Vorrang.")

_DELETE_UNASKED = "DELETE FROM reconciliations WHERE requested_at < clock_timestamp() - %s"
_END_FAILED = f"""
UPDATE reconciliations AS r
SET ended_at = clock_timestamp(), error = CASE error WHEN '' THEN 'each worker that took it has died' ELSE error END
WHERE ended_at IS NULL AND attempt >= %(attempts)s AND NOT {_IS_TAKEN}
"""  # noqa: S608 - constants
_SELECT_WAITING = f"""
SELECT job FROM reconciliations AS r WHERE ended_at IS NULL AND NOT {_IS_TAKEN} ORDER BY worked_at
"""  # noqa: S608 - constants
_SELECT_OTHER = f"""
SELECT FROM reconciliations AS r WHERE job <> %(job)s AND ended_at IS NULL AND NOT {_IS_TAKEN} LIMIT 1
"""
_TAKE = f"""
UPDATE reconciliations AS r
SET worker = %(worker)s, attempt = attempt + 1, lease_until = clock_timestamp() + %(lease)s
WHERE job = %(job)s AND ended_at IS NULL AND NOT {_IS_TAKEN}
RETURNING supplier, run, accounts_done, totals, after_place, code_version
"""  # noqa: S608 - constants
_OF_MINE = "WHERE job = %(job)s AND worker = %(worker)s AND ended_at IS NULL"
_SAVE = f"""
UPDATE reconciliations
SET accounts_done = %(done)s, totals = %(totals)s, after_place = %(place)s, code_version = %(code_version)s,
    attempt = 0, error = '', lease_until = clock_timestamp() + %(lease)s, worked_at = clock_timestamp(),
    ended_at = CASE WHEN %(has_ended)s THEN clock_timestamp() END
{_OF_MINE}
"""  # noqa: S608 - constants
_GIVE_BACK = f"UPDATE reconciliations SET worker = 0, error = %(error)s {_OF_MINE}"  # noqa: S608 - constants


def waiting_jobs(connection: Connection[Any]) -> list[str]:
    """Return the jobs that a worker may take. Jobs without requests are deleted, and failed jobs are ended before."""
    connection.execute(_DELETE_UNASKED, (UNASKED,))
    connection.execute(_END_FAILED.encode(), _OF_LOCKS | {"attempts": MAX_ATTEMPTS})
    return [str(job) for (job,) in rows_of(connection, _SELECT_WAITING, **_OF_LOCKS)]


def other_waits(connection: Connection[Any], job: str) -> bool:
    """Return whether a worker may take another job."""
    return connection.execute(_SELECT_OTHER.encode(), _OF_LOCKS | {"job": job}).fetchone() is not None


def take(connection: Connection[Any], job: str, worker: int) -> Sum | None:
    """Take a job, with the totals so far; None if it cannot be taken. Totals of another release are computed again."""
    wanted = _OF_LOCKS | {"job": job, "worker": worker, "lease": LEASE}
    rows = rows_of(connection, _TAKE, **wanted)
    if not rows:
        return None
    [(supplier, run, done, totals, place, code_version)] = rows
    if code_version != CODE_VERSION:
        return Sum(supplier=supplier, run=run, job=job, accounts_done=0, totals=Totals(), place=(-1, ""))
    return Sum(
        supplier=supplier,
        run=run,
        job=job,
        accounts_done=done,
        totals=msgspec.json.decode(totals, type=Totals),
        place=msgspec.json.decode(place, type=RunPlace),
    )


def add_portion(connection: Connection[Any], before: Sum, worker: int) -> Sum | None:
    """Add the next portion and save the totals; None after the last, or if the worker lost the job."""
    with connection.transaction():
        connection.execute(f"SET LOCAL statement_timeout = '{PORTION_TIMEOUT}'")
        portion, count, place = run_portion(connection, before.supplier, before.run, before.place)
        after = msgspec.structs.replace(
            before,
            accounts_done=before.accounts_done + count,
            totals=before.totals.merge(portion),
            place=place or before.place,
        )
        saved = {
            "job": before.job, "worker": worker, "lease": LEASE, "done": after.accounts_done,
            "totals": msgspec.json.encode(after.totals).decode(), "place": msgspec.json.encode(after.place).decode(),
            "code_version": CODE_VERSION, "has_ended": place is None,
        }  # fmt: skip
        is_mine = connection.execute(_SAVE.encode(), saved).rowcount == 1
    return after if is_mine and place is not None else None


def run_portion(
    connection: Connection[Any], supplier: str, run: str, after: RunPlace
) -> tuple[Totals, int, RunPlace | None]:
    """Return the totals of the next accounts of a run, their number, and the sort key of the last; None at the end."""
    count, accounts, end = run_accounts(connection, supplier, run, after, PORTION)
    return account_totals(connection, accounts) if accounts else Totals(), count, end


def leave_to_others(connection: Connection[Any], job: str, worker: int, error: str = "") -> None:
    """Release the job for another worker. Callers read the error if all attempts fail."""
    connection.execute(_GIVE_BACK.encode(), {"job": job, "worker": worker, "error": error[:1000]})
