"""Each database role of the service may do what is declared: compared, and tried as the role itself."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.errors import CheckViolation, InsufficientPrivilege

from embedded.postgres import PostgresUrls
from eventstore.aggregates.user import INERT, DisableUser, stream_of
from eventstore.events import AGGREGATES
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of
from eventstore.operations.backup import read_manifest, restore, write_backup
from eventstore.operations.rights import (
    COLUMNS,
    LOG_RIGHTS,
    ROLES,
    UNGUARDED,
    Rights,
    RoleMissing,
    RoleNotReset,
    appenders,
)
from projections import INLINE, PROJECTIONS
from projections.versions.install import migrate_all
from tests.support.console import new_user
from tests.support.databases import Admin
from workers.operations import change_user

DECLARED: dict[str, Rights] = {**LOG_RIGHTS} | {
    f"{projection.home}.{table}".removeprefix("public."): projection.rights_on(table)
    for projection in PROJECTIONS
    for table in projection.tables
}
TOPICS = {topic: aggregate.prefix for aggregate in AGGREGATES.values() for topic in aggregate.topics}
APPENDERS = {(topic, role) for topic, role, _ in appenders(TOPICS.items())}
_SELECT_PRIVILEGES = """
SELECT CASE n.nspname WHEN 'public' THEN '' ELSE n.nspname || '.' END || c.relname, r.rolname, p.verb
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN unnest(%s::text[]) AS r (rolname)
CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER,MAINTAIN}'::text[]) AS p (verb)
WHERE n.nspname IN ('public', 'platform') AND c.relkind IN ('r', 'v')
  AND has_table_privilege(r.rolname, c.oid, p.verb)
"""
_SELECT_COLUMN = """
SELECT attname FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND attidentity = '' ORDER BY attnum LIMIT 1
"""
_APPEND = """
SELECT append_events(ARRAY[%s || '/x/' || gen_random_uuid()], ARRAY[1], ARRAY[%s], ARRAY[NULL], ARRAY[''], ARRAY[NULL],
                     '', ARRAY[''::bytea], '{}', '{}', '{}', '{}', '{}', '{}', '{}')
