"""Reconciliation jobs, which compute the totals of a run. A worker fills the job's row, portion by portion.

The row has the totals of the accounts that were added up, and the sort key of the last of these accounts. After a kill,
another worker can continue. Deleting the row cancels the job. All times are the database's.
"""

import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import reduce
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection

from eventstore.log import locks
from eventstore.log.recorder import CODE_VERSION
from eventstore.log.rows import fetch_rows, fetch_struct, rows_of
from projections.platform.totals import Totals, account_totals
from projections.views.import_run import RunSortKey, run_accounts
from projections.views.import_status import SELECT_IMPORTS_WAIT
from schemas.sentence import Sentence

LEASE = timedelta(minutes=2)
"""Longest time for one portion. After this time, another worker may claim the job."""
PORTION = 2_500
"""Accounts per query."""
PORTION_TIMEOUT = "60s"
"""Time limit of a statement of a portion."""
MAX_ATTEMPTS = 5
"""Attempts without progress. After the last attempt, the job fails."""
MAX_OPEN = 3
"""Jobs of a supplier at the same time. Requests for further jobs are refused."""
ABANDONED_AFTER = timedelta(minutes=15)
"""Time without a request after which a job is deleted."""
FRESH = timedelta(minutes=1)
"""Time in which a result can be read again if its run has no new events."""
QUIET_S = 10.0
"""Seconds without progress after which an answer contains the reason."""


class TooManyReconciliations(Exception):
    """The supplier already has MAX_OPEN jobs."""


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """A job for requests. `totals` is JSON, and empty before the end of the job."""

    job: str
    reached: int
    """Position of the run's last event when the job was requested."""
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
    """A job for its worker, with the totals of the accounts up to `sort_key`."""

    supplier: str
    run: str
    job: str
    accounts_done: int
    totals: Totals
    sort_key: RunSortKey


def remaining_s(done: int, total: int, seconds: float) -> float | None:
    """Return the seconds for the remaining accounts at the same rate; None if no account is done. Pure."""
    if done >= total:
        return 0.0
    return round((total - done) * seconds / done, 1) if done > 0 and seconds > 0 else None


_IS_CLAIMED = """(r.worker <> 0 AND r.lease_until > clock_timestamp() AND EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND classid = %(lock_class)s::bigint::oid AND objid::bigint = r.worker AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))"""
_OF_LOCKS = {"lock_class": locks.WORKERS}
_IS_USABLE = """(ended_at IS NULL OR (ended_at > clock_timestamp() - %(fresh)s
    AND (delivered_at IS NULL OR reached = %(reached)s)))"""
_COLUMNS = """job, reached, accounts, accounts_done, error, ended_at IS NOT NULL AS has_ended,
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
    returned for a minute, but not again after the run has new events.
    """
    parameters: Mapping[str, Any] = {
        "supplier": supplier, "run": run, "job": secrets.token_hex(8), "reached": reached, "accounts": accounts,
        "fresh": FRESH, "most": MAX_OPEN,
    }  # fmt: skip
    for _ in range(2):
        if (job := await fetch_struct(connection, Reconciliation, _SELECT_REQUESTED, **parameters)) is not None:
            return job
        await connection.execute(_DELETE_UNUSABLE.encode(), parameters)
        await connection.execute(_INSERT, parameters)
    job = await fetch_struct(connection, Reconciliation, _SELECT_REQUESTED, **parameters)
    if job is None:
        raise TooManyReconciliations
    return job


async def note_delivery(connection: AsyncConnection[Any], job: str) -> None:
    """Record that the result was sent."""
    await connection.execute("UPDATE reconciliations SET delivered_at = clock_timestamp() WHERE job = %s", (job,))


async def cancel(connection: AsyncConnection[Any], supplier: str, run: str) -> Reconciliation | None:
    """Delete the run's job and its result; return the deleted job."""
    return await fetch_struct(connection, Reconciliation, _CANCEL, supplier, run)


async def reason_no_progress(connection: AsyncConnection[Any]) -> Sentence | None:
    """Return the reason why jobs make no progress; None if the database does not show a reason."""
    [(workers, relays)] = await fetch_rows(connection, _SELECT_HOLDERS, **_OF_LOCKS, relay=locks.RELAY)
    [(imports_wait,)] = await fetch_rows(connection, SELECT_IMPORTS_WAIT)
    if not workers:
        return _NO_WORKER
    if not relays:
        return _NO_RELAY
    return _IMPORTS_WAIT if imports_wait else None


_NO_WORKER = Sentence(
    "No worker process runs. Start one: `importledger worker`.",
    "Es läuft kein Worker-Prozess. Starten Sie einen: `importledger worker`.",
)
_NO_RELAY = Sentence(
    "No relay runs, which sends messages to the workers. Start one: `importledger relay`.",
    "Es läuft kein Relay, das den Workern Nachrichten sendet. Starten Sie eines: `importledger relay`.",
)
_IMPORTS_WAIT = Sentence("Imports are waiting. They have priority.", "Importe warten. Sie haben Vorrang.")

