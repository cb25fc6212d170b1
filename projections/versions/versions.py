"""Versions of each projection: one version is live, other versions are being built, ready, or retired.

A version that is not live has its tables in the schema NAME_vN. A switch moves tables between schemas in one
transaction: readers see the old tables until it commits. A killed build or switch does not change the live version.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec
import psycopg
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.clock import now
from eventstore.errors import OperatorError
from eventstore.log import locks
from eventstore.log.columns import log_head
from eventstore.log.rows import rows_of, structs_of, value_of
from projections.versions.build import Progress, apply_events, build, make_tables
from projections.versions.projection import Projection
from projections.versions.reading import Poison, wait_for_erasures

RETENTION = timedelta(days=7)
"""Time for which a retired version is kept and can become live again. After this time, it is deleted."""
CATCH_UP_EVENTS = 5_000
"""Events that catching up applies in one transaction. Erasures wait for the end of this transaction."""
CLOSE = 500
"""Greatest lag of a version that can become live, and most events that a switch applies while writers wait."""
SWITCH_TRIES = 40
"""Tries of a switch. After these tries, NotPossible is raised."""
VACUUM_TIMEOUT = "10s"
"""Longest wait of a switch for a vacuum. Readers and writers do not wait meanwhile."""


_LOCK_TRIES = 3
_NOT_SET_UP = "{} is not set up. Run `importledger migrate`."


class NotPossible(OperatorError):
    """The projection cannot be built or switched; the message is the reason."""


class ProjectionVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `projection_versions`."""

    name: str
    version: int
    state: str
    position: int
    definition: str
    built_at: datetime
    retired_at: datetime | None
    verified_at: datetime | None
    differences: int | None

    @property
    def schema(self) -> str:
        return schema_of(self.name, self.version)

    def is_outdated(self, projection: Projection) -> bool:
        """Return whether another release has declared the projection differently.

        Such a version does not follow the log.
        """
        return self.definition != projection.definition


def schema_of(name: str, version: int) -> str:
    return f"{name}_v{version}"


_SELECT = SQL("SELECT {} FROM projection_versions ").format(
    SQL(", ").join(map(Identifier, ProjectionVersion.__struct_fields__))
)
_SELECT_VERSIONS = _SELECT + SQL("WHERE name = %s ORDER BY version")
_LOCK_LIVE = _SELECT + SQL("WHERE name = %s AND state = 'live' FOR UPDATE")


def versions(connection: Connection[Any], name: str) -> list[ProjectionVersion]:
    """Return the versions of a projection, the oldest version first."""
    return structs_of(connection, ProjectionVersion, _SELECT_VERSIONS, name)


def live_version(connection: Connection[Any], name: str) -> ProjectionVersion:
    """Return the live version of a projection. Raises NotPossible if `migrate` has not installed it."""
    if (live := _live(connection, name)) is None:
        raise NotPossible(_NOT_SET_UP.format(name))
    return live


def _live(connection: Connection[Any], name: str) -> ProjectionVersion | None:
    return next((version for version in versions(connection, name) if version.state == "live"), None)


def lock_live_version(connection: Connection[Any], name: str) -> ProjectionVersion:
    """Return the live version, and lock its row until the transaction ends: followers, switches and healing wait.

    Raises NotPossible if `migrate` has not installed the projection.
    """
    for _ in range(_LOCK_TRIES):  # no row if another version became live meanwhile
        for live in structs_of(connection, ProjectionVersion, _LOCK_LIVE, name):
            return live
    raise NotPossible(_NOT_SET_UP.format(name))


def add_version(connection: Connection[Any], projection: Projection, version: int, state: str, position: int) -> None:
    connection.execute(
        "INSERT INTO projection_versions (name, version, state, position, definition) VALUES (%s, %s, %s, %s, %s)",
        (projection.name, version, state, position, projection.definition),
    )


@contextmanager
def version_lock(connection: Connection[Any], projection: Projection, *, waits: bool = False) -> Iterator[None]:
    """Hold the projection's lock, so that no other process builds or switches it.

    Raises NotPossible if another process holds the lock; with `waits`, waits for the lock instead.
    """
    key = locks.VERSIONS, projection.name
    if waits:
        connection.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", key)
    else:
        if not value_of(connection, "SELECT pg_try_advisory_lock(%s, hashtext(%s))", *key):
            raise NotPossible(f"{projection.name} is being built or switched by another process.")
    try:
        yield
    finally:
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.INERROR:
            connection.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", (locks.VERSIONS, projection.name))


