"""Guards of the log in the database: triggers, constraints, functions and rights as migrations have made them.

A missing guard does not prove that the log was altered, but makes an alteration possible, so it is reported as a
warning.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from eventstore.log.rows import rows_of
from eventstore.operations.migrate import APPEND_ONLY, MIGRATIONS
from eventstore.operations.rights import UNGUARDED

_ROW, _BEFORE, _INSERT, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 4, 8, 16, 32
"""Bits of pg_trigger.tgtype; a trigger without the bit _ROW is for each statement."""
_REFUSES_ALL = (_BEFORE | _DELETE | _UPDATE | _TRUNCATE, "refuse_change", "")
_GUARDED = "((new.topic <> ALL (ARRAY[{}])) OR (NOT starts_with(new.stream, 'import/'::text)))".format(
    ", ".join(f"'{topic}'::text" for topic in UNGUARDED)
)
_TRIGGERS = {
    "events_are_append_only": ("events", *_REFUSES_ALL),
    "events_wait_while_stopped": ("events", _BEFORE | _INSERT, "refuse_while_stopped", ""),
    "events_have_their_appenders": ("events", _ROW | _INSERT, "refuse_other_appenders", _GUARDED),
    "log_checkpoints_are_append_only": ("log_checkpoints", *_REFUSES_ALL),
}
"""Triggers by name: table, bits, function that refuses, and condition as Postgres writes it."""

_FUNCTION = re.compile(r"CREATE (?:OR REPLACE )?FUNCTION (\w+)\(.*?AS \$\$(.*?)\$\$", re.DOTALL)

_VIEW = re.compile(r"CREATE (?:OR REPLACE )?VIEW (\w+) AS\n(.*?;)", re.DOTALL)
_VIEWS = ("stored_events", "readable_events")
"""Views of the log with other columns: for the library `eventsourcing`, and for people."""

_SELECT_TRIGGERS = r"""
SELECT c.relname, t.tgname, t.tgenabled, t.tgtype, p.proname,
       coalesce(substring(pg_get_triggerdef(t.oid) FROM ' WHEN \((.*)\) EXECUTE'), '')
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY(%s) AND NOT t.tgisinternal
ORDER BY c.relname, t.tgname
"""
_SELECT_TABLES = """
SELECT c.relname, c.relrowsecurity OR c.relforcerowsecurity,
       EXISTS (SELECT FROM pg_rewrite AS r WHERE r.ev_class = c.oid),
       EXISTS (SELECT FROM pg_constraint AS k WHERE k.conrelid = c.oid AND k.contype = 'p'),
       EXISTS (SELECT FROM pg_inherits AS i WHERE c.oid IN (i.inhparent, i.inhrelid))
FROM pg_class AS c
WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY(%s)
ORDER BY c.relname
"""
_SELECT_GRANTS = """
SELECT DISTINCT c.relname, CASE WHEN g.grantee = 0 THEN 'everybody' ELSE pg_get_userbyid(g.grantee) END,
                g.privilege_type
FROM pg_class AS c
CROSS JOIN LATERAL (
    SELECT (aclexplode(c.relacl)).*
    UNION
    SELECT (aclexplode(a.attacl)).* FROM pg_attribute AS a WHERE a.attrelid = c.oid
) AS g
WHERE c.relnamespace = 'public'::regnamespace
  AND c.relname = ANY(%s)
  AND g.grantee <> c.relowner
  AND (g.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')
       OR g.privilege_type = 'INSERT' AND c.relname IN ('events', 'payloads', 'payload_keys'))
ORDER BY 1, 2, 3
"""
_SELECT_OWNERS = """
SELECT DISTINCT pg_get_userbyid(c.relowner)
FROM pg_class AS c
JOIN pg_roles AS r ON r.rolname = current_user
WHERE c.relnamespace = 'public'::regnamespace
  AND c.relname = ANY(%s)
  AND c.relowner <> r.oid
  AND NOT r.rolsuper
  AND pg_has_role(r.oid, c.relowner, 'MEMBER')
