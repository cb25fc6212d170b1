"""Bringing a database to what this code needs: the log's schema, then the tables of projections, and rights on them.

Projections bring their own tables: a new one, or a new column, needs no migration.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from eventstore.log import locks
from eventstore.operations.migrate import migrate, patiently
from projections import PROJECTIONS
from projections.platform.account_numbers import ACCOUNT_NUMBERS
from projections.versioning.build import administrator, build
from projections.versioning.projection import Platform, Projection
from projections.versioning.reading import head
from projections.versioning.versions import (
    add_version,
    advance,
    alone,
    build_version,
    grant,
    live_version,
    park,
    switch,
    versions,
)

logger = structlog.get_logger()


def migrate_all(admin_url: str, *, service_role: str | None = None) -> list[str]:
    """Migrate, and set up projections that are new; the migrations that were applied. Two at once are safe.

    Whoever kills it types it again: what was ready is used, what was not is begun anew.
    """
    applied = migrate(admin_url, service_role=service_role)
    with administrator(admin_url) as connection:
        _add_columns_beside(connection, PROJECTIONS)
        for projection in PROJECTIONS:
            if not fits(connection, projection) and head(connection):
                make_anew_beside(admin_url, connection, projection)
        install(connection, PROJECTIONS, service_role)
    return applied


def make_anew_beside(admin_url: str, connection: Connection[Any], projection: Projection) -> None:
    """Build declared tables from the log beside live ones of another form, and switch to them; those are retired.

    The service goes on meanwhile, its workers with the former tables until the switch.
    """
    with alone(connection, projection, waits=True):
        if fits(connection, projection):
            return  # somebody else has migrated meanwhile
        present = versions(connection, projection.name)
        if not present:
            add_version(connection, projection, 1, "live", 0)
        ready = [one for one in present if one.state == "ready" and one.definition == projection.definition]
        if not ready:
            logger.info("projection is made anew", projection=projection.name, reason="its tables are of another form")
            ready = [build_version(admin_url, connection, projection)]
        switch(connection, projection, ready[-1].version)


def install(connection: Connection[Any], projections: Sequence[Projection], service_role: str | None) -> None:
    """Set up what is new among these: a live version 1, its tables, and columns of tables that there are; and rights.

    One that is written with the append gets what the log already says. What a migration or this has changed is live as
    it is declared now. Versions that were retired before are not, and cannot be switched in any more. Tables of the
    platform that are of another form are thrown away: the log is empty then, or `make_anew_beside` has retired them.
    """
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (locks.VERSIONS,))
        for projection in projections:
            is_new = not versions(connection, projection.name)
            if not fits(connection, projection):
                if is_new:
                    add_version(connection, projection, 1, "live", 0)
                _declare_anew(connection, projection)
            elif is_new:
                _set_up(connection, projection)
            elif projection.is_inline:
                connection.execute(_DECLARE_LIVE, (projection.definition, projection.name))
            _add_columns(connection, projection)
            for table in projection.tables if service_role else ():
                _grant(connection, projection.home, table, service_role or "", projection.rights)
        if service_role:
            _grant_beside(connection, service_role)


_DECLARE_LIVE = """
UPDATE projection_versions SET definition = %s
WHERE name = %s AND state = 'live'
"""


def _set_up(connection: Connection[Any], projection: Projection) -> None:
    missing = [table for table in projection.tables if not _columns(connection, projection.home, table)]
    if missing:
        projection.create(connection, projection.home)
        for table in missing:
            projection.index(connection, projection.home, table)
    add_version(connection, projection, 1, "live", 0)
    if projection.is_inline and (missing or projection.home == "platform"):
        lock = locks.PLATFORM if projection.home == "platform" else locks.LOG
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        advance(connection, projection, projection.home, 1, after=0, upto=head(connection))


def fits(connection: Connection[Any], projection: Projection) -> bool:
    """Whether the live tables of the platform, where there are any, can hold rows as they are declared now."""
    if any(_columns(connection, projection.home, table) for table in projection.former_tables):
        return False
    for table in projection.tables if isinstance(projection, Platform) else ():
        declared = dict(projection.declared_columns(table))
        present = _columns(connection, projection.home, table)
        if any(declared.get(name) != kind for name, kind in present.items()):
            return False
    return True


def _declare_anew(connection: Connection[Any], projection: Projection) -> None:
    """Drop tables of another form and make declared ones, with what was appended since the log was found empty."""
    version, upto = live_version(connection, projection.name).version, head(connection)
    for table in (*projection.tables, *projection.former_tables):
        connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(projection.home, table)))
    projection.create(connection, projection.home)
    park(connection, projection.name, version, build("", connection, projection, projection.home, upto=upto))
    connection.execute(_DECLARE_LIVE, (projection.definition, projection.name))


def _add_columns_beside(connection: Connection[Any], projections: Sequence[Projection]) -> None:
    """Columns of tables that the service writes meanwhile: nobody waits longer for them than the time-out."""

    def add(projection: Projection) -> None:
        with connection.transaction():
            connection.execute(SQL("SET LOCAL lock_timeout = {}").format(locks.WAIT_MS))
            _add_columns(connection, projection)

    for projection in projections:
        if missing_columns(connection, projection) and fits(connection, projection):
            patiently(partial(add, projection))


def missing_columns(connection: Connection[Any], projection: Projection) -> list[tuple[str, str, str]]:
    """(table, column, declaration) of what live tables do not have yet; nothing of tables that are not there."""
    missing = []
    for table in projection.tables:
        present = _columns(connection, projection.home, table)
        declared = projection.declared_columns(table) if present else ()
        missing += [(table, name, kind) for name, kind in declared if name not in present]
    return missing


def _add_columns(connection: Connection[Any], projection: Projection) -> None:
    for table, name, declared in missing_columns(connection, projection):
        adding = SQL("ALTER TABLE {} ADD COLUMN {} ").format(Identifier(projection.home, table), Identifier(name))
        connection.execute(adding + SQL(declared))  # written in our own files


def _columns(connection: Connection[Any], schema: str, table: str) -> dict[str, str]:
    """The columns of a table and their types; none where there is no such table."""
    query = (
        "SELECT attname, CASE atttypid::regtype::text WHEN 'timestamp with time zone' THEN 'timestamptz'"
        " ELSE atttypid::regtype::text END"
        " FROM pg_attribute WHERE attrelid = to_regclass(format('%%I.%%I', %s::text, %s::text))"
        " AND attnum > 0 AND NOT attisdropped"
    )
    with connection.cursor(row_factory=tuple_row) as cursor:
        return dict(cursor.execute(query, (schema, table)).fetchall())


def _grant(connection: Connection[Any], schema: str, table: str, role: str, rights: Sequence[str]) -> None:
    """These rights and no other, whatever was granted before."""
    revoking = SQL("REVOKE ALL ON {} FROM {}").format(Identifier(schema, table), Identifier(role))
    connection.execute(revoking)
    grant(connection, schema, table, [(role, right) for right in rights])


def _grant_beside(connection: Connection[Any], role: str) -> None:
    """Rights on what keeps account of projections, and on what account numbers are drawn from."""
    for table in ("projection_versions", "parked_streams"):
        _grant(connection, "public", table, role, Projection.rights)
    connection.execute(SQL("GRANT USAGE ON SCHEMA platform TO {}").format(Identifier(role)))
    _grant(connection, *ACCOUNT_NUMBERS.table, role, ("SELECT",))
    sequence = Identifier(*ACCOUNT_NUMBERS.sequence)
    connection.execute(SQL("GRANT USAGE, SELECT ON SEQUENCE {} TO {}").format(sequence, Identifier(role)))
