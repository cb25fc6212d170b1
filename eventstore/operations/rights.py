"""Database roles of the service: one for each kind of process, with only the rights that it needs.

`migrate` creates missing roles and grants the rights that this file and the projections declare. Only the owner changes
users and keys. The file also declares which roles may append which events.
"""

from collections.abc import Iterable, Mapping
from typing import Any, LiteralString

import msgspec
from psycopg import Connection
from psycopg.errors import DuplicateObject, InsufficientPrivilege, UniqueViolation
from psycopg.sql import SQL, Composable, Identifier

from eventstore.errors import OperatorError
from eventstore.log.rows import rows_of, value_of

ROLES = {"api": "importledger_api", "worker": "importledger_worker", "relay": "importledger_relay"}
"""Roles by kind of process. The operator of Postgres sets their passwords and allows their login."""

VERBS = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """SQL verbs that each role may use on a table, by their first letters."""

    api: str = "S"
    worker: str = "S"
    relay: str = "S"

    def of(self, kind: str) -> list[str]:
        """Return the verbs of a kind of process, as Postgres writes them."""
        return [VERBS[letter] for letter in getattr(self, kind)]


READ = Rights()
WRITTEN_BY_ALL = Rights(api="SIU", worker="SIU", relay="SIU")

LOG_RIGHTS: Mapping[str, Rights] = {
    "events": READ,
    "payloads": READ,
    "payload_keys": READ,
    "remembered_answers": Rights(worker=""),
    "log_checkpoints": Rights(relay="SI"),
    "log_keys": Rights(relay="SI"),
    "log_tiles": Rights(relay="SIUD"),
    "log_comparisons": READ,
    "intake_stops": READ,
    "statement_requests": Rights(api="SID", worker="", relay="SUD"),
    "checkpoints": Rights(relay="SIU"),
    "projection_versions": Rights(relay="SU"),
    "parked_streams": Rights(relay="SIUD"),
    "reconciliations": Rights(api="SD", relay="SD"),
    "refused_attempts": Rights(worker="", relay="SD"),
    "troubles": Rights(api="SD", worker="SD", relay="SD"),
    "user_details": Rights(api="SI", worker="", relay=""),
    "user_sessions": Rights(api="SID", worker="", relay=""),
    "sign_in_links": Rights(api="SD", worker="", relay=""),
    "failed_sign_ins": Rights(api="SIUD", worker="", relay=""),
    "typed_reasons": Rights(api="SI", worker="", relay=""),
    "owner_task_progress": Rights(worker="", relay="SIU"),
    "books": Rights(worker="", relay=""),
    "book_files": Rights(api="SD", worker="", relay=""),
    "book_chunks": Rights(api="SI", worker="", relay=""),
    "book_steps": Rights(worker="", relay=""),
    "schema_migrations": READ,
    "appenders": READ,
    "stored_events": READ,
    "readable_events": READ,
    "platform.account_number_key": Rights(api="", relay=""),
}
"""Rights on the tables and views of the log's schema. Projections declare rights on their own tables."""

COLUMNS: Mapping[tuple[str, str, LiteralString], tuple[str, ...]] = {
    ("user_details", "api", "UPDATE"): (
        "password_hash",
        "password_number",
        "openid",
        "mac",
        "written_at",
        "saved_filters",
    ),
    **{("troubles", kind, "INSERT"): ("process", "name", "error", "times", "is_waiting") for kind in ROLES},
    **{("troubles", kind, "UPDATE"): ("error", "times", "is_waiting", "seen_at") for kind in ROLES},
    ("log_comparisons", "relay", "INSERT"): ("accepted_by", "accepted_for"),
    ("intake_stops", "relay", "INSERT"): ("size", "note", "reason"),
    ("intake_stops", "relay", "UPDATE"): ("ended_at", "ended_by", "ended_for"),
    ("reconciliations", "api", "INSERT"): ("supplier", "run", "job", "reached", "accounts"),
    ("reconciliations", "api", "UPDATE"): ("requested_at", "delivered_at"),
    ("reconciliations", "worker", "UPDATE"): (
        *("accounts_done", "after_place", "totals", "code_version", "worker", "attempt"),
        *("lease_until", "worked_at", "ended_at", "error"),
    ),
    ("reconciliations", "relay", "UPDATE"): ("ended_at", "error"),
    ("books", "api", "INSERT"): ("book", "supplier", "run", "organisation", "user_id", "key"),
    ("books", "api", "UPDATE"): ("key", "touched_at", "erased_at", "erased_by"),
    ("book_files", "api", "INSERT"): ("book", "name", "size", "step", "digest"),
    ("book_files", "api", "UPDATE"): ("name", "size", "received", "is_whole", "digest", "written_at"),
    ("book_steps", "api", "INSERT"): (
        *("step", "book", "kind", "command", "arguments", "user_id", "state", "counts", "preview"),
        *("mac", "holder", "expires_at"),
    ),
    ("book_steps", "api", "UPDATE"): (
        *("state", "command", "arguments", "output", "error", "started_at", "ended_at", "approved_by", "approved_at"),
        *("approval", "mac", "holder", "expires_at", "attempt", "percent", "exit_code", "runner", "lease_until"),
    ),
    ("refused_attempts", "api", "INSERT"): (
        *("supplier", "external_account_number", "attempted_at", "operation", "code", "problems", "id"),
    ),
}
"""Columns that a role may write, by table, kind of process and verb.

The role may not write other columns of the table.
"""

