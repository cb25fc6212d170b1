"""Compare a projection with the log, row by row, in one snapshot; and heal the rows of single streams."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.sql import SQL, Composed, Identifier, Literal

from eventstore.aggregates import participant, price_sheet
from eventstore.aggregates.import_process import stream_of
from eventstore.log import locks
from eventstore.log.columns import log_head
from eventstore.log.rows import rows_of
from projections.versions.build import Progress, administrator, apply_events, build, make_tables
from projections.versions.projection import Projection
from projections.versions.reading import Poison, wait_for_erasures
from projections.versions.versions import ProjectionVersion, live_version, lock_live_version, parked_streams
from projections.versions.view import View


class Difference(msgspec.Struct, frozen=True):
    """A row that differs between two versions of a table, or is in only one of them."""

    table: str
    key: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    event: str = ""
    """Phrase that names the event that should have written the row; "" if the event is unknown."""

    @property
    def columns(self) -> list[str]:
        """Columns of the row that differ."""
        if self.before is None or self.after is None:
            return []
        return [name for name, value in self.after.items() if self.before[name] != value]

    @property
    def cause(self) -> str:
        """Phrase with the event that should have written the row, and the row's position; "" without both."""
        if self.after is None:
            return "no event of the log makes this row"
        position = self.after.get("position")
        event = self.event or f"the event at {position}"
        if position is None:
            return f"{self.event} requires another row" if self.event else ""
        written = self.before["position"] if self.before else None
        if written == position:
            return f"{event} was applied, and the row was changed since"
        last = f"the row was last written at {written}" if written else "there is no row"
        return f"{last}; {event} was not applied"


class Comparison(msgspec.Struct, frozen=True):
    """Numbers of rows that were changed, added and removed between two versions, and the first of these rows."""

    changed: int = 0
    added: int = 0
    removed: int = 0
    first: tuple[Difference, ...] = ()
    parked: int = 0

    @property
    def count(self) -> int:
        return self.changed + self.added + self.removed


@contextmanager
def rolled_back_snapshot(connection: Connection[Any]) -> Iterator[None]:
    """Run the block in a transaction that reads one snapshot and is rolled back at the end."""
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
    """Compare the live version (`before`) with a version that is built from the log (`after`), and store the result."""
    schema = f"{projection.name}_verified"
    with rolled_back_snapshot(connection):
        live = live_version(connection, projection.name)
        upto = log_head(connection) if projection.is_inline else live.position
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        make_tables(connection, projection, schema)
        build(admin_url, connection, projection, schema, upto=upto, is_permanent=False, progress=progress)
        before = _live_rows_upto(connection, projection, upto) if projection.is_ahead else projection.home
        comparison = compare(connection, projection, before, schema, limit=limit)
    return store_comparison(connection, live, comparison)


def _live_rows_upto(connection: Connection[Any], projection: Projection, position: int) -> str:
    """Create a schema of views on the live tables, without rows of streams that began after the position."""
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


def store_comparison(connection: Connection[Any], live: ProjectionVersion, comparison: Comparison) -> Comparison:
    """Store a comparison of the live version with the log; return it with the number of parked streams."""
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
    """Apply all events of the log to the live version and to another version, in a snapshot that is rolled back at the
    end.
    """
    with administrator(admin_url) as guard, guard.transaction():
        live = lock_live_version(guard, projection.name)  # so that followers do not change the live tables
        with rolled_back_snapshot(connection):
            upto = log_head(connection)
            targets = [(other.schema, other)] + ([] if projection.is_inline else [(projection.home, live)])
            for schema, version in targets:
                parked = parked_streams(connection, projection.name, version.version)
                apply_events(connection, projection, schema, after=version.position, upto=upto, parked=parked)
            yield


def compare(connection: Connection[Any], projection: Projection, before: str, after: str, *, limit: int) -> Comparison:
    """Compare the tables of two schemas, by the key columns of the live tables."""
    changed = added = removed = 0
    first: list[Difference] = []
    for table in projection.tables:
        if _digest(connection, before, table) == _digest(connection, after, table):
            continue
        key = _key_columns(connection, projection.home, table)
        rows = rows_of(connection, _different(connection, before, after, table, key, max(limit, 1)))
        changed, added, removed = (
            total + number for total, number in zip((changed, added, removed), rows[0][:3], strict=True)
        )
        for *_, old, new in rows[: max(0, limit - len(first))]:
            row = old if new is None else new
            key_values = {column: row[column] for column in key}
            first.append(Difference(table, key_values, old, new, _event_of_row(connection, key_values, new, after)))
    return Comparison(changed, added, removed, tuple(first))


def _event_of_row(
    connection: Connection[Any], key: Mapping[str, Any], row: Mapping[str, Any] | None, schema: str
) -> str:
    """Return a phrase that names the event from which a row was derived; "" if the event is unknown.

    Rows of the platform have no position, so the phrase names the last event of their stream.
    """
    if row is None:
        return ""
    position, stream = row.get("position"), None
    if position is None and (stream := _stream_of_row(connection, key, schema)) is None:
        return ""
    query = SQL("SELECT position, topic FROM events WHERE {} = %s ORDER BY version DESC LIMIT 1")
    column = Identifier("position" if stream is None else "stream")
    rows = rows_of(connection, query.format(column), position if stream is None else stream)
    event = f"the event at {rows[0][0]} ({rows[0][1]})" if rows else ""
    return f"{stream}: {event}" if stream and event else event


