"""State of the service in numbers: waiting work, lags, sizes, for metrics, `doctor`, support bundles and the console.

This module reads only, and no personal data. Each query is fast on a large log; if a query takes too long, its numbers
are missing.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any, LiteralString

import msgspec
import psycopg
from psycopg import Connection

from eventstore.log import locks
from eventstore.log.columns import SELECT_HEAD
from eventstore.log.intake_stop import intake_stop
from eventstore.log.rows import rows_of, structs_of
from eventstore.proof.sealing import signed_size
from projections.auxiliary.troubles import reported_troubles

FOLLOWING = ("relay", "ended imports")
"""Followers whose checkpoint is a row of the table `checkpoints`, by their names in this table."""


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A reconciliation that is not finished."""

    supplier: str
    run: str
    asked_at: datetime
    accounts: int
    accounts_done: int


class Lag(msgspec.Struct, frozen=True):
    """Lag of a follower: number of events, and the age of the first of these events."""

    events: int
    seconds: float


class Vitals(msgspec.Struct, kw_only=True):
    """Numbers of the service. Numbers that could not be read in time are missing."""

    at: datetime | None = None
    """Time of the database."""
    head: int | None = None
    is_intake_stopped: bool | None = None
    """True while each append is refused (`eventstore.log.intake_stop`)."""
    lags: dict[str, Lag] = {}
    """By follower: relay, projector (the slowest projection), sealer, ended imports."""
    projection_lags: dict[str, Lag] = {}
    imports: list[tuple[str, str, int]] = []
    """Supplier, state, number."""
    oldest_pending_s: float | None = None
    """Wait of the oldest import that could be processed now; 0 without such an import."""
    parked: dict[str, int] = {}
    """Parked streams by name of the projection."""
    troubles: dict[str, int] = {}
    """Processes in which work fails at present, by name of the work."""
    holders: dict[str, int] = {}
    """Number of processes by the work whose lock they hold: workers, and followers by their names."""
    workers: list[int] = []
    """Numbers of the workers that live, on all machines."""
    waiting_mails: int | None = None
    log_lock_waiters: int | None = None
    log_lock_wait_s: float | None = None
    """Longest present wait for the log's lock."""
    connections: int | None = None
    max_connections: int | None = None
    wal_bytes: int | None = None
    """Bytes of write-ahead log since the database was created."""
    kept_wal_bytes: int | None = None
    """Bytes of write-ahead log that the slowest replication slot still needs."""
    synchronous_standbys: int | None = None
    transaction_age: int | None = None
    """Age of the database's oldest transaction id that is not frozen, in transactions."""
    database_bytes: int | None = None
    table_bytes: dict[str, int] = {}
    dead_rows: dict[str, int] = {}
    day_events: int = 0
    day_bytes: int = 0
    """Estimated growth of events and payloads in 24 hours, in bytes: events of the day times the average size."""
    postgres: str = ""
    jobs: list[RunningJob] = []
    in_hand: list[tuple[int, int]] = []
    """(worker, imports in progress), the largest first."""
    keys: int | None = None
    """Valid access keys."""
    oldest_key_s: float | None = None