"""
_SELECT_FUNCTIONS = """
SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname = ANY(%s) ORDER BY proname
"""
_SELECT_SHADOWED = """
SELECT name, (SELECT relnamespace::regnamespace || '.' || relname FROM pg_class WHERE oid = to_regclass(name))
FROM unnest(%s::text[]) AS name
WHERE to_regclass(name) IS DISTINCT FROM to_regclass('public.' || name)
"""
_SELECT_SEARCH_PATHS = """
SELECT CASE WHEN setrole <> 0 THEN pg_get_userbyid(setrole)::text ELSE 'the database' END, setting
FROM pg_db_role_setting, unnest(setconfig) AS setting
WHERE setting LIKE 'search_path=%%'
  AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND EXISTS (
      SELECT FROM pg_class AS c
      WHERE c.relname = ANY(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND c.relnamespace <> 'public'::regnamespace AND c.relnamespace <> 'pg_catalog'::regnamespace)
"""
_SELECT_VIEWS = """
SELECT c.relname, pg_get_viewdef(c.oid)
FROM pg_class AS c
WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY(%s) AND c.relkind = 'v'
"""
_SELECT_SWITCHED_OFF = """
SELECT 'session' WHERE current_setting('session_replication_role') <> 'origin'
UNION ALL
SELECT CASE WHEN setrole <> 0 THEN pg_get_userbyid(setrole)::text ELSE 'database' END
FROM pg_db_role_setting, unnest(setconfig) AS setting
WHERE setting LIKE 'session_replication_role=%%' AND setting <> 'session_replication_role=origin'
  AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
"""


_FINDINGS = (
    (_SELECT_SHADOWED, "the name {} means {}, and not the table of the log"),
    (_SELECT_SEARCH_PATHS, "{} has {}, and another schema has tables with names of the log's"),
    (_SELECT_OWNERS, "the service's role may act as {}, who owns the log"),
)
"""Queries of findings about the tables of the log, and the sentence on each row."""


def guards_off(connection: Connection[Any]) -> list[str]:
    """Return a sentence on each guard of the log that is missing, disabled or changed, for this connection's role."""
    return [
        f"WARNED  {sentence}"
        for check in (_triggers, _tables, _views, _grants, _functions, _findings)
        for sentence in check(connection)
    ]


def _triggers(connection: Connection[Any]) -> Iterator[str]:
    missing = dict(_TRIGGERS)
    for table, name, enabled, kind, function, condition in rows_of(connection, _SELECT_TRIGGERS, list(APPEND_ONLY)):
        guarded, *refuses = missing.pop(name, ("",))
        if guarded != table:
            yield f"the table {table} has a trigger {name} that is not the ledger's"
            continue
        if enabled not in ("O", "A"):
            yield f"the trigger {name} on {table}, which refuses changes, is disabled"
        elif [kind, function, condition] != refuses:
            yield f"the trigger {name} on {table} does not refuse all changes any more"
    for name, (table, *_) in missing.items():
        yield f"the trigger {name} on {table}, which refuses changes, is missing"


def _tables(connection: Connection[Any]) -> Iterator[str]:
    for table, has_policies, has_rules, has_key, is_inherited in rows_of(connection, _SELECT_TABLES, list(APPEND_ONLY)):
        if has_policies:
            yield f"row-level security on {table} can hide rows"
        if has_rules:
            yield f"a rule on {table} rewrites its queries"
        if not has_key:
            yield f"the primary key of {table} is missing"
        if is_inherited:
            yield f"the table {table} inherits, or another one inherits from it"
    unique = "SELECT FROM pg_constraint WHERE conname = 'events_stream_version' AND contype = 'u'"
    if not rows_of(connection, unique):
        yield "the constraint events_stream_version is missing: a stream may have a version twice"


def _views(connection: Connection[Any]) -> Iterator[str]:
    known = {name: _plain(body) for name, body in _declared(_VIEW) if name in _VIEWS}
    present = {name: _plain(body) for name, body in rows_of(connection, _SELECT_VIEWS, list(_VIEWS))}
    for name in _VIEWS:
        if present.get(name) != known[name]:
            yield f"the view {name} is missing, or differs from the one in the migration"


def _plain(select: str) -> str:
    """Return a view's SELECT in a form that Postgres' own spelling does not change."""
    without_casts = re.sub(r'::name|\b(?:public|events)\.|["();]', "", select)
    return " ".join(re.sub(r"\s*,\s*", ", ", without_casts).split()).lower()


def _grants(connection: Connection[Any]) -> Iterator[str]:
    granted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for table, role, right in rows_of(connection, _SELECT_GRANTS, list(APPEND_ONLY)):
        granted[table, role].append(right)
    for (table, role), rights in granted.items():
        yield f"{role} has the right to {', '.join(rights)} on {table}"


def _functions(connection: Connection[Any]) -> Iterator[str]:
    known: dict[str, set[str]] = defaultdict(set)
    for name, body in _declared(_FUNCTION):
        known[name].add(body)
    for name, body in rows_of(connection, _SELECT_FUNCTIONS, list(known)):
        if body not in known[name]:
            yield f"the function {name} differs from the one in the migration"


def _declared(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield name and body of each function or view in the migrations, in their order."""
    for file in sorted(MIGRATIONS.glob("*.sql")):
        yield from pattern.findall(file.read_text("utf-8"))


def _findings(connection: Connection[Any]) -> Iterator[str]:
    for query, sentence in _FINDINGS:
        yield from (sentence.format(*row) for row in rows_of(connection, query, list(APPEND_ONLY)))
    for (setting_scope,) in rows_of(connection, _SELECT_SWITCHED_OFF):
        yield f"session_replication_role of {setting_scope} disables triggers"