def build_version(
    admin_url: str,
    connection: Connection[Any],
    projection: Projection,
    *,
    jobs: int = 1,
    progress: Progress = lambda done: None,
) -> ProjectionVersion:
    """Build a new version beside the live one, up to nearly the log's end.

    The caller must hold `version_lock`. After the build, the version is `ready`. A cancelled build removes its tables;
    the next build removes the tables of a killed build.
    """
    drop_versions(connection, projection, unfinished=True)
    name, upto = projection.name, log_head(connection)
    version = max((present.version for present in versions(connection, name)), default=0) + 1
    schema = schema_of(name, version)
    add_version(connection, projection, version, "building", upto)
    try:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        make_tables(connection, projection, schema)
        poisons = build(admin_url, connection, projection, schema, upto=upto, jobs=jobs, progress=progress)
        park(connection, name, version, poisons)
        catch_up(connection, projection, version)
        connection.execute(_READY, (name, version))
    except BaseException:
        drop_version(connection, projection, version)
        raise
    return _version(connection, name, version)


_READY = "UPDATE projection_versions SET state = 'ready', built_at = clock_timestamp() WHERE name = %s AND version = %s"


def _version(connection: Connection[Any], name: str, version: int) -> ProjectionVersion:
    """Return the version with this number. Raises NotPossible."""
    for present in versions(connection, name):
        if present.version == version:
            return present
    raise NotPossible(f"{name} has no version {version} that could be switched in.")


def rebuild(admin_url: str, connection: Connection[Any], projection: Projection, *, jobs: int = 1) -> None:
    """Build a new version, switch to it, and drop the old version."""
    with version_lock(connection, projection):
        built = build_version(admin_url, connection, projection, jobs=jobs)
        switch(connection, projection, built.version, retires=False)


def catch_up(connection: Connection[Any], projection: Projection, version: int) -> int:
    """Apply events to a version that is not live until it is less than CLOSE events behind; return its position."""
    present = _version(connection, projection.name, version)
    position = present.position
    while True:
        end = log_head(connection)
        reached = min(end, position + CATCH_UP_EVENTS)
        with connection.transaction():
            advance(connection, projection, present.schema, version, after=position, upto=reached)
        if reached == end and reached - position < CLOSE:
            return reached
        position = reached


def advance(
    connection: Connection[Any], projection: Projection, schema: str, version: int, *, after: int, upto: int
) -> None:
    """Apply the events after one position and up to another to a version's tables, and store the position."""
    if projection.holds_persons:
        wait_for_erasures(connection)
    left = parked_streams(connection, projection.name, version)
    poisons = apply_events(connection, projection, schema, after=after, upto=upto, parked=left)
    park(connection, projection.name, version, poisons)
    connection.execute(
        "UPDATE projection_versions SET position = %s WHERE name = %s AND version = %s",
        (upto, projection.name, version),
    )


def switch(
    connection: Connection[Any],
    projection: Projection,
    version: int,
    *,
    retires: bool = True,
    tries: Callable[[int], None] = lambda number: None,
) -> int:
    """Replace the live version, if any, with a ready or retired version; return its position.

    The caller must hold `version_lock`. A switch is one transaction, in which writers wait while at most `CLOSE` events
    are applied. If writers would wait too long, the switch rolls back and tries again; `tries` is called with the
    number of failed tries. Raises NotPossible.
    """
    chosen = _version(connection, projection.name, version)
    if chosen.state not in ("ready", "retired"):
        raise NotPossible(f"{projection.name} has no version {version} that could be switched in.")
    if chosen.retired_at is not None and now() - chosen.retired_at > RETENTION:
        raise NotPossible(f"Version {version} of {projection.name} was retired more than {RETENTION.days} days ago.")
    if projection.definition != chosen.definition:
        raise NotPossible(f"Version {version} of {projection.name} was built by other code. Rebuild it.")
    for number in range(SWITCH_TRIES):
        position = catch_up(connection, projection, version)
        try:
            with connection.transaction():
                return _switch(connection, projection, chosen, position, retires=retires)
        except _RETRIED_ERRORS:
            tries(number + 1)
    raise NotPossible(f"{projection.name} is read or vacuumed all the time: the switch was tried {SWITCH_TRIES} times.")