_LAGS: LiteralString = """
WITH head AS (SELECT coalesce(max(position), 0) AS head FROM events)
SELECT follower, kind, head - least(place, head),
       coalesce(extract(epoch FROM clock_timestamp()
           - (SELECT recorded_at FROM events WHERE position = place + 1)), 0)::float8
FROM head, (
    SELECT name AS follower, 'follower' AS kind, coalesce(position, 0) AS place
    FROM unnest(%(following)s::text[]) AS name LEFT JOIN checkpoints ON follower = name
    UNION ALL
    SELECT name, 'projection', position FROM projection_versions WHERE state = 'live' AND name = ANY(%(projections)s)
    UNION ALL
    SELECT 'sealer', 'follower', %(signed)s::bigint
) AS places
"""
_OLDEST_PENDING: LiteralString = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(since)), 0)::float8
FROM (
    SELECT greatest(i.modified_at, i.due_at) AS since
    FROM import_status AS i
    WHERE i.status = 'PENDING' AND (i.due_at IS NULL OR i.due_at < clock_timestamp())
      AND NOT EXISTS (SELECT FROM import_supplier AS s WHERE s.code = i.supplier AND s.status = 'paused')
    ORDER BY i.modified_at
    LIMIT 100
) AS oldest
"""
_LEADERS = {
    locks.RELAY: "relay",
    locks.PROJECTOR: "projector",
    locks.SEALER: "sealer",
    locks.ENDED_IMPORTS: "ended imports",
    locks.OWNER_TASKS: "owner's tasks",
}
_HOLDERS: LiteralString = """
SELECT DISTINCT objsubid = 2, objid::bigint
FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND granted
  AND ((objsubid = 1 AND classid = 0) OR (objsubid = 2 AND classid = %(workers)s))
"""
_LOCKS: LiteralString = """
SELECT count(*) FILTER (WHERE NOT granted AND classid = 0 AND objsubid = 1 AND objid = %(log)s),
       coalesce(extract(epoch FROM clock_timestamp() - min(waitstart)
           FILTER (WHERE NOT granted AND classid = 0 AND objsubid = 1 AND objid = %(log)s)), 0)::float8
FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_SERVER: LiteralString = """
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('max_connections')::integer,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,
       (SELECT coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)), 0)::bigint FROM pg_replication_slots),
       synchronous_standbys(),
       (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database())
"""
_SIZES: LiteralString = """
SELECT CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname END, sum(pg_total_relation_size(c.oid))::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
GROUP BY 1
"""
_DEAD: LiteralString = """
SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'public' AND n_dead_tup > 0
"""
_KEYS: LiteralString = """
SELECT count(*), extract(epoch FROM clock_timestamp() - min(created_at))::float8
FROM access_key WHERE revoked_at IS NULL
"""
_JOBS: LiteralString = """
SELECT supplier, run, asked_at, accounts, accounts_done FROM reconciliations WHERE ended_at IS NULL ORDER BY asked_at
"""
_GROWTH: LiteralString = """
SELECT position_at(clock_timestamp() - interval '1 day'),
       pg_total_relation_size('events') + pg_total_relation_size('payloads'), current_setting('server_version'),
       (SELECT coalesce(max(position), 0) FROM events)
"""
_IN_HAND: LiteralString = """
SELECT worker, count(*) AS number
FROM import_status
WHERE status = 'IN_PROGRESS' AND worker IS NOT NULL
GROUP BY worker
ORDER BY number DESC, worker
LIMIT 20
"""
_PARKED: LiteralString = """
SELECT name, count(stream) FILTER (WHERE accepted_at IS NULL)
FROM projection_versions LEFT JOIN parked_streams USING (name, version)
WHERE state = 'live' GROUP BY name
"""


def read_vitals(
    connection: Connection[Any], projections: tuple[str, ...], *, with_sizes: bool = True, with_work: bool = False
) -> Vitals:
    """Read the numbers.

    `projections` are the projections that follow the log. Raises OperationalError without a database.

    `with_work`: also the work in hand and the growth of the log.
    """
    overview, reader = Vitals(), _Reader(connection, projections)
    for name, part in PARTS.items():
        if (name == "sizes" and not with_sizes) or (name in ("growth", "work") and not with_work):
            continue
        try:
            part(reader, overview)
        except (psycopg.errors.QueryCanceled, psycopg.errors.UndefinedTable, psycopg.errors.LockNotAvailable):
            continue
    return overview


def read_part(connection: Connection[Any], projections: tuple[str, ...], name: str) -> Vitals:
    """Read a part of `PARTS`; fields of all other parts have their defaults.

    Raises psycopg.Error if the part cannot be read.
    """
    overview = Vitals()
    PARTS[name](_Reader(connection, projections), overview)
    return overview


