"""Whether a projection is what the log says: made anew beside it as of one moment, and compared row by row."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import dict_row, tuple_row
from psycopg.sql import SQL, Composed, Identifier, Literal

from eventstore.aggregates import participant, price_sheet
from eventstore.aggregates.import_process import stream_of
from projections.versions.build import Progress, administrator, apply_events, build, make_tables
from projections.versions.projection import Projection
from projections.versions.reading import head
from projections.versions.versions import ProjectionVersion, held, live_version, parked_streams

Row = Mapping[str, Any]


class Difference(msgspec.Struct, frozen=True):
    """A row that stands in one of two versions of a table only, or differs; `cause` names the event that tells."""

    table: str
    key: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    cause: str = ""

    @property
    def columns(self) -> list[str]:
        """The columns that differ."""
        if self.before is None or self.after is None:
            return []
        return [name for name, value in self.after.items() if self.before[name] != value]


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
        counts = _counts(connection, before, after, table, key)
        changed, added, removed = changed + counts[0], added + counts[1], removed + counts[2]
        if len(first) < limit:
            first += _first(connection, before, after, table, key, limit - len(first))
    return Comparison(changed, added, removed, tuple(first))


def _first(
    connection: Connection[Any], before: str, after: str, table: str, key: Sequence[str], limit: int
) -> list[Difference]:
    query = _joined(connection, "to_json(b), to_json(a)", before, after, table, key) + SQL(" LIMIT {}").format(limit)
    with connection.cursor(row_factory=tuple_row) as cursor:
        different = [_difference(table, key, one, other) for one, other in cursor.execute(query).fetchall()]
    return [msgspec.structs.replace(one, cause=_cause(connection, one, (before, after))) for one in different]


def _difference(table: str, key: Sequence[str], before: Any, after: Any) -> Difference:
    named = after if after is not None else before
    return Difference(table, {column: named[column] for column in key}, before, after)


def _cause(connection: Connection[Any], difference: Difference, schemas: tuple[str, str]) -> str:
    """The event that the row should follow from, and where the row was last written."""
    if difference.after is None:
        return "no event of the log makes this row"
    position = difference.after.get("position")
    if position is None:
        return _last_event(connection, difference, schemas[1])
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT topic FROM events WHERE position = %s", (position,)).fetchone()
    topic = row[0] if row else "nothing"
    written = difference.before["position"] if difference.before else None
    if written == position:
        return f"the event at {position} ({topic}) was applied, and the row was changed since"
    last = f"the row was last written at {written}" if written else "there is no row"
    return f"{last}; the event at {position} ({topic}) was not applied"


def _last_event(connection: Connection[Any], difference: Difference, schema: str) -> str:
    """For platform tables, whose rows do not say which event they follow from."""
    stream = _stream_behind(connection, difference.key, schema)
    if stream is None:
        return ""
    with connection.cursor(row_factory=tuple_row) as cursor:
        query = SQL("SELECT position, topic FROM events WHERE stream = %s ORDER BY version DESC LIMIT 1")
        row = cursor.execute(query, (stream,)).fetchone()
    return f"{stream}: the event at {row[0]} ({row[1]}) says otherwise" if row else ""


def _stream_behind(connection: Connection[Any], key: Mapping[str, Any], schema: str) -> str | None:
    """The stream that a platform row follows from."""
    match key:
        case {"organisation": organisation, "market_participant_code": code, "document_number": document}:
            return price_sheet.stream_of(organisation, code, document)
        case {"organisation": organisation, "code": code}:
            return participant.stream_of(organisation, code)
        case {"account_number": number}:
            query = SQL("SELECT import_supplier, external_account_number FROM {} WHERE account_number = %s")
            with connection.cursor(row_factory=tuple_row) as cursor:
                account = cursor.execute(query.format(Identifier(schema, "service_account")), (number,)).fetchone()
            return stream_of(*account) if account else None
        case _:
            return None


def _counts(
    connection: Connection[Any], before: str, after: str, table: str, key: Sequence[str]
) -> tuple[int, int, int]:
    """How many rows of a table were changed, added and removed."""
    counting = "count(*) FILTER (WHERE {b} AND {a}), count(*) FILTER (WHERE NOT {b}), count(*) FILTER (WHERE NOT {a})"
    query = SQL("SELECT {} FROM ({}) AS d").format(
        SQL(counting.format(b="is_before", a="is_after")),
        _joined(
            connection,
            "b::text IS NOT NULL AS is_before, a::text IS NOT NULL AS is_after",
            before,
            after,
            table,
            key,
            ordered=False,
        ),
    )
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query).fetchone()
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2])


def _joined(
    connection: Connection[Any],
    selected: str,
    before: str,
    after: str,
    table: str,
    key: Sequence[str],
    *,
    ordered: bool = True,
) -> Composed:
    """Rows `b` and `a` of two schemas that have the same key and differ; of some there is only one."""
    columns = SQL(", ").join(map(Identifier, key))
    query = SQL(
        "SELECT {selected} FROM (SELECT {key}, t AS b FROM {before} AS t) AS old"
        " FULL JOIN (SELECT {key}, t AS a FROM {after} AS t) AS new USING ({key})"
        " WHERE b::text IS DISTINCT FROM a::text"
    ).format(
        selected=SQL(selected),
        key=columns,
        before=_rows_of(connection, before, table),
        after=_rows_of(connection, after, table),
    )
    return query + SQL(" ORDER BY {}").format(columns) if ordered else query


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
