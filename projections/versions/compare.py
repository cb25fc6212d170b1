"""Comparing a projection with the log, row by row, as of one moment; and healing what differs for some streams."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import dict_row, tuple_row
from psycopg.sql import SQL, Composed, Identifier, Literal

from eventstore.log import locks
from projections.versions.build import Progress, administrator, apply_events, build, make_tables
from projections.versions.projection import Projection
from projections.versions.reading import Poison, head, wait_for_erasures
from projections.versions.versions import ProjectionVersion, held, live_version, parked_streams


class Difference(msgspec.Struct, frozen=True):
    """A row that is in one of two versions of a table only, or differs."""

    table: str
    key: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @property
    def columns(self) -> list[str]:
        """The columns that differ."""
        if self.before is None or self.after is None:
            return []
        return [name for name, value in self.after.items() if self.before[name] != value]

    @property
    def cause(self) -> str:
        """The event that the row should follow from, and where the row was last written; "" where rows do not say."""
        if self.after is None:
            return "no event of the log makes this row"
        position = self.after.get("position")
        if position is None:
            return ""
        written = self.before["position"] if self.before else None
        if written == position:
            return f"the event at {position} was applied, and the row was changed since"
        last = f"the row was last written at {written}" if written else "there is no row"
        return f"{last}; the event at {position} was not applied"


class Comparison(msgspec.Struct, frozen=True):
    """How many rows were changed, added and removed between two versions, and the first of them."""

    changed: int = 0
    added: int = 0
    removed: int = 0
    first: tuple[Difference, ...] = ()
    parked: int = 0

    @property
    def count(self) -> int:
        return self.changed + self.added + self.removed


@contextmanager
def one_moment(connection: Connection[Any]) -> Iterator[None]:
    """Everything that is read in here is as of one moment, and everything that is written is undone."""
    with connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def verify(
    admin_url: str,
    connection: Connection[Any],
    projection: Projection,
    *,
    limit: int,
    progress: Progress = lambda done: None,
) -> Comparison:
    """Compare the live version with what the log says; `before` is live, `after` is the log. Notes the outcome."""
    schema = f"{projection.name}_verified"
    with one_moment(connection):
        live = live_version(connection, projection.name)
        upto = head(connection) if projection.is_inline else live.position
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        make_tables(connection, projection, schema)
        build(admin_url, connection, projection, schema, upto=upto, is_kept=False, progress=progress)
        before = _as_of_its_position(connection, projection, upto) if projection.is_ahead else projection.home
        comparison = compare(connection, projection, before, schema, limit=limit)
    return noted(connection, live, comparison)


def _as_of_its_position(connection: Connection[Any], projection: Projection, position: int) -> str:
    """A schema with the live tables, but for what appends have written ahead: rows of streams that began later."""
    schema = f"{projection.name}_as_of_its_position"
    connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    for table in projection.tables:
        connection.execute(
            SQL(
                "CREATE VIEW {} AS SELECT * FROM {} AS t WHERE NOT EXISTS"
                " (SELECT FROM events AS e WHERE e.stream = t.stream AND e.version = 1 AND e.position > {})"
            ).format(Identifier(schema, table), Identifier(projection.home, table), Literal(position))
        )
    return schema


def noted(connection: Connection[Any], live: ProjectionVersion, comparison: Comparison) -> Comparison:
    """The comparison of the live version with the log, which its row says from now on; with what is parked."""
    connection.execute(
        "UPDATE projection_versions SET verified_at = clock_timestamp(), differences = %s"
        " WHERE name = %s AND version = %s",
        (comparison.count, live.name, live.version),
    )
    parked = len(parked_streams(connection, live.name, live.version))
    return msgspec.structs.replace(comparison, parked=parked)


@contextmanager
def side_by_side(
    admin_url: str, connection: Connection[Any], projection: Projection, other: ProjectionVersion
) -> Iterator[None]:
    """One moment, in which the live version and another have both come to the log's end; that is undone."""
    with administrator(admin_url) as guard, guard.transaction():
        live = held(guard, projection.name)  # no follower changes its tables meanwhile
        with one_moment(connection):
            upto = head(connection)
            places = [(other.schema, other)] + ([] if projection.is_inline else [(projection.home, live)])
            for schema, version in places:
                parked = parked_streams(connection, projection.name, version.version)
                apply_events(connection, projection, schema, after=version.position, upto=upto, parked=parked)
            yield


def compare(connection: Connection[Any], projection: Projection, before: str, after: str, *, limit: int) -> Comparison:
    """What differs between the tables of two schemas; which columns name a row is read from the live tables."""
    changed = added = removed = 0
    first: list[Difference] = []
    for table in projection.tables:
        if _digest(connection, before, table) == _digest(connection, after, table):
            continue
        key = _key_columns(connection, projection.home, table)
        with connection.cursor(row_factory=tuple_row) as cursor:
            rows = cursor.execute(_different(connection, before, after, table, key, max(limit, 1))).fetchall()
        changed, added, removed = (
            total + number for total, number in zip((changed, added, removed), rows[0][:3], strict=True)
        )
        for *_, old, new in rows[: max(0, limit - len(first))]:
            named = old if new is None else new
            first.append(Difference(table, {column: named[column] for column in key}, old, new))
    return Comparison(changed, added, removed, tuple(first))


