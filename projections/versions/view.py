"""Views that the append writes in its own transaction.

The declaration of a view defines the table, the statement of the append, the columns that a rebuild copies, and the
definition that identifies a version.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.sql import SQL, Composable, Identifier

from eventstore.aggregates.aggregate import Event
from eventstore.events import Recorded
from eventstore.log.arrays import Written, arrays_of
from eventstore.log.payloads import Payload
from eventstore.operations.rights import WRITTEN_BY_ALL, Rights
from projections.versions.projection import Projection, Rows, as_sql, copy_rows, declared_columns_of, delete_rows
from projections.versions.reading import Seen

Values = Mapping[str, Any]
"""Values by column."""
Change = Values | Callable[[Any, Recorded], Values | None]
"""Values that an event sets in its row, or a pure function that returns them; None leaves the row unchanged."""


class View(Projection):
    """A table in which each event changes one row.

    `columns`: body of a CREATE TABLE without its key; values of a `text[]` are given as text, joined by commas.
    `changes`: values that each event sets. `prefix`: first part of the stream's id, and `named`: columns of the id's
    other parts; without a prefix, the whole id is the value of the only column. `key`: columns of the primary key,
    which must come first [default: `named`]. `first`: columns that keep the value of the row's first event.
    `positions`: columns that get the event's position. `times`: columns that get the event's `recorded_at` unless the
    change has a value. `keeps_old`: columns without a new value keep their old value. `indexes`: definitions by name.
    `forgets`: columns of personal data, which an erasure sets to NULL. `rights`: rights of the service's roles on the
    table.
    """

    reads_previous = False

    def __init__(
        self,
        name: str,
        columns: str,
        changes: Mapping[type[Event], Change],
        *,
        named: Sequence[str],
        prefix: str = "",
        key: Sequence[str] = (),
        first: Collection[str] = (),
        positions: Collection[str] = ("position",),
        times: Collection[str] = ("created_at", "modified_at"),
        keeps_old: bool = False,
        indexes: Mapping[str, str] | None = None,
        forgets: Collection[str] = (),
        folds_all: bool = False,
        skipped: LiteralString = "false",
        rights: Rights = WRITTEN_BY_ALL,
    ) -> None:
        self.name = name
        self.tables = (name,)
        self.events = frozenset(changes)
        self.declared = declared_columns_of(columns)
        self.columns = tuple(self.declared)
        self.folds_all = folds_all
        self.skipped = skipped
        self.rights = rights
        self.indexes = dict(indexes or {})
        self._changes = dict(changes)
        self._prefix, self._named, self._key = prefix, tuple(named), tuple(key or named)
        self._first, self._positions, self._forgets = frozenset(first), frozenset(positions), frozenset(forgets)
        self._times = frozenset(times) & frozenset(self.columns)
        self._keeps_old = keeps_old
        assert self.columns[: len(self._key)] == self._key, "the key comes first"
        self._types = {column: declaration.split()[0] for column, declaration in self.declared.items()}
        self._arrays = {f"{name}_{column}": self._array_type(column) for column in self.columns}
        self.upsert = self._upsert_into(Identifier(name))
        self.definition = "; ".join((columns, f"PRIMARY KEY {self._key}", *map(" ".join, self.indexes.items())))

    def values(self, recorded: Recorded, position: int) -> dict[str, Any] | None:
        """Return the values that the event sets in its row; None if the row stays unchanged. Pure."""
        change = self._changes.get(type(recorded.event))
        change_values = change(recorded.event, recorded) if callable(change) else change
        if change_values is None:
            return None
        times, positions = dict.fromkeys(self._times, recorded.recorded_at), dict.fromkeys(self._positions, position)
        return {**(self.named_by(recorded.stream) or {}), **times, **positions, **change_values}

    def project(self, recorded: Recorded, position: int, payload: Payload | None = None) -> tuple[Any, ...] | None:
        values = self.values(recorded, position)
        return None if values is None else tuple(map(values.get, self.columns))

    def named_by(self, stream: str) -> dict[str, str] | None:
        """Return the key columns and values of a stream's rows; None for a stream of another kind."""
        if not self._prefix:
            return {self._named[0]: stream}
        prefix, *parts = stream.split("/", len(self._named))
        return dict(zip(self._named, parts, strict=True)) if prefix == self._prefix else None

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, Written]:
        return arrays_of(self._arrays, rows)

    def create(self, connection: Connection[Any], schema: str) -> None:
        columns = ", ".join(f"{column} {declaration}" for column, declaration in self.declared.items())
        connection.execute(SQL("CREATE TABLE {} ({})").format(Identifier(schema, self.name), as_sql(columns)))

    def index(self, connection: Connection[Any], schema: str, table: str) -> None:
        of = Identifier(schema, table)
        connection.execute(SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(of, _names(self._key)))
        for name, definition in self.indexes.items():
            connection.execute(SQL("CREATE INDEX {} ON {} {}").format(Identifier(name), of, as_sql(definition)))

    def rows(self, seen: Seen) -> Rows:
        values = self.values(seen.recorded, seen.position)
        if values is None:
            return {}
        values |= dict.fromkeys(self._first & self._times, seen.first_at)
        values |= dict.fromkeys(self._first & self._positions, seen.first_position)
        return {self.name: [tuple(map(values.get, self.columns))]}

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        copy_rows(connection, schema, rows, {self.name: self.columns})

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        upsert = self._upsert_into(Identifier(schema, self.name))
        statement = SQL("WITH appended AS (SELECT 0::bigint AS base, NULL::timestamptz AS at) ") + upsert
        for rows in self._waves([seen.recorded for seen in batch]):
            with connection.cursor(binary=True) as cursor:
                cursor.execute(statement, self.arrays(rows))

    def forget_person(self, connection: Connection[Any], schema: str, erasure: Recorded) -> None:
        """Set the columns of personal data to NULL. The row itself stays."""
        key = self.named_by(erasure.stream)
        for column in self._forgets if key is not None else ():
            conditions = SQL(" AND ").join(SQL("{} = %s").format(Identifier(name)) for name in key or ())
            statement = SQL("UPDATE {} SET {column} = NULL WHERE {column} IS NOT NULL AND {conditions}").format(
                Identifier(schema, self.name), column=Identifier(column), conditions=conditions
            )
            connection.execute(statement, [*(key or {}).values()])

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        key = self.named_by(stream)
        if key is not None:
            delete_rows(connection, schema, self.name, key)
        return True

    def declared_columns(self, table: str) -> list[tuple[str, str]]:
        """Return the columns that may be NULL or have a default."""
        return [(name, text) for name, text in self.declared.items() if "NOT NULL" not in text or "DEFAULT" in text]

    def unsampled_columns(self, table: str) -> Sequence[str]:
        return [*self._forgets]

    def _waves(self, events: Sequence[Recorded]) -> list[list[tuple[Any, ...]]]:
        """Split the rows of events into batches with distinct keys, because a statement can write a row only once."""
        waves: list[list[tuple[Any, ...]]] = []
        times: dict[tuple[Any, ...], int] = {}
        for recorded in events:
            row = self.project(recorded, recorded.position)
            if row is None:
                continue
            key = row[: len(self._key)]
            index = times[key] = times.get(key, -1) + 1
            if index == len(waves):
                waves.append([])
            waves[index].append(row)
        return waves

    def _upsert_into(self, table: Identifier) -> Composable:
        """Return an INSERT that updates the rows whose key exists.

        Values are from `appended`, and from an array parameter for each column, called VIEW_COLUMN.
        """
        names, key = _names(self.columns), _names(self._key)
        values = SQL(", ").join(map(self._value, self.columns))
        arrays = SQL(", ").join(as_sql(f"%({name})b::{kind}[]") for name, kind in self._arrays.items())
        changed = [column for column in self.columns if column not in self._key and column not in self._first]
        changes = SQL(", ").join(SQL("{0} = excluded.{0}").format(Identifier(column)) for column in changed)
        statement = SQL("INSERT INTO {} ({}) SELECT {} FROM appended, unnest({}) AS n ({})").format(
            table, names, values, arrays, names
        )
        if self._keeps_old:
            statement += SQL(" LEFT JOIN {} AS old USING ({})").format(table, key)
        return statement + SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(key, changes)

    def _array_type(self, column: str) -> str:
        return "text" if self._types[column] == "text[]" else self._types[column]

    def _value(self, column: str) -> Composable:
        name = Identifier(column)
        if column in self._positions:
            return SQL("appended.base + n.{}").format(name)
        value = SQL("string_to_array(n.{}, ',')" if self._types[column] == "text[]" else "n.{}").format(name)
        if column in self._times:
            value = SQL("CASE WHEN {0} IS NOT NULL THEN coalesce(appended.at, {0}) END").format(value)
        if self._keeps_old and column not in self._key and column not in self._first:
            return SQL("coalesce({}, old.{})").format(value, name)
        return value


def _names(columns: Iterable[str]) -> Composable:
    return SQL(", ").join(map(Identifier, columns))
