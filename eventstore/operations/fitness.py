"""Check that a database is fit for the log: it must keep acknowledged data and support the append.

The checks try each feature. An engine with Postgres' protocol, or a pooler, may accept every statement and still give a
lock to two sessions at the same time.
"""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import psycopg
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.clock import now
from eventstore.errors import OperatorError, reason_of
from eventstore.log.rows import value_of
from eventstore.operations.migrate import refuse_newer
from eventstore.operations.rights import ROLES

Durability = Literal["local", "replicated"]
"""Servers that have an event on disk when it is acknowledged: only the primary (`local`), or also a standby
(`replicated`).
"""

MAX_BEHIND = timedelta(seconds=60)
"""Longest time that this machine's clock may be behind the newest event."""
NOTIFICATION_S = 2.0
"""Longest wait for a notification, in seconds."""
ROUNDS = 3
"""Number of checks that two sessions have separate server processes: a pooler may share a server process only
sometimes.
"""

REPLICATED = """
SELECT current_setting('synchronous_standby_names') <> '' AND synchronous_standbys() IS DISTINCT FROM 0 AS is_replicated
"""
"""Query whether commits wait for a standby and a standby is connected.

If the role may not see standbys, only the setting decides: commits then wait while no standby is connected.
"""
_NEWEST = "SELECT max(recorded_at) FROM (SELECT recorded_at FROM events ORDER BY position DESC LIMIT 1) AS newest"


NO_SCHEMA = "the database has no schema yet: run `importledger migrate`"
_SELECT_LACKING = """
SELECT array_agg(role) FROM unnest(%s::text[]) AS role
WHERE NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = role AND pg_has_role(session_user, r.oid, 'USAGE'))
  AND NOT EXISTS (SELECT FROM pg_class AS c
                  WHERE c.oid = to_regclass('public.events') AND pg_has_role(session_user, c.relowner, 'USAGE'))
"""


class UnsafeStore(OperatorError):
    """The database may lose acknowledged data, or lacks a feature that the log needs."""


class NotChecked(Exception):
    """The database cannot be checked now: it is unavailable, read-only, or has no schema. The message is the reason."""


def refuse_unsafe(database_url: str, durability: Durability = "local", kinds: Sequence[str] = ()) -> None:
    """Raise UnsafeStore if the database is not fit for the log, or this clock is behind the log.

    With `kinds`, the schema must exist, and the URL's user must have the rights of these kinds of processes. Raises
    MigrationError if a newer version has migrated the database. Raises NotChecked if the server is unavailable,
    read-only at present, or has no schema yet.
    """
    try:
        with _session(database_url) as connection, _session(database_url) as other:
            if value_of(connection, "SHOW transaction_read_only") == "on":
                raise NotChecked("it is read-only")
            _refuse_loss(connection, durability)
            for probe in (_refuse_shared_sessions, _refuse_false_locks, _refuse_silence):
                probe(connection, other)
            if kinds:
                _refuse_missing_rights(connection, [ROLES[kind] for kind in kinds])
            _refuse_late_clock(connection)
            refuse_newer(connection)
    except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
        raise NotChecked(reason_of(error)) from error


def _refuse_missing_rights(connection: Connection[Any], roles: Sequence[str]) -> None:
    if value_of(connection, "SELECT to_regclass('public.appenders') IS NULL"):
        raise NotChecked(NO_SCHEMA)
    if lacking := value_of(connection, _SELECT_LACKING, list(roles)):
        user = value_of(connection, "SELECT session_user::text")
        raise UnsafeStore(
            f"DATABASE_URL names the database user {user}, who does not have the rights of {' and '.join(lacking)}: "
            f"name {lacking[0]} there, or a user who is a member of it."
        )
    if not value_of(connection, "SELECT has_table_privilege('public.appenders', 'SELECT')"):
        raise NotChecked(NO_SCHEMA)  # another `migrate` is running