_FUNCTIONS = {
    "append_events": ("api", "worker", "relay"),
    "append_answered_events": ("api",),
    "add_payload_keys": ("api", "worker", "relay"),
    "synchronous_standbys": ("api", "worker", "relay"),
    "put_searches_in_order": ("relay",),
}
_SEQUENCES = {"platform.account_sequence": ("worker",)}

UNGUARDED = ("import_staged.v1", "import_started.v1", "import_processed.v1")
"""Topics that every role may append without a check, because most events have these topics and a check would be slow.
"""

_ALL, _API, _WORKER, _RELAY, _OWNER = ("api", "worker", "relay"), ("api",), ("worker",), ("relay",), ()
_OF_AGGREGATE: Mapping[str, tuple[str, ...]] = {
    "import": _ALL,
    "supplier": _API,
    "organisation": _OWNER,
    "participant": _API,
    "price-sheet": _API,
    "customer-mail": ("worker", "relay"),
    "refusals": _API,
    "run": _API,
    "user": _OWNER,
    "disclosure": _API,
    "owner-task": _RELAY,
}
"""Kinds of processes that may append, by prefix of the stream. Only the api may append to all other streams."""
_OF_TOPIC: Mapping[str, tuple[str, ...]] = {
    "subject_erased.v1": _OWNER,
    "import_reverted.v1": _OWNER,
    "mail_cancelled.v1": _OWNER,
    "accounts_released.v1": _OWNER,
    "contacts_erased.v1": _OWNER,
    "supplier_archived.v1": _OWNER,
    "archive_attached.v1": _OWNER,
    "owner_task_requested.v1": _API,
    "owner_task_approved.v1": _API,
    "owner_task_rejected.v1": _API,
    "user_signed_in.v1": _API,
    "user_signed_out.v1": _API,
    "password_set.v1": _API,
}


def appenders(topics: Iterable[tuple[str, str]]) -> set[tuple[str, str, str]]:
    """Return (topic, role, kind) for each role that may append a topic; `topics` are pairs of topic and stream prefix
    (kind).
    """
    return {
        (topic, ROLES[role], kind)
        for topic, kind in topics
        for role in _OF_TOPIC.get(topic, _OF_AGGREGATE.get(kind, _API))
    }


class RoleNotReset(OperatorError):
    """A database role has a harmful setting that `migrate` may not reset. The message has the superuser's statement."""


class RoleMissing(OperatorError):
    """A database role or its rights are missing. The message has the statement for a superuser."""


HARMFUL_SETTINGS = ("role", "session_authorization", "session_replication_role")
"""Settings of a role that `pg_settings` does not list, or that only a superuser sets."""
TIME_OUTS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "synchronous_commit",
    "timezone",
)
"""Settings that the service's sessions set themselves.

`migrate` keeps these settings, and settings of planner and resources.
"""
_SELECT_HARMFUL = """
SELECT r.rolname, d.datname, own
FROM pg_db_role_setting AS s JOIN pg_roles AS r ON r.oid = s.setrole
    LEFT JOIN pg_database AS d ON d.oid = s.setdatabase, unnest(s.setconfig) AS setting,
    split_part(lower(setting), '=', 1) AS own
WHERE r.rolname = ANY(%s) AND (d.datname IS NULL OR d.datname = current_database())
  AND (own = ANY(%s) OR EXISTS (
      SELECT FROM pg_settings AS g
      WHERE lower(g.name) = own AND g.context = 'user' AND g.category !~ '^(Query Tuning|Resource Usage)'
        AND own <> ALL(%s)))
"""
"""Settings that stop the service or change what its queries read and write, for instance `exit_on_error`.

A role may set them for itself permanently.
"""
_LARGE_OBJECTS = ["lo_create(oid)", "lo_creat(integer)", "lo_from_bytea(oid, bytea)", "lo_put(oid, bigint, bytea)",
                  "lowrite(integer, bytea)", "lo_open(oid, integer)"]  # fmt: skip
"""Functions that write large objects, which no erasure reaches."""
_SELECT_OWN_FUNCTIONS = """
SELECT oid::regprocedure::text FROM pg_proc
WHERE oid = ANY(%s::text[]::regprocedure[]) AND pg_has_role(proowner, 'USAGE')
"""
"""Query of functions whose rights this user may revoke. For other functions, Postgres can refuse even the attempt."""