_DELETE_ABANDONED = "DELETE FROM reconciliations WHERE requested_at < clock_timestamp() - %s"
_END_FAILED = f"""
UPDATE reconciliations AS r
SET ended_at = clock_timestamp(),
    error = coalesce(nullif(error, ''), 'every worker that ran the job has stopped before its end')
WHERE ended_at IS NULL AND attempt >= %(attempts)s AND NOT {_IS_CLAIMED}
"""  # noqa: S608 - constants
_SELECT_WAITING = f"""
SELECT job FROM reconciliations AS r WHERE ended_at IS NULL AND NOT {_IS_CLAIMED} ORDER BY worked_at
"""  # noqa: S608 - constants
_SELECT_OTHER = f"""
SELECT FROM reconciliations AS r WHERE job <> %(job)s AND ended_at IS NULL AND NOT {_IS_CLAIMED} LIMIT 1
"""
_CLAIM = f"""
UPDATE reconciliations AS r
SET worker = %(worker)s, attempt = attempt + 1, lease_until = clock_timestamp() + %(lease)s
WHERE job = %(job)s AND ended_at IS NULL AND NOT {_IS_CLAIMED}
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
_RELEASE = f"UPDATE reconciliations SET worker = 0, error = %(error)s {_OF_MINE}"  # noqa: S608 - constants


def waiting_jobs(connection: Connection[Any]) -> list[str]:
    """Delete abandoned jobs, end jobs after MAX_ATTEMPTS with an error, and return the jobs that no worker runs, in the
    order of their last work.
    """
    connection.execute(_DELETE_ABANDONED, (ABANDONED_AFTER,))
    connection.execute(_END_FAILED.encode(), _OF_LOCKS | {"attempts": MAX_ATTEMPTS})
    return [str(job) for (job,) in rows_of(connection, _SELECT_WAITING, **_OF_LOCKS)]


def has_other_waiting(connection: Connection[Any], job: str) -> bool:
    """Return whether another job than this one waits for a worker."""
    return connection.execute(_SELECT_OTHER.encode(), _OF_LOCKS | {"job": job}).fetchone() is not None


def claim(connection: Connection[Any], job: str, worker: int) -> Sum | None:
    """Claim a job for a worker, and return it with its totals so far; None if it has ended or another worker has it.

    If another release has computed the totals, they are dropped and the job starts again.
    """
    parameters = _OF_LOCKS | {"job": job, "worker": worker, "lease": LEASE}
    rows = rows_of(connection, _CLAIM, **parameters)
    if not rows:
        return None
    [(supplier, run, done, totals, sort_key, code_version)] = rows
    if code_version != CODE_VERSION:
        return Sum(supplier=supplier, run=run, job=job, accounts_done=0, totals=Totals(), sort_key=(-1, ""))
    return Sum(
        supplier=supplier,
        run=run,
        job=job,
        accounts_done=done,
        totals=msgspec.json.decode(totals, type=Totals),
        sort_key=msgspec.json.decode(sort_key, type=RunSortKey),
    )


def add_portion(connection: Connection[Any], before: Sum, worker: int, *helpers: Connection[Any]) -> Sum | None:
    """Add the next portion and save the totals.

    Return None after the last portion, or if the worker has lost the job. Helpers are further connections, each of
    which reads a part of the accounts at the same time.
    """
    with connection.transaction():
        connection.execute(f"SET LOCAL statement_timeout = '{PORTION_TIMEOUT}'")
        portion, count, sort_key = run_portion(connection, before.supplier, before.run, before.sort_key, *helpers)
        after = msgspec.structs.replace(
            before,
            accounts_done=before.accounts_done + count,
            totals=before.totals.merge(portion),
            sort_key=sort_key or before.sort_key,
        )
        saved = {
            "job": before.job, "worker": worker, "lease": LEASE, "done": after.accounts_done,
            "totals": msgspec.json.encode(after.totals).decode(), "place": msgspec.json.encode(after.sort_key).decode(),
            "code_version": CODE_VERSION, "has_ended": sort_key is None,
        }  # fmt: skip
        is_mine = connection.execute(_SAVE.encode(), saved).rowcount == 1
    return after if is_mine and sort_key is not None else None


def run_portion(
    connection: Connection[Any], supplier: str, run: str, after: RunSortKey, *helpers: Connection[Any]
) -> tuple[Totals, int, RunSortKey | None]:
    """Return the totals and number of the next accounts of a run, and the sort key of the last account; None at the
    end.
    """
    count, accounts, end = run_accounts(connection, supplier, run, after, PORTION)
    connections = (connection, *helpers)
    with ThreadPoolExecutor(len(connections)) as threads:
        parts = [accounts[index :: len(connections)] for index in range(len(connections))]
        totals = [*threads.map(account_totals, connections, parts)]
    return reduce(Totals.merge, totals), count, end


def release(connection: Connection[Any], job: str, worker: int, error: str = "") -> None:
    """Release a claimed job for other workers. The error is the job's result if no later attempt succeeds."""
    connection.execute(_RELEASE.encode(), {"job": job, "worker": worker, "error": error[:1000]})
