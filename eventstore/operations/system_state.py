"""How the service is: who is connected, how far followers are, how large the database is and how it grows."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import class_row, tuple_row

from eventstore.log import locks
from eventstore.log.columns import SELECT_HEAD
from eventstore.log.intake_stop import IntakeStop, read_intake_stop


class ConnectedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the service with its connections: how many, and how many of them do something now."""

    name: str
    address: str
    connections: int
    active: int
    since: datetime


class Follower(msgspec.Struct, frozen=True):
    """Who follows the log, and how many events behind."""

    name: str
    lag: int


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a worker adds up."""

    supplier: str
    run: str
    asked_at: datetime
    accounts: int
    accounts_done: int


class SystemState(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, at one moment. `day_bytes` is by how much the log has grown in a day, with its payloads."""

    processes: list[ConnectedProcess]
    leaders: list[str]
    """Names of those single followers that are active somewhere."""
    stop: IntakeStop | None
    workers: int
    followers: list[Follower]
    jobs: list[RunningJob]
    head: int
    database_bytes: int
    day_events: int
    day_bytes: int
    postgres: str
    max_connections: int


_LEADERS = {
    locks.RELAY: "relay",
    locks.SEALER: "sealer",
    locks.PROJECTOR: "projector",
    locks.ENDED_IMPORTS: "ended imports",
    locks.OWNER_TASKS: "owner's tasks",
}
_SELECT_PROCESSES = """
SELECT application_name AS name, coalesce(host(client_addr), 'socket') AS address, count(*) AS connections,
       count(*) FILTER (WHERE state = 'active') AS active, min(backend_start) AS since
FROM pg_stat_activity
WHERE datname = current_database() AND usename IS NOT NULL AND backend_type = 'client backend'
GROUP BY 1, 2
ORDER BY 1, 2
"""
_SELECT_LOCKS = """
SELECT classid::bigint, objid::bigint, objsubid FROM pg_locks
WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_SELECT_FOLLOWERS = """
SELECT follower AS name, position FROM checkpoints
UNION ALL
SELECT name, position FROM projection_versions WHERE state = 'live' AND position > 0
UNION ALL
SELECT 'sealer', coalesce((SELECT size FROM log_checkpoints ORDER BY branch DESC, size DESC LIMIT 1), 0)
ORDER BY name
"""
_SELECT_JOBS = """
SELECT supplier, run, asked_at, accounts, accounts_done FROM reconciliations WHERE ended_at IS NULL ORDER BY asked_at
"""
_SELECT_SIZES = """
SELECT pg_database_size(current_database()), pg_total_relation_size('events') + pg_total_relation_size('payloads'),
       current_setting('server_version'), current_setting('max_connections')::integer
"""
_SELECT_BEFORE = "SELECT position_at(%s)"


async def system_state(connection: AsyncConnection[Any], at: datetime) -> SystemState:
    """How the service is now, in a few small queries whatever the log's length."""
    async with connection.cursor(row_factory=class_row(ConnectedProcess)) as cursor:
        processes = await (await cursor.execute(_SELECT_PROCESSES)).fetchall()
    async with connection.cursor(row_factory=class_row(RunningJob)) as cursor:
        jobs = await (await cursor.execute(_SELECT_JOBS)).fetchall()
    async with connection.cursor(row_factory=tuple_row) as cursor:
        held = await (await cursor.execute(_SELECT_LOCKS)).fetchall()
        [head] = await (await cursor.execute(SELECT_HEAD)).fetchone() or [0]
        followers = await (await cursor.execute(_SELECT_FOLLOWERS)).fetchall()
        size, of_log, postgres, most = await (await cursor.execute(_SELECT_SIZES)).fetchone() or (0, 0, "", 0)
        [before] = await (await cursor.execute(_SELECT_BEFORE, (at - timedelta(days=1),))).fetchone() or [0]
    day_events = max(0, head - before)
    single = {number for _, number, kind in held if kind == 1}
    return SystemState(
        processes=processes,
        stop=await read_intake_stop(connection),
        leaders=[name for number, name in _LEADERS.items() if number in single],
        workers=sum(1 for group, _, kind in held if kind == 2 and group == locks.WORKERS),
        followers=[Follower(name, max(0, head - position)) for name, position in followers],
        jobs=jobs,
        head=head,
        database_bytes=size,
        day_events=day_events,
        day_bytes=of_log * day_events // head if head else 0,
        postgres=postgres,
        max_connections=most,
    )