def _different(
    connection: Connection[Any], before: str, after: str, table: str, key: Sequence[str], limit: int
) -> Composed:
    """The first rows that two schemas do not have alike, each with the numbers of all that changed, came and went."""
    return SQL(
        "SELECT changed, added, removed, to_json(b), to_json(a) FROM ("
        " SELECT *, count(*) FILTER (WHERE b::text IS NOT NULL AND a::text IS NOT NULL) OVER () AS changed,"
        "  count(*) FILTER (WHERE b::text IS NULL) OVER () AS added,"
        "  count(*) FILTER (WHERE a::text IS NULL) OVER () AS removed"
        " FROM (SELECT {key}, t AS b FROM {before} AS t) AS old"
        " FULL JOIN (SELECT {key}, t AS a FROM {after} AS t) AS new USING ({key})"
        " WHERE b::text IS DISTINCT FROM a::text"
        " ORDER BY {key} LIMIT {limit}"
        ") AS different ORDER BY {key}"
    ).format(
        key=SQL(", ").join(map(Identifier, key)),
        before=_rows_of(connection, before, table),
        after=_rows_of(connection, after, table),
        limit=limit,
    )


def _digest(connection: Connection[Any], schema: str, table: str) -> tuple[Any, ...]:
    """Rows and the sum of their hashes: the same for the same rows in any order."""
    query = SQL("SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {} AS t")
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query.format(_rows_of(connection, schema, table))).fetchone()
    assert row is not None
    return tuple(row)


def _rows_of(connection: Connection[Any], schema: str, table: str) -> Composed:
    """The table with its columns by name: migrations append columns that a declaration has elsewhere."""
    query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(query, (f'"{schema}"."{table}"',))
        columns = sorted(name for (name,) in cursor)
    return SQL("(SELECT {} FROM {})").format(SQL(", ").join(map(Identifier, columns)), Identifier(schema, table))


def _key_columns(connection: Connection[Any], schema: str, table: str) -> list[str]:
    query = (
        "SELECT a.attname AS name FROM pg_index AS x JOIN pg_attribute AS a ON a.attrelid = x.indrelid"
        " AND a.attnum = ANY(x.indkey) WHERE x.indisprimary AND x.indrelid = %s::regclass"
        " ORDER BY array_position(x.indkey::int2[], a.attnum)"
    )
    with connection.cursor(row_factory=dict_row) as cursor:
        return [row["name"] for row in cursor.execute(query, (f'"{schema}"."{table}"',))]


class Healed(msgspec.Struct, frozen=True):
    """What became of one projection: made anew, or why not."""

    name: str
    says: str
    is_parked: bool = False


def heal(connection: Connection[Any], projection: Projection, streams: list[str]) -> Healed:
    """Make the rows of these streams anew, in one transaction, and let those go on that were parked."""
    with connection.transaction():
        live = held(connection, projection.name)  # first, here as in a switch
        if projection.holds_persons:
            wait_for_erasures(connection)
        parked = _parked(connection, live.name, live.version, streams)
        poisons, is_sum = _healed(connection, projection, live, parked, streams)
        connection.execute(
            "DELETE FROM parked_streams WHERE name = %s AND version = %s AND stream = ANY(%s) AND NOT stream = ANY(%s)",
            (live.name, live.version, streams, [poison.stream for poison in poisons]),
        )
    if poisons:
        return Healed(projection.name, f"still parked at {poisons[0].position}: {poisons[0].error}", is_parked=True)
    if parked:
        return Healed(projection.name, "goes on")
    return Healed(projection.name, "adds up all accounts, and nothing was left out" if is_sum else "made anew")


def _healed(
    connection: Connection[Any],
    projection: Projection,
    live: ProjectionVersion,
    parked: Mapping[str, int],
    streams: Sequence[str],
) -> tuple[list[Poison], bool]:
    """Replace the rows of these streams, or add to sums over all streams what was left out; return whether it is so.

    Nothing is appended meanwhile that an inline projection would miss: accounts have few events.
    """
    schema = projection.home
    if projection.is_inline:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM if schema == "platform" else locks.LOG,))
    upto = head(connection) if projection.is_inline else live.position
    forgotten = [projection.forget(connection, schema, stream) for stream in streams]
    if all(forgotten):
        return apply_events(connection, projection, schema, after=0, upto=upto, streams=streams), False
    poisons = [
        poison
        for stream, position in parked.items()
        for poison in apply_events(connection, projection, schema, after=position - 1, upto=upto, streams=[stream])
    ]
    return poisons, True


def _parked(connection: Connection[Any], name: str, version: int, streams: list[str]) -> dict[str, int]:
    query = "SELECT stream, position FROM parked_streams WHERE name = %s AND version = %s AND stream = ANY(%s)"
    with connection.cursor(row_factory=tuple_row) as cursor:
        return dict(cursor.execute(query, (name, version, streams)).fetchall())
