"""What a projection is: a name, its tables, the events that it is made from, and what these make of its rows.

There are two ways from the log to the tables, and tests hold them together. `rows` gives the rows that the last event
of a stream leaves, which is all that a new version is made of, by bulk COPY. `apply` changes the tables for events in
order, which is how a version catches up and how a follower keeps a live one. Projections whose rows need every event
say so (`folds_all`) and are always made by `apply`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.participant import PARTICIPANT
from eventstore.aggregates.price_sheet import PRICE_SHEET
from eventstore.events import Recorded
from eventstore.log.copying import copy_into, copy_written
from eventstore.log.ledger import PlatformChange, apply_change
from eventstore.log.recorder import View
from projections.platform.change import platform_change
from projections.platform.tables import ACCOUNT_TABLE, PARTICIPANT_TABLE, PRICE_SHEET_TABLE, Table
from projections.versioning.reading import Seen, topics_of

Rows = Mapping[str, Sequence[Any]]
"""Rows by table name: tuples of values, or what `load` of the projection takes instead."""


class Projection:
    """The base of all; see the module. One object each, in `projections.PROJECTIONS`."""

    name: str
    home: ClassVar[str] = "public"
    """The schema in which the live version is."""
    tables: tuple[str, ...]
    events: frozenset[type[Event]]
    is_inline: ClassVar[bool] = True
    """Whether it is written in the append's transaction; others follow the log."""
    reads_payloads: ClassVar[bool] = False
    folds_all: ClassVar[bool] = False
    load_rows: ClassVar[int] = 20_000
    """How many rows are collected for a `load`; as many as memory allows, since each COPY has a price."""
    skipped: LiteralString = "false"
    """An SQL condition on events `e` that leave the rows of their stream as they are."""
    definition: str = ""
    """How its tables are made, where no migration makes them."""

    @property
    def topics(self) -> list[str]:
        return topics_of(self.events)

    def rows(self, seen: Seen) -> Rows:
        """The rows that this last event of its stream leaves, by table. Pure."""
        raise NotImplementedError

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        """Take rows of last events into tables that are being made."""
        copy_rows(connection, schema, rows)

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        """Change the schema's tables for these events, which follow each other in the log."""
        raise NotImplementedError

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        """Delete the rows of one stream; False when they cannot be told from those of others."""
        raise NotImplementedError


class InlineView(Projection):
    """A view that the append writes, as `eventstore.log.recorder.View` describes it."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.name = view.name
        self.tables = (view.name,)
        self.events = view.events
        self.folds_all = view.folds_all  # type: ignore[misc]
        self.skipped = view.skipped
        places = {column: place for place, column in enumerate(view.columns)}
        self._created_at, self._created_position = places.get("created_at"), places.get("created_position")

    def rows(self, seen: Seen) -> Rows:
        row = self.view.project(seen.recorded, seen.position)
        if row is None:
            return {}
        firsts = [*row]
        if self._created_at is not None:
            firsts[self._created_at] = seen.first_at
        if self._created_position is not None:
            firsts[self._created_position] = seen.first_position
        return {self.name: [tuple(firsts)]}

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        statement = self._upsert_into(schema)
        for rows in self._waves([seen.recorded for seen in batch]):
            columns = zip(self.view.columns, zip(*rows, strict=True), strict=True)
            parameters = {f"{self.name}_{column}": list(values) for column, values in columns}
            with connection.cursor(binary=True) as cursor:
                cursor.execute(statement, parameters)

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        key = self.view.key_of(stream)
        if key is not None:
            delete_rows(connection, schema, self.name, key)
        return True

    def _waves(self, events: Sequence[Recorded]) -> list[list[tuple[Any, ...]]]:
        """The rows of these events in turns that meet no row twice, since one statement may write a row once."""
        waves: list[list[tuple[Any, ...]]] = []
        times: dict[tuple[Any, ...], int] = {}
        for recorded in events:
            row = self.view.project(recorded, recorded.position)
            if row is None:
                continue
            turn = times.get(row[: self.view.key_columns], 0)
            times[row[: self.view.key_columns]] = turn + 1
            if turn == len(waves):
                waves.append([])
            waves[turn].append(row)
        return waves

    def _upsert_into(self, schema: str) -> bytes:
        """The view's statement on the schema's table, with positions as they are."""
        statement = self.view.upsert.replace(f"INTO {self.name}", f"INTO {schema}.{self.name}")
        statement = statement.replace(f"JOIN {self.name}", f"JOIN {schema}.{self.name}")
        return f"WITH appended AS (SELECT 0::bigint AS base) {statement}".encode()


class Platform(Projection):
    """The platform's records, all these tables at once: written in the transaction that makes the record."""

    home = "platform"
    reads_payloads = True
    load_rows = 100_000  # a hundred bytes each

    def __init__(self, name: str, tables: Sequence[Table], events: frozenset[type[Event]]) -> None:
        self.name = name
        self.tables = tuple(table.name for table in tables)
        self.events = events

    def rows(self, seen: Seen) -> Rows:
        change = platform_change(seen.recorded, seen.body)
        return {} if change is None else change.copied

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        for table, written in rows.items():
            copy_written(connection, schema, table, written)

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        rows: dict[str, list[bytes]] = {}
        for seen in batch:
            change = platform_change(seen.recorded, seen.body)
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

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        prefix, rest = stream.split("/", 1)
        if prefix == "import" and ACCOUNT_TABLE.name in self.tables:
            query = SQL("SELECT account_number FROM {} WHERE import_supplier = %s AND external_account_number = %s")
            with connection.cursor(row_factory=tuple_row) as cursor:
                cursor.execute(query.format(Identifier(schema, ACCOUNT_TABLE.name)), rest.split("/", 1))
                for (number,) in cursor.fetchall():
                    for table in self.tables:
                        delete_rows(connection, schema, table, {"account_number": number})
        root = _MARKET_ROOTS.get(prefix)
        if root is not None and root.name in self.tables:
            key = dict(zip((name for name, _ in root.key), rest.split("/", 1), strict=True))
            for below in root.all():
                delete_rows(connection, schema, below.name, key)
        return True


_MARKET_ROOTS = {PARTICIPANT.prefix: PARTICIPANT_TABLE, PRICE_SHEET.prefix: PRICE_SHEET_TABLE}


def delete_rows(connection: Connection[Any], schema: str, table: str, key: Mapping[str, Any]) -> None:
    """Delete the rows of a table in which these columns have these values."""
    places = SQL(" AND ").join(SQL("{} = %s").format(Identifier(column)) for column in key)
    connection.execute(SQL("DELETE FROM {} WHERE {}").format(Identifier(schema, table), places), [*key.values()])


def copy_rows(connection: Connection[Any], schema: str, rows: Rows) -> None:
    """COPY rows into the schema's tables."""
    for table, values in rows.items():
        copy_into(connection, schema, table, values)
