"""Migration of a database to this code version: the log's schema, then the tables of projections, and rights.

New projections and new columns need no SQL migration, because they are created from their declaration.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import msgspec
import structlog
from psycopg import Connection, connect
from psycopg.sql import SQL, Identifier

from eventstore.log import locks
from eventstore.log.columns import log_head
from eventstore.log.rows import rows_of, value_of
from eventstore.operations.fitness import NO_SCHEMA, NotChecked
from eventstore.operations.migrate import migrate, patiently
from eventstore.operations.rights import grant_rights
from projections import PROJECTIONS
from projections.versions.build import administrator
from projections.versions.projection import Projection, as_sql, exclude_from_statistics
from projections.versions.versions import add_version, build_version, live_version, switch, version_lock, versions

logger = structlog.get_logger()


def migrate_all(admin_url: str, *, service_role: str | None = None) -> list[str]:
    """Migrate the schema, and install new projections; return the applied migrations. Two concurrent runs are safe.

    After a kill, the next run continues: it uses a version that was ready, and rebuilds an unfinished version.
    """
    applied = migrate(admin_url, service_role=service_role)
    with administrator(admin_url) as connection:
        install(connection, PROJECTIONS, service_role)
    return applied


def refuse_uninstalled(database_url: str) -> None:
    """Raise NotChecked if a projection of this code has no tables, OperationalError if no database answers."""
    with connect(database_url, autocommit=True, connect_timeout=2) as connection:
        if connection.execute(_SELECT_UNINSTALLED, ([projection.name for projection in PROJECTIONS],)).rowcount:
            raise NotChecked(NO_SCHEMA)


_SELECT_UNINSTALLED = """
SELECT FROM unnest(%s::text[]) AS wanted
WHERE NOT EXISTS (SELECT FROM projection_versions AS v WHERE v.name = wanted AND v.state = 'live')
"""


def install(connection: Connection[Any], projections: Sequence[Projection], service_role: str | None) -> None:
    """Create missing tables, columns, rights and rows of these projections.

    The connection must be in autocommit. The service may run meanwhile: inline views are built in separate tables,
    which then replace the live tables. The live version gets the definition of this code. Retired versions keep their
    old definition, and can no longer be made live.
    """
    _add_columns(connection, projections)
    for projection in projections:
        projection.add_indexes(connection)
        if projection.is_inline and not is_whole(connection, projection):
            _build_and_switch(connection, projection)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (locks.VERSIONS,))
        for projection in projections:
            if projection.is_inline:
                connection.execute(_DECLARE_LIVE, (projection.definition, projection.name))
            elif not versions(connection, projection.name):
                _make_empty(connection, projection)
            for table in projection.tables:
                target = Identifier(projection.home, table)
                grant_rights(connection, target, projection.rights_on(table), service_role)


_DECLARE_LIVE = """
UPDATE projection_versions SET definition = %s
WHERE name = %s AND state = 'live'
"""


def _build_and_switch(connection: Connection[Any], projection: Projection) -> None:
    """Build the declared tables from the log, beside the live tables, and switch to the new tables; the old version is
    retired.
    """
    with version_lock(connection, projection, waits=True):
        if is_whole(connection, projection):
            return  # another `migrate` has built the version while this one waited
        present = versions(connection, projection.name)
        ready = [each for each in present if each.state == "ready" and each.definition == projection.definition]
        if not ready:
            if log_head(connection):
                logger.info("projection is built while the service runs", projection=projection.name)
            ready = [build_version("", connection, projection)]
        switch(connection, projection, ready[-1].version)


def _make_empty(connection: Connection[Any], projection: Projection) -> None:
    """Create the tables of a projection that will follow the log from its beginning.

    Tables without a version are dropped first, because nothing shows which events they include.
    """
    for table in projection.tables:
        connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(projection.home, table)))
    projection.create(connection, projection.home)
    exclude_from_statistics(connection, projection, projection.home)
    for table in projection.tables:
        projection.index(connection, projection.home, table)
    connection.execute("DELETE FROM parked_streams WHERE name = %s", (projection.name,))
    add_version(connection, projection, 1, "live", 0)


def is_whole(connection: Connection[Any], projection: Projection) -> bool:
    """Return whether a live version exists with all its tables in the declared form."""
    has_tables = all(_columns(connection, projection.home, table) for table in projection.tables)
    is_live = any(version.state == "live" for version in versions(connection, projection.name))
    return has_tables and is_live and fits(connection, projection)


def fits(connection: Connection[Any], projection: Projection) -> bool:
    """Return whether the existing live tables can store the rows of the projection's present declaration."""
    present = {table: _columns(connection, projection.home, table) for table in projection.tables}
    return all(not columns or projection.fits(table, columns) for table, columns in present.items())


