"""How the service is, in numbers: what waits, how far everybody has come, how large it is. Reads only, and no person.

Asked for metrics and for support: each question is small on a large log as well, and one that
cannot be answered in time is left out.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any, LiteralString

import msgspec
import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.log import locks
from eventstore.log.columns import SELECT_HEAD
from eventstore.log.intake_stop import intake_stop
from eventstore.proof.sealing import signed_size
from projections.unlogged.troubles import reported_troubles

FOLLOWING = ("relay", "ended imports")
"""Followers whose checkpoint is a row of `checkpoints`, by the names that they have there."""


class Lag(msgspec.Struct, frozen=True):
    """How far somebody is behind the log: events, and how old the first of them is."""

    events: int
    seconds: float


class Vitals(msgspec.Struct, kw_only=True):
    """What is left out could not be found out in time, or is not known here."""

    at: datetime | None = None
    """By the database's clock."""
    head: int | None = None
    is_intake_stopped: bool | None = None
    """True while each append is refused (`eventstore.log.intake_stop`)."""
    lags: dict[str, Lag] = {}
    """By follower: relay, projector (the slowest projection), sealer, ended imports."""
    projection_lags: dict[str, Lag] = {}
    imports: list[tuple[str, str, int]] = []
    """Supplier, state, number."""
    oldest_pending_s: float | None = None
    """Of those that could be processed now; 0 where none waits."""
    parked: dict[str, int] = {}
    """Streams that a projection leaves out, by its name."""
    troubles: dict[str, int] = {}
    """Processes in which work of this name fails at present."""
    holders: dict[str, int] = {}
    """Processes that hold a piece of work: relay, projector, workers."""
    waiting_mails: int | None = None
    log_lock_waiters: int | None = None
    log_lock_wait_s: float | None = None
    """Of the one that waits longest at this moment."""
    connections: int | None = None
    max_connections: int | None = None
    wal_bytes: int | None = None
    """Ever written."""
    kept_wal_bytes: int | None = None
    """For the replication slot that is furthest behind."""
    synchronous_standbys: int | None = None
    transaction_age: int | None = None
    database_bytes: int | None = None
    table_bytes: dict[str, int] = {}
    dead_rows: dict[str, int] = {}
    keys: int | None = None
    """Access keys in force."""
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
_LOCKS: LiteralString = """
SELECT count(*) FILTER (WHERE granted AND classid = 0 AND objsubid = 1 AND objid = %(relay)s),
       count(*) FILTER (WHERE granted AND classid = 0 AND objsubid = 1 AND objid = %(projector)s),
       count(*) FILTER (WHERE granted AND classid = %(workers)s AND objsubid = 2),
       count(*) FILTER (WHERE NOT granted AND classid = 0 AND objsubid = 1 AND objid = %(log)s),
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
_PARKED: LiteralString = """
SELECT name, count(stream) FILTER (WHERE accepted_at IS NULL)
FROM projection_versions LEFT JOIN parked_streams USING (name, version)
WHERE state = 'live' GROUP BY name
"""


def read_vitals(connection: Connection[Any], projections: tuple[str, ...], *, with_sizes: bool = True) -> Vitals:
    """The numbers of now. `projections` are those that follow the log. Raises OperationalError where it is away."""
    overview = Vitals()
    parts: list[Callable[[_Asking, Vitals], None]] = [_events, _imports, _locks, _server, _keys]
    if with_sizes:
        parts.append(_sizes)
    asking = _Asking(connection, projections)
    for part in parts:
        try:
            part(asking, overview)
        except (psycopg.errors.QueryCanceled, psycopg.errors.UndefinedTable, psycopg.errors.LockNotAvailable):
            continue
    return overview


class _Asking:
    """A connection in autocommit, and what is asked about."""

    def __init__(self, connection: Connection[Any], projections: tuple[str, ...]) -> None:
        self.connection = connection
        self.projections = projections

    def rows(self, query: LiteralString, **parameters: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(query, parameters or None).fetchall()


def _events(asking: _Asking, overview: Vitals) -> None:
    [(overview.at, overview.head)] = asking.rows(f"SELECT clock_timestamp(), head FROM ({SELECT_HEAD}) AS log")  # noqa: S608 - constants
    overview.is_intake_stopped = intake_stop(asking.connection) is not None
    names, signed = list(asking.projections), signed_size(asking.connection)
    rows = asking.rows(_LAGS, following=list(FOLLOWING), projections=names, signed=signed)
    for name, kind, events, seconds in rows:
        of = overview.lags if kind == "follower" else overview.projection_lags
        of[name] = Lag(events, max(0.0, seconds))
    behind = overview.projection_lags.values()
    overview.lags["projector"] = max(behind, key=lambda lag: (lag.seconds, lag.events), default=Lag(0, 0.0))


def _imports(asking: _Asking, overview: Vitals) -> None:
    overview.imports = asking.rows(
        "SELECT supplier, status, number FROM import_progress WHERE number > 0 ORDER BY 1, 2"
    )
    [(overview.oldest_pending_s,)] = asking.rows(_OLDEST_PENDING)
    overview.parked = {str(name): int(count) for name, count in asking.rows(_PARKED)}
    [(overview.waiting_mails,)] = asking.rows("SELECT count(*) FROM customer_mail WHERE status = 'REQUESTED'")


def _locks(asking: _Asking, overview: Vitals) -> None:
    numbers = {"relay": locks.RELAY, "projector": locks.PROJECTOR, "workers": locks.WORKERS, "log": locks.LOG}
    [(relay, projector, workers, waiters, wait_s)] = asking.rows(_LOCKS, **numbers)
    overview.holders = {"relay": relay, "projector": projector, "worker": workers}
    overview.troubles = dict(Counter(one.name for one in reported_troubles(asking.connection)))
    overview.log_lock_waiters, overview.log_lock_wait_s = waiters, max(0.0, wait_s)


def _server(asking: _Asking, overview: Vitals) -> None:
    [row] = asking.rows(_SERVER)
    overview.connections, overview.max_connections, overview.wal_bytes = row[:3]
    overview.kept_wal_bytes, overview.synchronous_standbys, overview.transaction_age = row[3:]


def _keys(asking: _Asking, overview: Vitals) -> None:
    [(overview.keys, overview.oldest_key_s)] = asking.rows(_KEYS)


def _sizes(asking: _Asking, overview: Vitals) -> None:
    [(overview.database_bytes,)] = asking.rows("SELECT pg_database_size(current_database())")
    overview.table_bytes = {str(name): int(size) for name, size in asking.rows(_SIZES)}
    overview.dead_rows = {str(name): int(count) for name, count in asking.rows(_DEAD)}
