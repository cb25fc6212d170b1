"""What a newer version of the log's schema does to a database: which migrations, how long, and who waits."""

from collections.abc import Mapping
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.operations.migrate import MIGRATIONS, known_migrations, refuse_newer
from eventstore.operations.statements import effects, summary_of

NOT_ROLLED = {
    "0043_payloads_with_a_dictionary.sql": "relay and workers of the version before cannot read what this one takes in",
}
"""Migrations beside which processes of the version before cannot go on, and why. Nothing that is not listed may take
away or change what the version before uses."""


class Lock(msgspec.Struct, frozen=True):
    """A lock that a migration takes, and who waits meanwhile: nothing, writes, or reads and writes."""

    table: str
    mode: str
    blocks: str


class Pending(msgspec.Struct, frozen=True):
    """A migration that is to come: what it says of itself, what it does, and about how long it takes."""

    name: str
    summary: str
    does: list[str]
    locks: list[Lock]
    seconds: float
    why_not_rolled: str | None = None


def pending_migrations(connection: Connection[Any]) -> list[Pending]:
    """What `migrate` would apply, in order. Raises MigrationError where the database is newer than this version."""
    refuse_newer(connection)
    applied = known_migrations(connection)
    rows = table_rows(connection)
    return [
        planned(file.name, file.read_text("utf-8"), rows)
        for file in sorted(MIGRATIONS.glob("*.sql"))
        if file.name not in applied
    ]


def planned(name: str, script: str, rows: Mapping[str, int]) -> Pending:
    """What a migration does where the tables have as many rows. Pure."""
    done = effects(script)
    locks = [Lock(one.table, one.lock, one.blocks) for one in done if one.table and one.lock and one.table in rows]
    seconds = sum(one.seconds(rows) for one in done)
    why_not = NOT_ROLLED.get(name) if "events" in rows else None
    return Pending(
        name, summary_of(script), [one.does for one in done], list(dict.fromkeys(locks)), round(seconds, 3), why_not
    )


def table_rows(connection: Connection[Any]) -> dict[str, int]:
    """About how many rows each table has: as the planner thinks; those of the log exactly."""
    query = (
        "SELECT CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END,"
        " greatest(c.reltuples, 0)::bigint"
        " FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE c.relkind = 'r' AND n.nspname IN ('public', 'platform')"
    )
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows: dict[str, int] = dict(cursor.execute(query).fetchall())
        if "events" in rows:
            [(newest,)] = cursor.execute("SELECT coalesce(max(position), 0) FROM events").fetchall()
            rows["events"] = newest
            rows = {name: count if count else _unknown(name, newest) for name, count in rows.items()}
    return rows


def _unknown(table: str, events: int) -> int:
    """A table that was never analysed is taken for as long as the log, where it grows with accounts."""
    return events if table in ("payloads", "payload_keys", "import_status") else 0
