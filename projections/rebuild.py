"""Views and platform records made anew from the log: what they are is what the log and the payloads say.

Everything is written into a schema of the caller's choice, so that it can stand beside what is live and be compared.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row, tuple_row
from psycopg.sql import SQL, Identifier

from eventstore.events import Recorded
from eventstore.import_process import ImportProcessed, ImportStaged
from eventstore.ledger import LOG_LOCK, PLATFORM_LOCK, PlatformChange, apply_change, recorded_of
from eventstore.payloads import read_payloads
from eventstore.post_account import RecordCancellationChanged, RecordImported
from eventstore.recorder import View
from projections.platform import TABLES
from projections.platform_change import platform_change

BATCH = 2_000
PLATFORM_BATCH = 500

_SELECT_EVENTS = """
SELECT stream, version, topic, recorded_at, supplier, caused_by, command_id, position, code_version, state
FROM events
WHERE position > %s AND position <= %s
ORDER BY position
LIMIT %s
"""
_SELECT_STAGED = """
SELECT DISTINCT ON (stream) stream, version, topic, recorded_at, supplier, caused_by, command_id, position,
       code_version, state
FROM events
WHERE stream = ANY(%s) AND topic = 'import_staged.v1'
ORDER BY stream, version DESC
"""

Progress = Callable[[int], None]
"""Told the position that has been reached."""


def rebuild_views(
    connection: Connection[Any],
    views: Sequence[View],
    *,
    schema: str,
    upto: int,
    after: int = 0,
    progress: Progress = lambda position: None,
) -> None:
    """Write what the events after one position and up to another make of these views into the schema's tables."""
    statements = {view.name: _upsert_into(view, schema) for view in views}
    for events in _batches(connection, after, upto, BATCH):
        for view in views:
            for rows in _waves(view, events):
                columns = zip(view.columns, zip(*rows, strict=True), strict=True)
                parameters = {f"{view.name}_{column}": list(values) for column, values in columns}
                with connection.cursor(binary=True) as cursor:
                    cursor.execute(statements[view.name], parameters)
        progress(events[-1].position)


def rebuild_platform(
    connection: Connection[Any],
    *,
    schema: str,
    upto: int,
    after: int = 0,
    progress: Progress = lambda position: None,
) -> None:
    """Write what the events after one position and up to another make of the platform's records into the tables."""
    for events in _batches(connection, after, upto, PLATFORM_BATCH):
        bodies = _bodies(connection, events)
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for recorded in events:
            change = platform_change(recorded, bodies.get((recorded.stream, recorded.version)))
            if change is None:
                continue
            if change.deleted:  # rows of this batch may be among them
                apply_change(connection, PlatformChange(copied=rows), schema=schema)
                rows = {}
                apply_change(connection, change, schema=schema)
            else:
                for table, values in change.copied.items():
                    rows.setdefault(table, []).extend(values)
        apply_change(connection, PlatformChange(copied=rows), schema=schema)
        progress(events[-1].position)


def make_schema(connection: Connection[Any], schema: str, views: Sequence[View]) -> None:
    """A schema with empty tables like those of these views and of the platform."""
    connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))
    connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    like = SQL("CREATE TABLE {}.{} (LIKE {}.{} INCLUDING ALL)")
    for live, tables in (("public", views), ("platform", TABLES)):
        for table in tables:
            name = Identifier(table.name)
            connection.execute(like.format(Identifier(schema), name, Identifier(live), name))


def rows_that_differ(connection: Connection[Any], schema: str, live: str, table: str, *, limit: int) -> list[str]:
    """Rows that stand in one of both tables only, as text after `log:` or `live:`."""
    both = (Identifier(schema, table), Identifier(live, table))
    made, present = (SQL("SELECT t::text AS row FROM {} AS t").format(name) for name in both)
    query = SQL(
        "SELECT 'log:  ' || row FROM (({} EXCEPT ALL {})) AS a UNION ALL"
        " SELECT 'live: ' || row FROM (({} EXCEPT ALL {})) AS b LIMIT %s"
    )
    with connection.cursor(row_factory=tuple_row) as cursor:
        return [row for (row,) in cursor.execute(query.format(made, present, present, made), (limit,))]