def switch_if_needed(connection: Connection[Any], projection: Projection, version: int) -> dict[str, Any]:
    """Switch to a version unless it is live, and drop versions that were retired too long ago.

    Returns members of a JSON answer: `version`, `is_changed` and, after a switch, `position` and `former` version.
    """
    former = live_version(connection, projection.name)
    if former.version == version:
        return {"version": version, "is_changed": False}
    position = switch(connection, projection, version)
    drop_versions(connection, projection, unfinished=False)
    return {"version": version, "is_changed": True, "position": position, "former": former.version}


class _Behind(Exception):
    """Too many events were appended while the switch waited for its locks."""


_RETRIED_ERRORS = (
    _Behind,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
    psycopg.errors.DeadlockDetected,
)


def _switch(
    connection: Connection[Any], projection: Projection, chosen: ProjectionVersion, position: int, *, retires: bool
) -> int:
    """Switch in one transaction. Locks the tables before the log, in the same order as writers do.

    The live version may lack tables that are declared now. Tables without a version are dropped.
    """
    name = projection.name
    present = _present(connection, projection.home, projection.tables)
    connection.execute(f"SET LOCAL lock_timeout = '{VACUUM_TIMEOUT}'")
    live = lock_live_version(connection, name) if _live(connection, name) else None
    wait_for_erasures(connection)  # an erasure erases from the versions and tables that it has found
    # This lock conflicts only with vacuums: without it, a long vacuum would outlast every try.
    for schema, tables in ((projection.home, present), (chosen.schema, projection.tables)):
        for table in tables:
            locking = SQL("LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE")
            connection.execute(locking.format(Identifier(schema, table)))
    meanwhile = log_head(connection)
    advance(connection, projection, chosen.schema, chosen.version, after=position, upto=meanwhile)
    connection.execute(SQL("SET LOCAL lock_timeout = {}").format(locks.WAIT_MS))
    if projection.home == "platform":
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM,))
    if present:  # one statement for all tables, so that they share its time-out
        connection.execute(SQL("SET LOCAL statement_timeout = {}").format(locks.WAIT_MS))
        names = SQL(", ").join(Identifier(projection.home, table) for table in present)
        connection.execute(SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names))
        connection.execute("SET LOCAL statement_timeout = 0")
    if projection.is_inline and projection.home == "public":
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,))
    reached = log_head(connection)
    if reached - meanwhile > CLOSE:
        raise _Behind
    advance(connection, projection, chosen.schema, chosen.version, after=meanwhile, upto=reached)
    _move_tables(connection, projection, chosen, present, retired=live.schema if live and retires else None)
    if live:
        at = reached if projection.is_inline else live.position
        connection.execute(
            "UPDATE projection_versions SET state = 'retired', retired_at = %s, position = %s"
            " WHERE name = %s AND version = %s",
            (now(), at, name, live.version),
        )
    connection.execute(
        "UPDATE projection_versions SET state = 'live', retired_at = NULL WHERE name = %s AND version = %s",
        (name, chosen.version),
    )
    if not retires and live:
        _forget(connection, projection, live.version)
    return reached


def _move_tables(
    connection: Connection[Any],
    projection: Projection,
    chosen: ProjectionVersion,
    present: Sequence[str],
    *,
    retired: str | None,
) -> None:
    """Replace the live tables by the tables of a version. The old tables are moved to a schema or dropped."""
    if retired:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(retired)))
    rights = {table: _rights(connection, projection.home, table) for table in present}
    for table in present:
        if retired:
            move = SQL("ALTER TABLE {} SET SCHEMA {}")
            connection.execute(move.format(Identifier(projection.home, table), Identifier(retired)))
        else:
            connection.execute(SQL("DROP TABLE {}").format(Identifier(projection.home, table)))
    for table in projection.tables:
        move = SQL("ALTER TABLE {} SET SCHEMA {}")
        connection.execute(move.format(Identifier(chosen.schema, table), Identifier(projection.home)))
        vacuuming = SQL("ALTER TABLE {} RESET (autovacuum_enabled)")
        connection.execute(vacuuming.format(Identifier(projection.home, table)))
        grant(connection, projection.home, table, rights.get(table, ()))
    connection.execute(SQL("DROP SCHEMA {}").format(Identifier(chosen.schema)))