def _refuse_loss(connection: Connection[Any], durability: Durability) -> None:
    for setting in ("fsync", "full_page_writes"):
        if value_of(connection, f"SHOW {setting}") != "on":
            raise UnsafeStore(f"Postgres runs with {setting}=off: an acknowledged import could be lost. Set it to on.")
    if durability == "replicated" and not _is_replicated(connection):
        raise UnsafeStore(
            "IMPORTLEDGER_DURABILITY is replicated, and no synchronous standby is connected: set "
            "synchronous_standby_names, wait for a standby, or use local."
        )


def _is_replicated(connection: Connection[Any]) -> bool:
    is_unmigrated = value_of(connection, "SELECT to_regprocedure('synchronous_standbys()') IS NULL")
    if is_unmigrated:
        return bool(value_of(connection, "SHOW synchronous_standby_names"))
    return bool(value_of(connection, REPLICATED))


def _refuse_shared_sessions(connection: Connection[Any], other: Connection[Any]) -> None:
    """Raise UnsafeStore behind a pooler that shares server sessions between clients.

    Locks, LISTEN and prepared statements need a session of their own.
    """
    pid = value_of(connection, "SELECT pg_backend_pid()")
    for _ in range(ROUNDS):
        with other.transaction():
            other_pid = value_of(other, "SELECT pg_backend_pid()")
            if other_pid == pid or value_of(connection, "SELECT pg_backend_pid()") != pid:
                raise UnsafeStore("A connection pooler shares server sessions between clients: set it to session mode.")


def _refuse_false_locks(connection: Connection[Any], other: Connection[Any]) -> None:
    """Raise UnsafeStore unless an advisory lock excludes other sessions while it is held, and only then.

    The log depends on it: each session holds the log's lock until it commits, so positions have the order of commits.
    """
    number = secrets.randbits(62)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (number,))
        is_held = not value_of(other, "SELECT pg_try_advisory_lock(%s::bigint)", number)
    is_free = value_of(other, "SELECT pg_try_advisory_lock(%s::bigint)", number)
    is_taken = not value_of(connection, "SELECT pg_try_advisory_lock(%s::bigint)", number)
    value_of(other, "SELECT pg_advisory_unlock(%s::bigint)", number)
    if not (is_held and is_free and is_taken):
        raise UnsafeStore(
            "Advisory locks of the database do not work as in Postgres: two events could get the same position. "
            "Use Postgres itself."
        )


def _refuse_silence(connection: Connection[Any], other: Connection[Any]) -> None:
    """Raise UnsafeStore if notifications do not arrive, or if transactions are not read committed.

    The relay needs LISTEN, and a commit must be visible to the next statement of another session.
    """
    channel = f"importledger_probe_{secrets.token_hex(8)}"
    connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
    other.execute(SQL("NOTIFY {}").format(Identifier(channel)))
    is_notified = any(True for _ in connection.notifies(timeout=NOTIFICATION_S, stop_after=1))
    connection.execute(SQL("UNLISTEN {}").format(Identifier(channel)))
    if not is_notified:
        raise UnsafeStore("The database does not pass on notifications (LISTEN, NOTIFY). Use Postgres itself.")
    if value_of(connection, "SHOW transaction_isolation") != "read committed":
        raise UnsafeStore(
            "The database's default_transaction_isolation is not read committed: an append could miss the one before "
            "it. Set it to read committed."
        )


def _refuse_late_clock(connection: Connection[Any]) -> None:
    try:
        recorded_at = value_of(connection, _NEWEST)
    except psycopg.errors.UndefinedTable:  # the database is still empty
        return
    if recorded_at is not None and recorded_at - now() > MAX_BEHIND:
        behind_s = int((recorded_at - now()).total_seconds())
        raise UnsafeStore(
            f"This machine's clock is {behind_s} s behind the newest event: leases and windows would be wrong. "
            "Set the clock, or wait."
        )


def _session(database_url: str) -> Connection[Any]:
    return psycopg.connect(database_url, autocommit=True, connect_timeout=2)
