"""What the database needs before the service runs on it: its schema and its rights.

Migrations are numbered SQL files, each applied once, in order; then the service's role gets its rights on the log's
tables. What is derived from the log is made and granted by `projections.versioning.install`.

An applied file is never edited: its digest is kept, and a difference stops the start.
"""

import hashlib
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Identifier

from eventstore.log import locks

MIGRATIONS = Path(__file__).parent / "migrations"
NEWEST = max(file.name for file in MIGRATIONS.glob("*.sql"))
"""The last migration that this code knows."""

APPEND_ONLY = ("events", "payloads", "payload_keys", "remembered_answers", "log_checkpoints")
"""The tables that the service's role may read and add to, and nothing else."""


class MigrationError(Exception):
    """The database's schema and the code do not go together."""


def migrate(admin_url: str, *, service_role: str | None = None) -> list[str]:
    """Bring the database to the newest schema and grant the service's role its rights; returns what was applied.

    Two at once are safe. Raises MigrationError when an applied file has changed, or the schema is newer.
    """
    applied = []
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (locks.MIGRATION,))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations ("
            " name text PRIMARY KEY, sha256 text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        present: dict[str, str] = dict(connection.execute("SELECT name, sha256 FROM schema_migrations"))
        files = sorted(MIGRATIONS.glob("*.sql"))
        if unknown := present.keys() - {file.name for file in files}:
            raise MigrationError(
                f"The database has schema {max(unknown)}, which this version does not know. Run a newer version."
            )
        for file in files:
            script = file.read_text()
            digest = hashlib.sha256(script.encode()).hexdigest()
            if file.name not in present:
                with connection.transaction():
                    connection.execute(script.encode())
                    connection.execute("INSERT INTO schema_migrations VALUES (%s, %s)", (file.name, digest))
                applied.append(file.name)
            elif present[file.name] != digest:
                raise MigrationError(f"Migration {file.name} was edited after it was applied. Restore the file.")
        if service_role:
            _grant(connection, service_role)
    return applied


def role_of(database_url: str) -> str | None:
    """The user that a database URL names."""
    return urlsplit(database_url).username


def _grant(connection: "psycopg.Connection", role: str) -> None:
    """INSERT and SELECT on the log and nothing else; what stands beside the log may also be changed."""
    name, append_only = Identifier(role), SQL(", ").join(map(Identifier, APPEND_ONLY))
    statements = (
        "REVOKE ALL ON {append_only}, schema_migrations FROM {role}",
        "GRANT SELECT, INSERT ON {append_only} TO {role}",
        "GRANT SELECT ON schema_migrations, stored_events, readable_events TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON checkpoints, log_tiles, statement_requests TO {role}",
        "GRANT SELECT, INSERT, DELETE ON refused_attempts TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON user_details, sign_in_links, user_sessions, failed_sign_ins,"
        " typed_reasons, owner_task_progress TO {role}",
        "GRANT EXECUTE ON FUNCTION synchronous_standbys() TO {role}",
    )
    with connection.transaction():
        for statement in statements:
            connection.execute(SQL(statement).format(role=name, append_only=append_only))