def _add_columns(connection: Connection[Any], projections: Sequence[Projection]) -> None:
    """Add columns while the service writes to the tables. Writers wait no longer than the lock time-out."""

    def add(projection: Projection, missing: Sequence[tuple[str, str, str]]) -> None:
        with connection.transaction():
            connection.execute(SQL("SET LOCAL lock_timeout = {}").format(locks.WAIT_MS))
            for table, name, declared in missing:
                change = SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}").format(
                    Identifier(projection.home, table), Identifier(name), as_sql(declared)
                )
                connection.execute(change)
            exclude_from_statistics(connection, projection, projection.home)

    for projection in projections:
        missing = missing_columns(connection, projection)
        if missing and fits(connection, projection):
            patiently(partial(add, projection, missing))


def missing_columns(connection: Connection[Any], projection: Projection) -> list[tuple[str, str, str]]:
    """Return (table, column, declaration) of declared columns that existing live tables lack."""
    missing = []
    for table in projection.tables:
        present = _columns(connection, projection.home, table)
        declared = projection.declared_columns(table) if present else ()
        missing += [(table, name, kind) for name, kind in declared if name not in present]
    return missing


class ProjectionChange(msgspec.Struct, frozen=True):
    """Change of a projection by `migrate` (new, columns, rebuilt), or by a later rebuild (outdated).

    `can_be_rolled`: processes of the previous version may run meanwhile. `says` is a sentence for operators.
    """

    name: str
    change: Literal["new", "columns", "rebuilt", "outdated"]
    says: str
    can_be_rolled: bool


def projection_changes(connection: Connection[Any]) -> list[ProjectionChange]:
    """Return the changes that `migrate` would make to projections, and the changes that need `projections rebuild`."""
    if not value_of(connection, "SELECT to_regclass('projection_versions') IS NOT NULL"):
        return []
    events = log_head(connection)
    return [change for projection in PROJECTIONS for change in _changes(connection, projection, events)]


def _changes(connection: Connection[Any], projection: Projection, events: int) -> list[ProjectionChange]:
    name = projection.name
    if not fits(connection, projection):
        says = f"{name} is rebuilt from the log; its old tables are kept for seven days"
        return [ProjectionChange(name, "rebuilt", says, can_be_rolled=not events)]
    if not versions(connection, name):
        is_waited_for = projection.is_inline
        says = f"{name} is new; " + (
            "it is built while the service runs" if is_waited_for else "the relay fills it while the service runs"
        )
        is_complete = not (is_waited_for and events)  # processes of the old version do not write to this table
        return [ProjectionChange(name, "new", says, can_be_rolled=is_complete)]
    missing = [f"{table}.{column}" for table, column, _ in missing_columns(connection, projection)]
    if missing:
        says = f"{name} gets the columns {', '.join(missing)}"
        return [ProjectionChange(name, "columns", says, can_be_rolled=True)]
    if not projection.is_inline and live_version(connection, name).is_outdated(projection):
        says = f"{name} does not follow the log before `importledger projections rebuild {name}`"
        return [ProjectionChange(name, "outdated", says, can_be_rolled=True)]
    return []


def _columns(connection: Connection[Any], schema: str, table: str) -> dict[str, str]:
    """Return the types of a table by column; empty if the table does not exist."""
    query = (
        "SELECT attname, CASE atttypid::regtype::text WHEN 'timestamp with time zone' THEN 'timestamptz'"
        " ELSE atttypid::regtype::text END"
        " FROM pg_attribute WHERE attrelid = to_regclass(format('%%I.%%I', %s::text, %s::text))"
        " AND attnum > 0 AND NOT attisdropped"
    )
    return dict(rows_of(connection, query, schema, table))
