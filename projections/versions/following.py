"""Projections that follow the log in their own time: what a new one is made of.

A new projection is one file with an object of one of these classes, and its name in `projections.FOLLOWING`:
`Counter` adds numbers up, `Index` keeps the rows of each stream. docs/developing.md shows one from beginning to end.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.aggregate import Event
from projections.versions.projection import Projection, Rows, copy_rows
from projections.versions.reading import Seen


class Following(Projection):
    """A projection of one table, which `definition` makes: the body of a CREATE TABLE, and indexes by their columns.

    `project` is pure: the rows that follow from an event, with as many values as there are columns. `edition` names
    what `project` makes of events: a new one makes live tables outdated, as new columns do.
    """

    is_inline = False

    def __init__(
        self,
        name: str,
        *,
        events: Collection[type[Event]],
        columns: str,
        project: Callable[[Seen], Iterable[tuple[Any, ...]]],
        indexes: Sequence[str] = (),
        reads_payloads: bool = False,
        edition: str = "",
    ) -> None:
        self.name = name
        self.tables = (name,)
        self.events = frozenset(events)
        self.columns = columns
        self.names = _names(columns)
        self.indexes = tuple(indexes)
        self.reads_payloads = reads_payloads
        self.definition = "; ".join((columns, *indexes, *((edition,) if edition else ())))
        self.project = project

    def create(self, connection: Connection[Any], schema: str) -> None:
        """Make the table, empty, with its indexes."""
        table = SQL("{}").format(Identifier(schema, self.name)).as_string(connection)
        connection.execute(f"CREATE TABLE {table} ({self.columns})".encode())
        for index in self.indexes:
            connection.execute(f"CREATE INDEX ON {table} {index}".encode())


def _names(columns: str) -> tuple[str, ...]:
    """The names in the body of a CREATE TABLE, in its order."""
    bodies = re.sub(r"\([^()]*\)", "", columns).split(",")
    return tuple(body.split()[0] for body in bodies if not body.split()[0].isupper())


class Counter(Following):
    """Numbers that add up: the last column is the number, those before it name what is counted.

    With `folds_all` every event counts by itself; without it an event takes back what `seen.previous` had said, so
    that only the last event of each stream counts in the end.
    """

    def __init__(self, name: str, *, folds_all: bool, key: Sequence[str], **parts: Any) -> None:
        super().__init__(name, **parts)
        self.folds_all = self.adds_up = folds_all
        self.reads_previous = not folds_all
        self._key = tuple(key)

    def rows(self, seen: Seen) -> Rows:
        return {self.name: [*self.project(seen)]}

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        self.load(connection, schema, {self.name: [row for seen in batch for row in self.project(seen)]})

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        sums: dict[tuple[Any, ...], int] = {}
        for row in rows.get(self.name, ()):
            key = row[:-1]
            sums[key] = sums.get(key, 0) + row[-1]
        names = [SQL("{}").format(Identifier(column)) for column in self._key]
        statement = SQL(
            "INSERT INTO {table} ({key}, number) VALUES ({places}) ON CONFLICT ({key}) DO UPDATE"
            " SET number = {table}.number + excluded.number"
        ).format(
            table=Identifier(schema, self.name),
            key=SQL(", ").join(names),
            places=SQL(", ").join([SQL("%s")] * (len(names) + 1)),
        )
        changes = [(*key, number) for key, number in sorted(sums.items()) if number]
        with connection.cursor() as cursor:
            cursor.executemany(statement, changes)
        if any(number < 0 for *_, number in changes):
            connection.execute(SQL("DELETE FROM {} WHERE number = 0").format(Identifier(schema, self.name)))

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        return False


class Index(Following):
    """The rows of each stream, as its last event of these kinds leaves them; the first column is the stream."""

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        copy_rows(connection, schema, rows, {self.name: self.names})

    def rows(self, seen: Seen) -> Rows:
        return {self.name: [*self.project(seen)]}

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        last = {seen.stream: seen for seen in batch}
        if left := [stream for stream, seen in last.items() if seen.recorded.version > 1]:  # others have no rows yet
            query = SQL("DELETE FROM {} WHERE stream = ANY(%s)").format(Identifier(schema, self.name))
            connection.execute(query, (left,))
        self.load(connection, schema, {self.name: [row for seen in last.values() for row in self.project(seen)]})

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        connection.execute(SQL("DELETE FROM {} WHERE stream = %s").format(Identifier(schema, self.name)), (stream,))
        return True