def _stream_of_row(connection: Connection[Any], key: Mapping[str, Any], schema: str) -> str | None:
    """Return the stream of a row of the platform's tables, by its key; None for other tables."""
    match key:
        case {"organisation": organisation, "market_participant_code": code, "document_number": document}:
            return price_sheet.stream_of(organisation, code, document)
        case {"organisation": organisation, "code": code}:
            return participant.stream_of(organisation, code)
        case {"account_number": number}:
            query = SQL("SELECT import_supplier, external_account_number FROM {} WHERE account_number = %s")
            accounts = rows_of(connection, query.format(Identifier(schema, "service_account")), number)
            return stream_of(*accounts[0]) if accounts else None
        case _:
            return None


def _different(
    connection: Connection[Any], before: str, after: str, table: str, key: Sequence[str], limit: int
) -> Composed:
    """Return the query for the first rows that differ, each with the numbers of all changed, added and removed rows."""
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
        before=_sorted_rows(connection, before, table),
        after=_sorted_rows(connection, after, table),
        limit=limit,
    )


def _digest(connection: Connection[Any], schema: str, table: str) -> tuple[Any, ...]:
    """Return the number of rows and the sum of their hashes, which are the same for the same rows in any order."""
    query = SQL("SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {} AS t")
    [row] = rows_of(connection, query.format(_sorted_rows(connection, schema, table)))
    return row


def _sorted_rows(connection: Connection[Any], schema: str, table: str) -> Composed:
    """Return the query for the table with its columns sorted by name, because migrations append columns at the end."""
    query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
    columns = sorted(name for (name,) in rows_of(connection, query, f'"{schema}"."{table}"'))
    return SQL("(SELECT {} FROM {})").format(SQL(", ").join(map(Identifier, columns)), Identifier(schema, table))


def _key_columns(connection: Connection[Any], schema: str, table: str) -> list[str]:
    query = (
        "SELECT a.attname AS name FROM pg_index AS x JOIN pg_attribute AS a ON a.attrelid = x.indrelid"
        " AND a.attnum = ANY(x.indkey) WHERE x.indisprimary AND x.indrelid = %s::regclass"
        " ORDER BY array_position(x.indkey::int2[], a.attnum)"
    )
    return [name for (name,) in rows_of(connection, query, f'"{schema}"."{table}"')]


class Healed(msgspec.Struct, frozen=True):
    """Result of healing one projection. `says` is a phrase for operators."""

    name: str
    says: str
    is_parked: bool = False


def heal(connection: Connection[Any], projection: Projection, streams: list[str]) -> Healed:
    """Rebuild the rows of streams in one transaction, and resume parked streams."""
    with connection.transaction():
        live = lock_live_version(connection, projection.name)  # first this lock, in the same order as a switch
        if projection.holds_persons:
            wait_for_erasures(connection)
        parked = _parked(connection, live.name, live.version, streams)
        if isinstance(projection, View):
            poisons, is_sum = _replace_rows(connection, projection, streams), False
        else:
            poisons, is_sum = _reapply(connection, projection, live, parked, streams)
        connection.execute(
            "DELETE FROM parked_streams WHERE name = %s AND version = %s AND stream = ANY(%s) AND NOT stream = ANY(%s)",
            (live.name, live.version, streams, [poison.stream for poison in poisons]),
        )
    if poisons:
        return Healed(projection.name, f"still parked at {poisons[0].position}: {poisons[0].error}", is_parked=True)
    if parked:
        return Healed(projection.name, "resumed")
    return Healed(projection.name, "unchanged: it sums all accounts, and no event was missing" if is_sum else "rebuilt")


def _reapply(
    connection: Connection[Any],
    projection: Projection,
    live: ProjectionVersion,
    parked: Mapping[str, int],
    streams: Sequence[str],
) -> tuple[list[Poison], bool]:
    """Replace the rows of streams.

    If the projection is a sum over all streams, add the parked events instead. Returns the streams that cannot be read,
    and whether the projection is a sum over all streams.
    """
    schema = projection.home
    if schema == "platform":
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM,))
    upto = log_head(connection) if projection.is_inline else live.position
    forgotten = [projection.forget(connection, schema, stream) for stream in streams]
    if all(forgotten):
        return apply_events(connection, projection, schema, after=0, upto=upto, streams=streams), False
    poisons = [
        poison
        for stream, position in parked.items()
        for poison in apply_events(connection, projection, schema, after=position - 1, upto=upto, streams=[stream])
    ]
    return poisons, True


def _replace_rows(connection: Connection[Any], view: View, streams: Sequence[str]) -> list[Poison]:
    """Rebuild the rows of streams in a temporary table, then replace the live rows of these streams.

    Appends wait for the lock of the log only while the newest events are applied, not during the whole replay. Returns
    the streams that cannot be read.
    """
    upto = log_head(connection)
    view.create(connection, _TEMP_SCHEMA)
    view.index(connection, _TEMP_SCHEMA, view.name)
    poisons = apply_events(connection, view, _TEMP_SCHEMA, after=0, upto=upto, streams=streams)
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,))
    unreadable = [poison.stream for poison in poisons]
    poisons += apply_events(
        connection, view, _TEMP_SCHEMA, after=upto, upto=log_head(connection), parked=unreadable, streams=streams
    )
    for stream in streams:
        view.forget(connection, view.home, stream)
    columns, temp_table = SQL(", ").join(map(Identifier, view.columns)), Identifier(_TEMP_SCHEMA, view.name)
    connection.execute(
        SQL("INSERT INTO {} ({columns}) SELECT {columns} FROM {}").format(
            Identifier(view.home, view.name), temp_table, columns=columns
        )
    )
    connection.execute(SQL("DROP TABLE {}").format(temp_table))
    return poisons


_TEMP_SCHEMA = "pg_temp"


def _parked(connection: Connection[Any], name: str, version: int, streams: list[str]) -> dict[str, int]:
    query = "SELECT stream, position FROM parked_streams WHERE name = %s AND version = %s AND stream = ANY(%s)"
    return dict(rows_of(connection, query, name, version, streams))