"""


@pytest.fixture(scope="module")
def sessions(shared_database: PostgresUrls) -> Iterator[dict[str, Connection[Any]]]:
    """A connection of each role to a database with a user, in which nobody else may make temporary tables."""
    with (
        psycopg.connect(shared_database.admin, autocommit=True) as admin,
        closing(Ledger(shared_database.service, views=INLINE)) as ledger,
        ExitStack() as stack,
    ):
        new_user(ledger)
        admin.execute(f"REVOKE TEMPORARY ON DATABASE {admin.info.dbname} FROM PUBLIC".encode())
        yield {kind: stack.enter_context(connected(shared_database, kind)) for kind in ROLES}


@contextmanager
def connected(database: PostgresUrls, kind: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(database.roles[kind], autocommit=True) as connection:
        yield connection


@pytest.mark.promise("database-role-each")
def test_the_privileges_of_each_role_are_those_that_are_declared(shared_admin: Admin) -> None:
    declared = {
        (table, role, verb)
        for table, rights in DECLARED.items()
        for kind, role in ROLES.items()
        for verb in rights.of(kind)
    }
    assert set(rows_of(shared_admin, _SELECT_PRIVILEGES, list(ROLES.values()))) == declared
    of_columns = rows_of(
        shared_admin,
        "SELECT table_name, grantee, privilege_type, array_agg(column_name::text)"
        " FROM information_schema.column_privileges"
        " WHERE privilege_type <> 'SELECT' AND grantee = ANY(%s) AND (table_name, grantee, privilege_type) NOT IN"
        "  (SELECT table_name, grantee, privilege_type FROM information_schema.table_privileges)"
        " GROUP BY 1, 2, 3",
        list(ROLES.values()),
    )
    columns = {(table, role, verb): set(names) for table, role, verb, names in of_columns}
    assert columns == {(table, ROLES[kind], verb): set(names) for (table, kind, verb), names in COLUMNS.items()}


def test_no_role_is_more_than_a_role(shared_admin: Admin) -> None:
    query = (
        "SELECT rolname FROM pg_roles AS r WHERE rolname = ANY(%s) AND (rolsuper OR rolcreaterole OR rolcreatedb"
        " OR rolbypassrls OR rolreplication OR EXISTS (SELECT FROM pg_auth_members WHERE member = r.oid))"
    )
    assert rows_of(shared_admin, query, list(ROLES.values())) == []


@pytest.mark.promise("database-role-each")
@pytest.mark.parametrize("kind", ROLES)
def test_each_verb_that_is_not_declared_is_refused_to_the_role_itself(
    sessions: dict[str, Connection[Any]], shared_admin: Admin, kind: str
) -> None:
    columns = {table: shared_admin.execute(_SELECT_COLUMN, (table,)).fetchall()[0][0] for table in DECLARED}
    for table, rights in DECLARED.items():
        statements = {
            "SELECT": "SELECT {column} FROM {table} LIMIT 0",
            "INSERT": "INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {table} LIMIT 0",
            "UPDATE": "UPDATE {table} SET {column} = NULL",
            "DELETE": "DELETE FROM {table}",
            "TRUNCATE": "TRUNCATE {table}",
        }
        if table.endswith("_events"):
            del statements["TRUNCATE"]  # of a view there is no such thing
            statements["INSERT"] = "INSERT INTO {table} ({column}) VALUES (NULL)"
        for verb in statements.keys() - set(rights.of(kind)):
            with pytest.raises(InsufficientPrivilege):
                sessions[kind].execute(statements[verb].format(table=table, column=columns[table]))


@pytest.mark.promise("database-role-each")
@pytest.mark.parametrize("kind", ROLES)
def test_an_event_is_appended_by_the_roles_that_are_named_for_it(
    sessions: dict[str, Connection[Any]], kind: str
) -> None:
    for topic in sorted(TOPICS.keys() - set(UNGUARDED)):
        if (topic, ROLES[kind]) in APPENDERS:
            sessions[kind].execute(_APPEND, (TOPICS[topic], topic))
        else:
            with pytest.raises(InsufficientPrivilege, match=f"may not append {topic}"):
                sessions[kind].execute(_APPEND, (TOPICS[topic], topic))


@pytest.mark.promise("database-role-each")
@pytest.mark.parametrize("kind", ROLES)
def test_no_role_makes_a_key_irrevocable_by_an_event_of_another_kind(
    sessions: dict[str, Connection[Any]], kind: str
) -> None:
    for topic in {*UNGUARDED, *(topic for topic, _ in APPENDERS)}:
        for prefix in {"organisation", "user", "owner-task", "importer"} - {TOPICS[topic]}:
            with pytest.raises(InsufficientPrivilege, match=f"may not append {topic}"):
                sessions[kind].execute(_APPEND, (prefix, topic))


@pytest.mark.parametrize("topic", sorted(INERT))
def test_no_role_keeps_a_user_from_being_disabled(
    database: PostgresUrls, ledger: Ledger, owner: Ledger, topic: str
) -> None:
    user_id = new_user(ledger)
    append = _APPEND.replace("%s || '/x/' || gen_random_uuid()", "%s").replace("ARRAY[1]", "ARRAY[%s]")
    with connected(database, "api") as connection:
        connection.execute(append, (stream_of(user_id), 2, topic))
        with pytest.raises(InsufficientPrivilege):
            connection.execute(append, (stream_of(user_id), 2**31 - 1, topic))
    assert change_user(owner, user_id, DisableUser(), by="operator:test")


def _appended(topic: str) -> str:
    return _APPEND.replace("%s", f"'{TOPICS[topic]}'", 1).replace("%s", f"'{topic}'")


FORBIDDEN = {
    "ask for a key in an operator's name": (_appended("owner_task_requested.v1"), {"worker", "relay"}),
    "give a key": (_appended("key_created.v1"), set(ROLES)),
    "change a role by an event": (_appended("user_role_changed.v1"), set(ROLES)),
    "change a role in the view": ("UPDATE console_user SET role = 'operator'", set(ROLES)),
    "make a key valid": ("UPDATE access_key SET revoked_at = NULL", set(ROLES)),
    "write a link": ("INSERT INTO sign_in_links VALUES ('x', 'u', now())", set(ROLES)),
    "begin a session": ("INSERT INTO user_sessions VALUES ('x', 's', 'u', now(), now())", {"worker", "relay"}),
    "set a password": ("UPDATE user_details SET password_hash = 'x'", {"worker", "relay"}),
    "take over an address": ("UPDATE user_details SET email = 'me@example.org'", set(ROLES)),
    "read passwords": ("SELECT password_hash FROM user_details", {"worker", "relay"}),
    "take the last position there is": (
        "INSERT INTO events (position, stream, version, topic, recorded_at, caused_by, code_version, state)"
        " VALUES (9223372036854775807, 'import/S/1', 1, 'import_staged.v1', now(), '', '', '')",
        set(ROLES),
    ),
    "append what fills the memory of all followers": (
        "SELECT append_events(ARRAY['import/S/1'], ARRAY[1], ARRAY['import_staged.v1'], ARRAY['S'], ARRAY[''],"
        " ARRAY[''], '', ARRAY[convert_to(repeat('x', 2000000), 'UTF8')], '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
        set(ROLES),
    ),
    "store what fills the memory of whoever reads the payload": (
        "SELECT append_events('{}', '{}', '{}', '{}', '{}', '{}', '', '{}', '{import/S/1}', '{x}', '{1}',"
        " ARRAY[convert_to(repeat('x', 20000000), 'UTF8')], '{import/S/1}', '{}', '{}')",
        set(ROLES),
    ),
    "say that a person was erased": (
        "INSERT INTO payload_keys (stream, erased_at) VALUES ('import/S/1', now())",
        set(ROLES),
    ),
    "draw account numbers until there are none": (
        "SELECT setval('platform.account_sequence', 9223372036854775807)",
        set(ROLES),
    ),
    "take numbers of refused attempts": (
        "INSERT INTO refused_attempts OVERRIDING SYSTEM VALUE VALUES (1, 'S', '1', now(), '', '', '{}', NULL)",
        set(ROLES),
    ),
    "accept a log before it is there": (
        "INSERT INTO log_comparisons (started_at, file) VALUES ('2100-01-01Z', 'x')",
        set(ROLES),
    ),
    "keep the service unready for ever": (
        "INSERT INTO troubles (process, name, error, times, is_waiting, seen_at)"
        " VALUES ('p', 'n', 'e', 1, false, 'infinity')",
        set(ROLES),
    ),
    "stop the sealer by a request that it cannot read": (
        "INSERT INTO statement_requests (id, body, requested_at) VALUES (gen_random_uuid(), '{}', '-infinity')",
        set(ROLES),
    ),
    "fill the sealer's memory": (
        "INSERT INTO statement_requests (id, body) VALUES (gen_random_uuid(), repeat('x', 4000000))",
        set(ROLES),
    ),
    "give a reason that no page can show": (
        "INSERT INTO typed_reasons VALUES ('r', 'u', 's', 'infinity', '')",
        set(ROLES),
    ),
    "end a sum of somebody else": ("DELETE FROM reconciliations", {"worker"}),
    "make a sum of its own": ("UPDATE reconciliations SET totals = ''", {"api", "relay"}),
    "hide tables behind temporary ones": ("CREATE TEMPORARY TABLE events ()", set(ROLES)),
    "delete events": ("DELETE FROM events", set(ROLES)),
    "change events": ("UPDATE events SET state = ''", set(ROLES)),
    "switch the guards off": ("ALTER TABLE events DISABLE TRIGGER USER", set(ROLES)),
    "let others append": ("INSERT INTO appenders VALUES ('key_created.v1', current_user)", set(ROLES)),
    "throw keys of payloads away": ("DELETE FROM payload_keys", set(ROLES)),
    "say that the log was compared": ("INSERT INTO log_comparisons DEFAULT VALUES", {"api", "worker"}),
    "end a stop of the intake": ("UPDATE intake_stops SET ended_at = now()", {"api", "worker"}),
    "sign a statement": ("UPDATE statement_requests SET signed = 'x'", {"api", "worker"}),
    "act as the owner": ("SET ROLE importledger_admin", set(ROLES)),
    "act as another role": ("SET ROLE importledger", set(ROLES)),
    "make a table": ("CREATE TABLE public.mine ()", set(ROLES)),
    "make a large object": ("SELECT lo_from_bytea(0, 'a name'::bytea)", set(ROLES)),
    "keep an account from being created": (
        "SELECT add_payload_keys(ARRAY['import/S/1'], ARRAY[''::bytea])",
        {"worker", "relay", "api"},
    ),
}


@pytest.mark.promise("database-role-each")
@pytest.mark.parametrize("kind", ROLES)
def test_what_gives_power_is_refused(sessions: dict[str, Connection[Any]], kind: str) -> None:
    allowed = []
    for name, (statement, kinds) in FORBIDDEN.items():
        if kind in kinds:
            try:
                sessions[kind].execute(statement)
            except (InsufficientPrivilege, CheckViolation):
                continue
            allowed.append(name)
    assert allowed == []


@pytest.mark.promise("database-role-each")
@pytest.mark.parametrize("kind", ROLES)
def test_no_role_hides_the_owner_of_the_log_behind_a_table_of_its_own(database: PostgresUrls, kind: str) -> None:
    with connected(database, kind) as connection:
        connection.execute(
            "CREATE TEMPORARY TABLE pg_class AS SELECT oid, current_user::regrole::oid AS relowner FROM pg_class"
        )
        connection.execute("CREATE TEMPORARY TABLE appenders AS SELECT 'key_created.v1' AS topic, current_user AS role")
        with pytest.raises(InsufficientPrivilege, match="may not append key_created"):
            connection.execute(_APPEND, ("organisation", "key_created.v1"))


def test_each_role_reports_and_takes_back_its_own_troubles(database: PostgresUrls) -> None:
    trouble = "INSERT INTO troubles (process, name, error, times, is_waiting) VALUES ('p', 'n', 'e', 1, false)"
    with connected(database, "api") as api, connected(database, "worker") as worker:
        api.execute(trouble)
        assert worker.execute("DELETE FROM troubles").rowcount == 0
        assert worker.execute("UPDATE troubles SET error = ''").rowcount == 0
        worker.execute(trouble)
        with pytest.raises(InsufficientPrivilege):
            worker.execute("UPDATE troubles SET role = 'importledger_api'")
        with pytest.raises(InsufficientPrivilege):
            worker.execute("UPDATE troubles SET seen_at = 'infinity'")
        assert worker.execute("UPDATE troubles SET seen_at = clock_timestamp()").rowcount == 1
        assert worker.execute("SELECT FROM troubles").rowcount == 2
        assert api.execute("DELETE FROM troubles").rowcount == 1


def test_a_role_that_had_more_rights_loses_them(database: PostgresUrls, admin: Admin) -> None:
    for role in (*ROLES.values(), "importledger"):
        admin.execute(f"GRANT ALL ON console_user, events, user_details, access_key TO {role}")
    migrate_all(database.admin, service_role="importledger")
    for kind in ROLES:
        with connected(database, kind) as connection:
            for statement in ("UPDATE console_user SET role = 'operator'", "CREATE TEMPORARY TABLE mine ()"):
                with pytest.raises(InsufficientPrivilege):
                    connection.execute(statement)
    with psycopg.connect(database.service, autocommit=True) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute("UPDATE console_user SET role = 'operator'")


@pytest.fixture
def plain_owner(postgres: PostgresUrls) -> Iterator[str]:
    """URL of a new database, as its owner, who is no superuser."""
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        admin.execute("CREATE ROLE plain_owner LOGIN PASSWORD 'x'")
        admin.execute("CREATE DATABASE of_a_plain_owner OWNER plain_owner")
        yield psycopg.conninfo.make_conninfo(
            postgres.admin, user="plain_owner", password="x", dbname="of_a_plain_owner"
        )
        admin.execute("DROP DATABASE of_a_plain_owner WITH (FORCE)")
        admin.execute("DROP ROLE plain_owner")


def test_an_owner_who_may_not_grant_roles_is_told_what_a_superuser_must_do(
    postgres: PostgresUrls, plain_owner: str
) -> None:
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        admin.execute("CREATE ROLE one_for_all")
        try:
            with pytest.raises(RoleMissing, match="As a superuser: GRANT importledger_api TO one_for_all"):
                migrate_all(plain_owner, service_role="one_for_all")
            migrate_all(plain_owner)
        finally:
            admin.execute("DROP ROLE one_for_all")


def test_an_owner_who_may_not_reset_a_role_is_told_what_a_superuser_must_do(
    postgres: PostgresUrls, plain_owner: str
) -> None:
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        admin.execute("ALTER ROLE importledger_relay IN DATABASE of_a_plain_owner SET search_path = elsewhere")
        statement = 'ALTER ROLE "importledger_relay" IN DATABASE "of_a_plain_owner" RESET "search_path"'
        with pytest.raises(RoleNotReset, match=f"As a superuser: {statement}"):
            migrate_all(plain_owner)
        admin.execute(statement.encode())
    migrate_all(plain_owner)


def test_an_owner_without_any_right_on_large_objects_migrates_all_the_same(
    postgres: PostgresUrls, plain_owner: str
) -> None:
    with psycopg.connect(postgres.admin, dbname="of_a_plain_owner", autocommit=True) as admin:
        admin.execute("REVOKE ALL ON FUNCTION lo_create(oid), lowrite(integer, bytea) FROM PUBLIC")
    migrate_all(plain_owner)


@pytest.mark.parametrize("owns_database", [True, False])
def test_the_schemas_owner_restores_although_others_make_no_temporary_tables(
    postgres: PostgresUrls, database: PostgresUrls, plain_owner: str, folder: Path, owns_database: bool
) -> None:
    if not owns_database:
        with psycopg.connect(postgres.admin, dbname="of_a_plain_owner", autocommit=True) as admin:
            admin.execute("ALTER DATABASE of_a_plain_owner OWNER TO CURRENT_USER")
            admin.execute("GRANT CREATE ON DATABASE of_a_plain_owner TO plain_owner")
            admin.execute("GRANT ALL ON SCHEMA public TO plain_owner")
    migrate_all(plain_owner)
    write_backup(database.service, folder / "backup")
    assert restore(plain_owner, folder / "backup", read_manifest(folder / "backup")) == []


HARMFUL = {
    "default_transaction_read_only": "on",
    "search_path": "elsewhere",
    "exit_on_error": "on",
    "idle_session_timeout": "10min",
    "restrict_nonsystem_relation_kind": "view",
    "gin_fuzzy_search_limit": "1",
    "log_parameter_max_length_on_error": "-1",
    "DateStyle": "German",
}
"""Settings that a role may set for itself, with values that stop or deceive the service."""


@pytest.mark.parametrize("place", ["", "IN DATABASE {database} "])
def test_a_role_that_makes_itself_read_only_writes_again_after_migrate(database: PostgresUrls, place: str) -> None:
    """Settings of the operator stay."""
    kept = {"statement_timeout": "77s", "work_mem": "5MB", "enable_hashjoin": "off"}
    with connected(database, "api") as connection:
        place = place.format(database=connection.info.dbname)
        before = {name: connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in HARMFUL}
        for name, value in (HARMFUL | kept).items():
            connection.execute(f"ALTER ROLE importledger_api {place}SET {name} = '{value}'".encode())
    try:
        migrate_all(database.admin, service_role="importledger")
        with connected(database, "api") as connection:
            for name, value in (before | kept).items():
                assert connection.execute(f"SHOW {name}".encode()).fetchone() == (value,)
    finally:
        with psycopg.connect(database.admin, autocommit=True) as admin:
            admin.execute(f"ALTER ROLE importledger_api {place}RESET ALL".encode())
