"""Views that the append writes in its own transaction, each declared once.

From the declaration follow the table that a new database gets, the statement that the append runs, the columns that a
rebuild copies, and the definition by which a version is known. The database's own tables are held to it by a test.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString, get_args

import msgspec
from psycopg import Connection
from psycopg.sql import SQL, Composable, Identifier

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.import_process import SubjectErased
from eventstore.events import Recorded
from eventstore.log.arrays import Written, arrays_of
from eventstore.log.payloads import Payload
from eventstore.operations.rights import WRITTEN_BY_ALL, Rights
from projections.versions.projection import Projection, Rows, copy_rows, delete_rows
from projections.versions.reading import Seen

_TYPES = {str: "text", int: "bigint", bool: "boolean", datetime: "timestamptz"}


class View(Projection):
    """A table of rows of one Struct, which `project` gives for events; None for an event that gives none. Pure.

    `key`: the columns that name a row, the Struct's first. `first`: the columns that stay as the row's first event set
    them. `relative`: columns of positions, which the append counts from its own base. `recorded`: columns of times that
    are the event's `recorded_at`, which the append sets. `types`: the SQL types that do
    not follow from the Struct; a `text[]` is carried as one text with commas. `leaves_none`: None leaves a column as
    it is. `indexes`: their names and places. `key_of`: the columns and values that name the rows of a stream. `rights`:
    what the service's roles may do with the table. `defaults`: what rows have that are older than the column.
    """

    reads_previous = False

    def __init__(
        self,
        name: str,
        row: type[msgspec.Struct],
        project: Callable[[Recorded, int], msgspec.Struct | None],
        *,
        events: Collection[type[Event]],
        key: Sequence[str],
        key_of: Callable[[str], Mapping[str, str] | None],
        first: Sequence[str] = (),
        relative: Sequence[str] = ("position",),
        recorded: Collection[str] = ("created_at", "modified_at"),
        types: Mapping[str, str] | None = None,
        leaves_none: bool = False,
        indexes: Mapping[str, str] | None = None,
        folds_all: bool = False,
        skipped: LiteralString = "false",
        rights: Rights = WRITTEN_BY_ALL,
        defaults: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        self.name = name
        self.tables = (name,)
        self.events = frozenset(events)
        self.columns = row.__struct_fields__
        self.key_columns = len(key)
        self.key_of = key_of
        self.folds_all = folds_all
        self.skipped = skipped
        self.rights = rights
        self._defaults = dict(defaults or {})
        self.indexes = dict(indexes or {})
        self._project = project
        self._key, self._first, self._relative = tuple(key), frozenset(first), frozenset(relative)
        self._recorded = frozenset(recorded)
        self._leaves_none = leaves_none
        self._types = _types_of(row) | dict(types or {})
        self._nullable = (
            set() if leaves_none else {field for field, hint in _hints(row) if type(None) in get_args(hint)}
        )
        assert self.columns[: len(key)] == self._key, "the key comes first"
        self._arrays = {f"{name}_{column}": self._carried(column) for column in self.columns}
        self.upsert = self._upsert_into(Identifier(name))
        columns = [f"{name} {kind}{'' if may else ' NOT NULL'}" for name, kind, may in self.declared()]
        parts = [f"PRIMARY KEY ({', '.join(key)})", *(f"{name} {place}" for name, place in self.indexes.items())]
        self.definition = "; ".join((", ".join(columns), *parts))

    def project(self, recorded: Recorded, position: int, payload: Payload | None = None) -> tuple[Any, ...] | None:
        """The row that follows from the event at this position, or None, whatever payload it brings. Pure."""
        row = self._project(recorded, position)
        return None if row is None else msgspec.structs.astuple(row)

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, Written]:
        return arrays_of(self._arrays, rows)

    def create(self, connection: Connection[Any], schema: str) -> None:
        columns = ", ".join(f"{name} {kind}{'' if may else ' NOT NULL'}" for name, kind, may in self.declared())
        connection.execute(SQL("CREATE TABLE {} ({})").format(Identifier(schema, self.name), _said(columns)))

    def index(self, connection: Connection[Any], schema: str, table: str) -> None:
        of = Identifier(schema, table)
        key = SQL(", ").join(map(Identifier, self._key))
        connection.execute(SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(of, key))
        for name, place in self.indexes.items():
            connection.execute(SQL("CREATE INDEX {} ON {} {}").format(Identifier(name), of, _said(place)))

    def rows(self, seen: Seen) -> Rows:
        row = self.project(seen.recorded, seen.position)
        if row is None:
            return {}
        firsts = {"created_at": seen.first_at, "created_position": seen.first_position}
        values = zip(self.columns, row, strict=True)
        return {self.name: [tuple(firsts.get(column, value) for column, value in values)]}

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        copy_rows(connection, schema, rows, {self.name: self.columns})

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        upsert = self._upsert_into(Identifier(schema, self.name))
        statement = SQL("WITH appended AS (SELECT 0::bigint AS base, NULL::timestamptz AS at) ") + upsert
        for rows in self._waves([seen.recorded for seen in batch]):
            with connection.cursor(binary=True) as cursor:
                cursor.execute(statement, self.arrays(rows))

    def forget_person(self, connection: Connection[Any], schema: str, erasure: Recorded) -> None:
        """The row stays, since the erasure leaves one; what it says in words does not."""
        key = self.key_of(erasure.stream)
        if key is not None and "error_detail" in self.columns and SubjectErased in self.events:
            places = SQL(" AND ").join(SQL("{} = %s").format(Identifier(column)) for column in key)
            statement = SQL("UPDATE {} SET error_detail = NULL WHERE error_detail IS NOT NULL AND {}")
            connection.execute(statement.format(Identifier(schema, self.name), places), [*key.values()])

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        key = self.key_of(stream)
        if key is not None:
            delete_rows(connection, schema, self.name, key)
        return True

    def declared_columns(self, table: str) -> list[tuple[str, str]]:
        """Columns that may be NULL, and those that have a default."""
        columns = [(name, kind) for name, kind, may in self.declared() if may and name not in self._defaults]
        return columns + [
            (name, f"{kind} NOT NULL DEFAULT {SQL('{}').format(self._defaults[name]).as_string()}")
            for name, kind, _ in self.declared()
            if name in self._defaults
        ]

    def unsampled_columns(self, table: str) -> Sequence[str]:
        return [name for name in self.columns if name == "error_detail"]

    def declared(self) -> list[tuple[str, str, bool]]:
        """(name, SQL type, may be NULL) of every column."""
        return [(column, self._types[column], column in self._nullable) for column in self.columns]

    def _waves(self, events: Sequence[Recorded]) -> list[list[tuple[Any, ...]]]:
        """The rows of these events in turns that meet no row twice, since one statement may write a row once."""
        waves: list[list[tuple[Any, ...]]] = []
        times: dict[tuple[Any, ...], int] = {}
        for recorded in events:
            row = self.project(recorded, recorded.position)
            if row is None:
                continue
            turn = times.get(row[: self.key_columns], 0)
            times[row[: self.key_columns]] = turn + 1
            if turn == len(waves):
                waves.append([])
            waves[turn].append(row)
        return waves

    def _upsert_into(self, table: Identifier) -> Composable:
        """An INSERT that reads `appended` and the parameters NAME_COLUMN, arrays with one value a row."""
        names = SQL(", ").join(map(Identifier, self.columns))
        values = SQL(", ").join(map(self._value, self.columns))
        arrays = SQL(", ").join(
            _said(f"%({self.name}_{column})b::{self._carried(column)}[]") for column in self.columns
        )
        changed = [column for column in self.columns if column not in self._key and column not in self._first]
        changes = SQL(", ").join(SQL("{0} = excluded.{0}").format(Identifier(column)) for column in changed)
        key = SQL(", ").join(map(Identifier, self._key))
        statement = SQL("INSERT INTO {} ({}) SELECT {} FROM appended, unnest({}) AS n ({})").format(
            table, names, values, arrays, names
        )
        if self._leaves_none:
            statement += SQL(" LEFT JOIN {} AS old USING ({})").format(table, key)
        return statement + SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(key, changes)

    def _carried(self, column: str) -> str:
        return "text" if self._types[column] == "text[]" else self._types[column]

    def _value(self, column: str) -> Composable:
        name = Identifier(column)
        if column in self._relative:
            return SQL("appended.base + n.{}").format(name)
        value = SQL("string_to_array(n.{}, ',')" if self._types[column] == "text[]" else "n.{}").format(name)
        if column in self._recorded:
            value = SQL("CASE WHEN {0} IS NOT NULL THEN coalesce(appended.at, {0}) END").format(value)
        if self._leaves_none and column not in self._key and column not in self._first:
            return SQL("coalesce({}, old.{})").format(value, name)
        return value


def _hints(row: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    return [(field.name, field.type) for field in msgspec.structs.fields(row)]


def _types_of(row: type[msgspec.Struct]) -> dict[str, str]:
    """The SQL types that follow from a Struct's."""
    plain = {name: next((one for one in get_args(hint) if one is not type(None)), hint) for name, hint in _hints(row)}
    return {name: _TYPES[hint] for name, hint in plain.items()}


def _said(text: str) -> SQL:
    """Text of a declaration as SQL. It is written in our own files, so it needs no quoting."""
    return SQL(text)
