"""Base classes of projections that follow the log asynchronously.

A new projection is one file with an object of one of these classes, and its name in `projections.FOLLOWING`: `Counter`
sums numbers, `Index` has the rows of each stream. docs/first-hour/developer.md has an example.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.aggregate import Event
from projections.versions.projection import Projection, Rows, copy_rows, declared_columns_of
from projections.versions.reading import Seen

Project = Callable[[Seen], Iterable[tuple[Any, ...]]]
"""Pure function that returns the rows for an event, with a value for each column."""


class Following(Projection):
    """A projection with tables, each given as the body of a CREATE TABLE, and indexes.

    `edition` is the version of the code that turns events into rows. A changed `edition` marks live tables as outdated.
    """

    is_inline = False

    def __init__(
        self,
        name: str,
        tables: Mapping[str, str],
        indexes: Mapping[str, Sequence[str]],
        *,
        events: Collection[type[Event]],
        edition: str = "",
    ) -> None:
        self.name = name
        self.tables = tuple(tables)
        self.events = frozenset(events)
        self._bodies, self._indexes = dict(tables), dict(indexes)
        listed = [index for places in indexes.values() for index in places]
        self.definition = "; ".join((*tables.values(), *listed, *((edition,) if edition else ())))

    def create(self, connection: Connection[Any], schema: str) -> None:
        """Create the empty tables with their indexes."""
        for name, body in self._bodies.items():
            table = Identifier(schema, name)
            connection.execute(SQL("CREATE TABLE {} ({})").format(table, SQL(body)))
            for index in self._indexes.get(name, ()):
                connection.execute(SQL("CREATE INDEX ON {} {}").format(table, SQL(index)))


class _Projected(Following):
    """One table with the rows that `project` makes from each event."""

    def __init__(
        self,
        name: str,
        *,
        events: Collection[type[Event]],
        columns: str,
        project: Project,
        indexes: Sequence[str] = (),
        reads_payloads: bool = False,
        edition: str = "",
    ) -> None:
        super().__init__(name, {name: columns}, {name: indexes}, events=events, edition=edition)
        self.columns = columns
        self.names = tuple(declared_columns_of(columns))
        self.project = project
        self.reads_payloads = reads_payloads

    def rows(self, seen: Seen) -> Rows:
        return {self.name: [*self.project(seen)]}


class Counter(_Projected):
    """Sums: the last column is the number, all other columns are the key.

    With `folds_all`, every event counts. Without `folds_all`, an event subtracts the numbers that `seen.previous` had
    added, so that only the last event of each stream counts.
    """

    def __init__(self, name: str, *, folds_all: bool, **parts: Any) -> None:
        super().__init__(name, **parts)
        self.folds_all, self.reads_previous = folds_all, not folds_all

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        self.load(connection, schema, {self.name: [row for seen in batch for row in self.project(seen)]})

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        sums: dict[tuple[Any, ...], int] = {}
        for row in rows.get(self.name, ()):
            sums[row[:-1]] = sums.get(row[:-1], 0) + row[-1]
        add_numbers(connection, Identifier(schema, self.name), self.names, sums)


def add_numbers(
    connection: Connection[Any], table: Identifier, columns: Sequence[str], sums: Mapping[tuple[Any, ...], int]
) -> None:
    """Add numbers by key to the last column of a table. Rows that reach 0 are deleted."""
    *key, number = map(Identifier, columns)
    parts = {
        "table": table,
        "key": SQL(", ").join(key),
        "number": number,
        "values": SQL(", ").join([SQL("%s")] * len(key)),
    }
    adding = SQL(
        "INSERT INTO {table} AS row ({key}, {number}) VALUES ({values}, %s)"
        " ON CONFLICT ({key}) DO UPDATE SET {number} = row.{number} + excluded.{number}"
    ).format(**parts)
    changes = [(*name, change) for name, change in sorted(sums.items()) if change]
    with connection.cursor() as cursor:
        cursor.executemany(adding, changes)
        if any(change < 0 for *_, change in changes):
            clearing = SQL("DELETE FROM {table} WHERE ({key}) = ({values}) AND {number} = 0").format(**parts)
            cursor.executemany(clearing, [name for *name, change in changes if change < 0])


class Index(_Projected):
    """Rows of each stream, made from its last event. The first column is the stream."""

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        copy_rows(connection, schema, rows, {self.name: self.names})

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        last = {seen.stream: seen for seen in batch}
        if left := [
            stream for stream, seen in last.items() if seen.recorded.version > 1
        ]:  # the first event of a stream has no rows to replace
            query = SQL("DELETE FROM {} WHERE stream = ANY(%s)").format(Identifier(schema, self.name))
            connection.execute(query, (left,))
        self.load(connection, schema, {self.name: [row for seen in last.values() for row in self.project(seen)]})

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        connection.execute(SQL("DELETE FROM {} WHERE stream = %s").format(Identifier(schema, self.name)), (stream,))
        return True