def differences(connection: Connection[Any], schema: str, views: Sequence[View]) -> dict[str, int]:
    """How many rows of the schema's tables differ from the live ones, by table; tables that agree are left out."""
    found = {}
    for live, tables in (("public", views), ("platform", TABLES)):
        for table in tables:
            both = (Identifier(schema), Identifier(live))
            one, other = (SQL("SELECT t::text FROM {}.{} AS t").format(of, Identifier(table.name)) for of in both)
            query = SQL("SELECT count(*) AS n FROM (({} EXCEPT ALL {}) UNION ALL ({} EXCEPT ALL {})) AS d")
            with connection.cursor(row_factory=dict_row) as cursor:
                row = cursor.execute(query.format(one, other, other, one)).fetchone()
            if row and row["n"]:
                found[f"{live}.{table.name}"] = row["n"]
    return found


def _batches(connection: Connection[Any], after: int, upto: int, size: int) -> Iterator[list[Recorded]]:
    while after < upto:
        with connection.cursor(binary=True, row_factory=dict_row) as cursor:
            events = [recorded_of(row) for row in cursor.execute(_SELECT_EVENTS, (after, upto, size))]
        if not events:
            return
        yield events
        after = events[-1].position


def _waves(view: View, events: Sequence[Recorded]) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of these events in turns that meet no row twice, since one statement may write a row once."""
    waves: list[list[tuple[Any, ...]]] = []
    times: dict[tuple[Any, ...], int] = {}
    for recorded in events:
        row = view.project(recorded, recorded.position)
        if row is None:
            continue
        turn = times.get(row[: view.key_columns], 0)
        times[row[: view.key_columns]] = turn + 1
        if turn == len(waves):
            waves.append([])
        waves[turn].append(row)
    yield from waves


def _upsert_into(view: View, schema: str) -> bytes:
    """The view's statement on the schema's table, with positions as they are."""
    statement = view.upsert.replace(f"INTO {view.name}", f"INTO {schema}.{view.name}")
    statement = statement.replace(f"JOIN {view.name}", f"JOIN {schema}.{view.name}")
    return f"WITH appended AS (SELECT 0::bigint AS base) {statement}".encode()


def _bodies(connection: Connection[Any], events: Sequence[Recorded]) -> dict[tuple[str, int], bytes]:
    """The payload that each of these events speaks of, by stream and version; what was erased is missing."""
    wanted: dict[tuple[str, int], tuple[str, str]] = {}
    processed = {r.stream: r.version for r in events if isinstance(r.event, ImportProcessed)}
    if processed:
        with connection.cursor(binary=True, row_factory=dict_row) as cursor:
            for row in cursor.execute(_SELECT_STAGED, (list(processed),)):
                staged = recorded_of(row)
                assert isinstance(staged.event, ImportStaged)
                wanted[staged.stream, processed[staged.stream]] = (staged.stream, staged.event.payload_sha256)
    for recorded in events:
        if isinstance(recorded.event, RecordImported | RecordCancellationChanged):
            wanted[recorded.stream, recorded.version] = (recorded.stream, recorded.event.payload_sha256)
    found = read_payloads(connection, set(wanted.values()))
    return {place: found[name] for place, name in wanted.items() if name in found}


def head(connection: Connection[Any]) -> int:
    """The last position of the log."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT coalesce(max(position), 0) AS head FROM events").fetchone()
    return int(row["head"]) if row else 0


def switch(connection: Connection[Any], schema: str, views: Sequence[View], *, upto: int) -> int:
    """Put the schema's tables, which are made up to a position, in the place of the live ones; the position then.

    One transaction, with the writers held off: what they have appended meanwhile is caught up first. Readers see the
    old tables until it commits, and the new ones after that.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (PLATFORM_LOCK,))
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOG_LOCK,))
        reached = head(connection)
        rebuild_views(connection, views, schema=schema, after=upto, upto=reached)
        rebuild_platform(connection, schema=schema, after=upto, upto=reached)
        for live, tables in (("public", views), ("platform", TABLES)):
            for table in tables:
                _replace(connection, live, schema, table.name)
    return reached


def _replace(connection: Connection[Any], live: str, schema: str, name: str) -> None:
    """The schema's table instead of the live one, with the rights that were given on it."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(
            "SELECT DISTINCT grantee FROM information_schema.role_table_grants"
            " WHERE table_schema = %s AND table_name = %s AND grantee <> current_user",
            (live, name),
        )
        roles = [role for (role,) in cursor]
    connection.execute(SQL("DROP TABLE {}").format(Identifier(live, name)))
    connection.execute(SQL("ALTER TABLE {} SET SCHEMA {}").format(Identifier(schema, name), Identifier(live)))
    for role in roles:
        granting = SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}")
        connection.execute(granting.format(Identifier(live, name), Identifier(role)))