class _Reader:
    """Reader of rows on a connection in autocommit.

    `projections` are the names of the projections whose lag is read.
    """

    def __init__(self, connection: Connection[Any], projections: tuple[str, ...]) -> None:
        self.connection = connection
        self.projections = projections

    def rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return rows_of(self.connection, query, **parameters)


def _events(reader: _Reader, overview: Vitals) -> None:
    [(overview.at, overview.head)] = reader.rows(f"SELECT clock_timestamp(), head FROM ({SELECT_HEAD}) AS log")  # noqa: S608 - constants
    overview.is_intake_stopped = intake_stop(reader.connection) is not None
    names, signed = list(reader.projections), signed_size(reader.connection)
    rows = reader.rows(_LAGS, following=list(FOLLOWING), projections=names, signed=signed)
    for name, kind, events, seconds in rows:
        lags = overview.lags if kind == "follower" else overview.projection_lags
        lags[name] = Lag(events, max(0.0, seconds))
    behind = overview.projection_lags.values()
    overview.lags["projector"] = max(behind, key=lambda lag: (lag.seconds, lag.events), default=Lag(0, 0.0))


def _imports(reader: _Reader, overview: Vitals) -> None:
    overview.imports = reader.rows(
        "SELECT supplier, status, number FROM import_progress WHERE number > 0 ORDER BY 1, 2"
    )
    [(overview.oldest_pending_s,)] = reader.rows(_OLDEST_PENDING)
    overview.parked = {str(name): int(count) for name, count in reader.rows(_PARKED)}
    [(overview.waiting_mails,)] = reader.rows("SELECT count(*) FROM customer_mail WHERE status = 'REQUESTED'")


def _locks(reader: _Reader, overview: Vitals) -> None:
    held_locks = set(reader.rows(_HOLDERS, workers=locks.WORKERS))
    overview.workers = sorted(number for is_worker, number in held_locks if is_worker)
    leaders = {name: int((False, number) in held_locks) for number, name in _LEADERS.items()}
    overview.holders = leaders | {"worker": len(overview.workers)}
    [(waiters, wait_s)] = reader.rows(_LOCKS, log=locks.LOG)
    overview.troubles = dict(Counter(trouble.name for trouble in reported_troubles(reader.connection)))
    overview.log_lock_waiters, overview.log_lock_wait_s = waiters, max(0.0, wait_s)


def _server(reader: _Reader, overview: Vitals) -> None:
    [row] = reader.rows(_SERVER)
    overview.connections, overview.max_connections, overview.wal_bytes = row[:3]
    overview.kept_wal_bytes, overview.synchronous_standbys, overview.transaction_age = row[3:]


def _keys(reader: _Reader, overview: Vitals) -> None:
    [(overview.keys, overview.oldest_key_s)] = reader.rows(_KEYS)


def _sizes(reader: _Reader, overview: Vitals) -> None:
    [(overview.database_bytes,)] = reader.rows("SELECT pg_database_size(current_database())")
    overview.table_bytes = {str(name): int(size) for name, size in reader.rows(_SIZES)}
    overview.dead_rows = {str(name): int(count) for name, count in reader.rows(_DEAD)}


def _growth(reader: _Reader, overview: Vitals) -> None:
    [(before, log_bytes, overview.postgres, head)] = reader.rows(_GROWTH)
    overview.day_events = max(0, head - before)
    overview.day_bytes = log_bytes * overview.day_events // head if head else 0


def _work(reader: _Reader, overview: Vitals) -> None:
    overview.jobs = structs_of(reader.connection, RunningJob, _JOBS)
    overview.in_hand = reader.rows(_IN_HAND)


PARTS: dict[str, Callable[[_Reader, Vitals], None]] = {
    "events": _events,
    "imports": _imports,
    "locks": _locks,
    "server": _server,
    "keys": _keys,
    "sizes": _sizes,
    "growth": _growth,
    "work": _work,
}
"""Readers of the numbers that are read together, by name, in their order."""
