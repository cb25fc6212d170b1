"""Migration of the database: the schema of the log and the rights of the service's roles.

Migrations are numbered SQL files. Each is applied once, in order; then the roles get their rights on the log's tables
(`rights`). `projections.versions.install` creates the tables that are derived from the log, and their rights.

An applied file must not be edited: its digest is stored, and a difference stops the start.

The first line of a file says whether processes of the previous version may run with the new schema: `-- rollable: yes`,
or `-- rollable: no, REASON`.

The service may run meanwhile. A migration that waits longer than `locks.WAIT_MS` for a lock is rolled back and tried
again, so that appends do not queue behind it. A file is one transaction; after a kill, the next run continues with this
file. A file whose first line begins with `-- online` is one statement that builds an index without blocking writers.
"""

import hashlib
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import psycopg
import structlog
from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg.sql import SQL, Identifier

from eventstore.errors import OperatorError
from eventstore.events import AGGREGATES
from eventstore.log import locks
from eventstore.log.rows import rows_of, value_of
from eventstore.operations.rights import grant_on_log, make_roles

MIGRATIONS = Path(__file__).parent / "migrations"
NEWEST = max(file.name for file in MIGRATIONS.glob("*.sql"))
"""File name of the last migration of this version."""

APPEND_ONLY = ("events", "payloads", "payload_keys", "remembered_answers", "log_checkpoints")
"""Tables whose rows the service's roles must not change or delete. The owner deletes rows of erased persons."""


LOCK_TRIES = 100
"""Runs of a step that does not get a lock in time. The error of the last run is raised."""
LOCK_PAUSE_S = 1.0
ONLINE = "-- online"
ROLLABLE = "-- rollable: "

_TOPICS = [(topic, aggregate.prefix) for aggregate in AGGREGATES.values() for topic in aggregate.topics]

T = TypeVar("T")

logger = structlog.get_logger()


class MigrationError(OperatorError):
    """Schema and code do not match."""


class Pending(msgspec.Struct, frozen=True):
    """Migration that is not applied, and why processes of the previous version must stop, if they must."""

    name: str
    why_not_rolled: str | None


def pending_migrations(connection: "psycopg.Connection[Any]") -> list[Pending]:
    """Return what `migrate` would apply, in order. Raises MigrationError if the database is newer."""
    refuse_newer(connection)
    applied = applied_migrations(connection)
    files = [file for file in sorted(MIGRATIONS.glob("*.sql")) if file.name not in applied]
    return [Pending(file.name, why_not_rolled(file.read_text()) if applied else None) for file in files]


def why_not_rolled(script: str) -> str | None:
    """Return the reason, from a migration's first line, why the previous version must not run; None if it may."""
    first, _, _ = script.partition("\n")
    if first.startswith((f"{ROLLABLE}yes", ONLINE)):
        return None
    return (
        first.removeprefix(f"{ROLLABLE}no, ") if first.startswith(ROLLABLE) else "it does not say that it is rollable"
    )


def migrate(admin_url: str, *, service_role: str | None = None) -> list[str]:
    """Migrate the database to the newest schema and grant the roles their rights; return the applied files.

    Two concurrent runs are safe. Raises MigrationError if an applied file has changed or the schema is newer, and
    RoleMissing, RoleNotReset.
    """
    applied = []
    with psycopg.connect(admin_url, autocommit=True) as connection:
        _lock_migrations(connection)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations ("
            " name text PRIMARY KEY, sha256 text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        refuse_newer(connection)
        present = applied_migrations(connection)
        for file in sorted(MIGRATIONS.glob("*.sql")):
            script = file.read_text()
            digest = hashlib.sha256(script.encode()).hexdigest()
            if file.name not in present:
                patiently(partial(_apply, connection, file.name, script, digest))
                applied.append(file.name)
            elif present[file.name] != digest:
                raise MigrationError(f"Migration {file.name} was edited after it was applied. Restore the file.")
        make_roles(connection, service_role)
        with connection.transaction():
            grant_on_log(connection, _TOPICS, service_role)
    return applied


def _lock_migrations(connection: "psycopg.Connection[Any]") -> None:
    """Acquire the advisory lock of migrations; wait until no other migration holds it.

    Each statement waits for less than Postgres' `deadlock_timeout`: a concurrent index build of the other migration
    waits for the end of this session's statement.
    """
    connection.execute(SQL("SET lock_timeout = {}").format(locks.WAIT_MS))
    while True:
        try:
            connection.execute("SELECT pg_advisory_lock(%s)", (locks.MIGRATION,))
        except LockNotAvailable:
            continue
        connection.execute("RESET lock_timeout")
        return


def applied_migrations(connection: "psycopg.Connection[Any]") -> dict[str, str]:
    """Return the digests of the applied files, by name."""
    has_table = value_of(connection, "SELECT to_regclass('schema_migrations') IS NOT NULL")
    return dict(rows_of(connection, "SELECT name, sha256 FROM schema_migrations")) if has_table else {}


def refuse_newer(connection: "psycopg.Connection[Any]") -> None:
    """Raise MigrationError if a newer version has migrated the database."""
    unknown = applied_migrations(connection).keys() - {file.name for file in MIGRATIONS.glob("*.sql")}
    if unknown:
        raise MigrationError(
            f"The database has schema {max(unknown)}, which this version does not know. Run a newer version."
        )


def patiently(step: Callable[[], T]) -> T:
    """Run the step and return its result; repeat the step if a wait for a lock was too long, at most LOCK_TRIES times.

    The step must roll back a failed run. The error of the last run is raised.
    """
    for _ in range(LOCK_TRIES - 1):
        try:
            return step()
        except (LockNotAvailable, DeadlockDetected) as error:
            logger.warning("waiting for a lock", reason=str(error).splitlines()[0])
            time.sleep(LOCK_PAUSE_S)
    return step()


def _apply(connection: "psycopg.Connection[Any]", name: str, script: str, digest: str) -> None:
    """Apply a file, and store its name and digest: all or nothing.

    Postgres refuses a concurrent build in one script with another statement, so an online file has exactly one.
    """
    if script.startswith(ONLINE):
        for index in re.findall(r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)", script, re.M):
            if _is_unfinished(connection, index):
                connection.execute(SQL("DROP INDEX CONCURRENTLY {}").format(Identifier(index)))
        connection.execute(script.encode())
        connection.execute("INSERT INTO schema_migrations VALUES (%s, %s)", (name, digest))
        return
    with connection.transaction():
        connection.execute(SQL("SET LOCAL lock_timeout = {}").format(locks.WAIT_MS))
        connection.execute(script.encode())
        connection.execute("INSERT INTO schema_migrations VALUES (%s, %s)", (name, digest))


def _is_unfinished(connection: "psycopg.Connection[Any]", index: str) -> bool:
    """Return whether a killed build has left an invalid index."""
    query = "SELECT FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid"
    return connection.execute(query, (index,)).rowcount == 1


def role_of(database_url: str) -> str | None:
    """Return the user of a database URL, or None."""
    return urlsplit(database_url).username