def drop_versions(connection: Connection[Any], projection: Projection, *, unfinished: bool) -> None:
    """Drop unfinished builds and versions that were retired too long ago. The caller must hold `version_lock`."""
    for version in versions(connection, projection.name):
        is_old = (
            version.retired_at is not None and now() - version.retired_at > RETENTION and version.state == "retired"
        )
        if is_old or (unfinished and version.state == "building"):
            drop_version(connection, projection, version.version)


def drop_version(connection: Connection[Any], projection: Projection, version: int) -> None:
    if connection.closed:
        return
    with connection.transaction():
        wait_for_erasures(connection)  # an erasure erases from the tables that it has found
        schema = Identifier(schema_of(projection.name, version))
        connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))
        _forget(connection, projection, version)


def park(connection: Connection[Any], name: str, version: int, poisons: Sequence[Poison]) -> None:
    """Record the streams that a version skips, each from the position of its poisoned event on.

    A stream that was accepted for another version of the projection stays accepted.
    """
    with connection.cursor() as cursor:
        cursor.executemany(
            _PARK,
            [(version, poison.position, poison.error[:500], name, poison.stream) for poison in poisons],
        )


_PARK = """
INSERT INTO parked_streams (name, version, stream, position, error, accepted_at, accepted_by)
SELECT p.name, %s, p.stream, %s, %s, accepted.accepted_at, accepted.accepted_by
FROM (SELECT %s::text, %s::text) AS p (name, stream)
LEFT JOIN LATERAL (
    SELECT accepted_at, accepted_by FROM parked_streams AS o
    WHERE o.name = p.name AND o.stream = p.stream AND accepted_at IS NOT NULL
    LIMIT 1
) AS accepted ON true
ON CONFLICT DO NOTHING
"""
_ACCEPT = """
UPDATE parked_streams SET accepted_at = clock_timestamp(), accepted_by = %s WHERE stream = %s RETURNING name
"""


def accept_parked(connection: Connection[Any], stream: str, by: str) -> list[str]:
    """Accept that projections skip a stream until it is healed. Return the names of these projections."""
    return sorted({name for (name,) in rows_of(connection, _ACCEPT, by, stream)})


def parked_streams(connection: Connection[Any], name: str, version: int, *, is_open: bool = False) -> list[str]:
    """Return the streams that a version skips: all streams, or with `is_open` the streams that no operator has
    accepted.
    """
    query = (
        "SELECT stream FROM parked_streams WHERE name = %s AND version = %s AND (accepted_at IS NULL OR NOT %s)"
        " ORDER BY stream"
    )
    return [stream for (stream,) in rows_of(connection, query, name, version, is_open)]


def _forget(connection: Connection[Any], projection: Projection, version: int) -> None:
    for table in ("projection_versions", "parked_streams"):
        query = SQL("DELETE FROM {} WHERE name = %s AND version = %s").format(Identifier(table))
        connection.execute(query, (projection.name, version))


def _present(connection: Connection[Any], schema: str, tables: Sequence[str]) -> list[str]:
    """Return the tables that exist, in the given order."""
    existing = rows_of(connection, "SELECT tablename FROM pg_tables WHERE schemaname = %s", schema)
    return [table for table in tables if (table,) in existing]


def _rights(connection: Connection[Any], schema: str, table: str) -> list[tuple[str, str]]:
    """Return the (role, right) pairs granted on a table, except the owner's."""
    query = (
        "SELECT grantee, privilege_type FROM information_schema.role_table_grants"
        " WHERE table_schema = %s AND table_name = %s AND grantee <> current_user"
    )
    return rows_of(connection, query, schema, table)


def grant(connection: Connection[Any], schema: str, table: str, rights: Sequence[tuple[str, str]]) -> None:
    """Grant each (role, right) on the table."""
    for role, right in rights:
        granting = SQL("GRANT {} ON {} TO {}")
        connection.execute(granting.format(SQL(right), Identifier(schema, table), Identifier(role)))
