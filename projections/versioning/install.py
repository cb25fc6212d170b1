"""Bringing a database to what this code needs: the log's schema, then the tables of projections, and rights on them.

Projections bring their own tables: a new one, or a new column, needs no migration.
"""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from eventstore.log import locks
from eventstore.operations.migrate import migrate
from projections import PROJECTIONS
from projections.platform.account_numbers import ACCOUNT_NUMBERS
from projections.versioning.projection import Projection
from projections.versioning.reading import head
from projections.versioning.versions import add_version, advance, grant, versions


def migrate_all(admin_url: str, *, service_role: str | None = None) -> list[str]:
    """Migrate, and set up projections that are new; the migrations that were applied. Two at once are safe."""
    applied = migrate(admin_url, service_role=service_role)
    with psycopg.connect(admin_url, autocommit=True) as connection:
        install(connection, PROJECTIONS, service_role)
    return applied


def install(connection: Connection[Any], projections: Sequence[Projection], service_role: str | None) -> None:
    """Set up what is new among these: a live version 1, its tables, and columns of tables that there are; and rights.

    One that is written with the append gets what the log already says. What a migration or this has changed is live as
    it is declared now. Versions that were retired before are not, and cannot be switched in any more.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (locks.VERSIONS,))
        for projection in projections:
            if not versions(connection, projection.name):
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


def _add_columns(connection: Connection[Any], projection: Projection) -> None:
    for table in projection.tables:
        present = _columns(connection, projection.home, table)
        for name, declared in projection.declared_columns(table):
            if name not in present:
                adding = SQL("ALTER TABLE {} ADD COLUMN {} ").format(
                    Identifier(projection.home, table), Identifier(name)
                )
                connection.execute(adding + SQL(declared))  # written in our own files


def _columns(connection: Connection[Any], schema: str, table: str) -> set[str]:
    """The columns of a table; none where there is no such table."""
    query = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
    with connection.cursor(row_factory=tuple_row) as cursor:
        return {name for (name,) in cursor.execute(query, (schema, table))}


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