def make_roles(connection: Connection[Any], service_role: str | None) -> None:
    """Create missing roles. Grant membership in all of them to the service's own role, if there is one.

    The service may have one role for all processes, for instance on a managed Postgres.
    Raises RoleMissing, RoleNotReset.
    """
    for role in ROLES.values():
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).rowcount:
            continue
        try:
            connection.execute(SQL("CREATE ROLE {}").format(Identifier(role)))
        except (DuplicateObject, UniqueViolation):
            continue  # another `migrate` on this server has created it meanwhile
        except InsufficientPrivilege as error:
            raise RoleMissing(
                f"The database must have the role {role}, which {_user(connection)} may not create. As a superuser: "
                f"CREATE ROLE {role} LOGIN PASSWORD '…'"
            ) from error
    _reset_settings(connection)
    if service_role and service_role not in (*ROLES.values(), _user(connection)):
        for role in ROLES.values():
            _grant_membership(connection, role, service_role)


def _reset_settings(connection: Connection[Any]) -> None:
    """Reset harmful settings of the roles. Raises RoleNotReset."""
    roles = list(ROLES.values())
    found = rows_of(connection, _SELECT_HARMFUL, roles, list(HARMFUL_SETTINGS), list(TIME_OUTS))
    for role, database, setting in found:
        scope = SQL("IN DATABASE {} ").format(Identifier(database)) if database else SQL("")
        resetting = SQL("ALTER ROLE {} {}RESET {}").format(Identifier(role), scope, Identifier(setting))
        try:
            connection.execute(resetting)
        except InsufficientPrivilege as error:
            raise RoleNotReset(
                f"The role {role} must not have the setting {setting}, which {_user(connection)} may not reset. As a "
                f"superuser: {resetting.as_string(connection)}"
            ) from error


def _grant_membership(connection: Connection[Any], role: str, service_role: str) -> None:
    if connection.execute("SELECT WHERE pg_has_role(%s, %s, 'USAGE')", (service_role, role)).rowcount:
        return
    try:
        connection.execute(SQL("GRANT {} TO {}").format(Identifier(role), Identifier(service_role)))
    except InsufficientPrivilege as error:
        raise RoleMissing(
            f"The role {service_role} must have the rights of {role}, which {_user(connection)} may not grant. As a "
            f"superuser: GRANT {role} TO {service_role}"
        ) from error


def grant_on_log(connection: Connection[Any], topics: Iterable[tuple[str, str]], service_role: str | None) -> None:
    """Grant the rights declared above, in the connection's transaction, and revoke all others."""
    database = Identifier(connection.info.dbname)
    connection.execute(SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(database))
    functions = rows_of(connection, _SELECT_OWN_FUNCTIONS, _LARGE_OBJECTS)
    for (function,) in functions:
        connection.execute(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC".encode())
    for table, rights in LOG_RIGHTS.items():
        schema, _, name = table.rpartition(".")
        grant_rights(connection, Identifier(schema or "public", name), rights, service_role)
    for (table, kind, right), names in COLUMNS.items():
        columns = SQL(", ").join(map(Identifier, names))
        granting = SQL("GRANT {} ({}) ON {} TO {}")
        connection.execute(granting.format(SQL(right), columns, Identifier(table), Identifier(ROLES[kind])))
    for kind, role in ROLES.items():
        connection.execute(SQL("GRANT USAGE ON SCHEMA platform TO {}").format(Identifier(role)))
        for function, kinds in _FUNCTIONS.items():
            verb = SQL("GRANT EXECUTE ON FUNCTION {} TO {}" if kind in kinds else "REVOKE ALL ON FUNCTION {} FROM {}")
            connection.execute(verb.format(Identifier(function), Identifier(role)))
        for sequence, kinds in _SEQUENCES.items():
            verb = SQL("GRANT USAGE, SELECT ON SEQUENCE {} TO {}" if kind in kinds else "REVOKE ALL ON {} FROM {}")
            connection.execute(verb.format(Identifier(*sequence.split(".")), Identifier(role)))
    connection.execute("DELETE FROM appenders")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO appenders (topic, role, kind) VALUES (%s, %s, %s)", sorted(appenders(topics)))


def grant_rights(
    connection: Connection[Any], table: Composable, rights: Rights, service_role: str | None = None
) -> None:
    """Grant these rights on a table and no other, whatever was granted before."""
    for role in {*ROLES.values(), service_role or ROLES["api"]} - {_user(connection)}:
        connection.execute(SQL("REVOKE ALL ON {} FROM {}").format(table, Identifier(role)))
    for kind, role in ROLES.items():
        if verbs := rights.of(kind):
            granting = SQL("GRANT {} ON {} TO {}").format(SQL(", ").join(map(SQL, verbs)), table, Identifier(role))
            connection.execute(granting)


def _user(connection: Connection[Any]) -> str:
    return str(value_of(connection, "SELECT current_user::text"))
