"""Base of all projections: name, tables, and the functions that derive rows from events.

A projection has two such functions, whose results tests compare. `rows` returns the rows for the last event of a
stream, from which a new version is built by bulk COPY. `apply` changes the tables for events in order; followers, and
new versions after the bulk COPY, use `apply`. Projections that need every event set `folds_all` and are always built by
`apply`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, LiteralString

from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.aggregate import Event
from eventstore.events import ERASURES, Recorded
from eventstore.log.copy_format import copy_into
from eventstore.operations.rights import Rights
from projections.versions.reading import Seen, topics_of

Rows = Mapping[str, Sequence[Any]]
"""Rows by table name: tuples of values, or another form that the projection's `load` accepts."""


class Projection:
    """Base of all projections. Each projection is one object in `projections.PROJECTIONS`."""

    name: str
    home: ClassVar[str] = "public"
    """Schema of the live version."""
    tables: tuple[str, ...]
    events: frozenset[type[Event]]
    is_inline: bool = True
    """True if the projection is written in the append's transaction; other projections follow the log."""
    reads_payloads: bool = False
    reads_previous: bool = False
    """True if the projection needs the topic of the previous event in the stream of each event."""
    folds_all: bool = False
    is_ahead: bool = False
    """True if appends write some rows of the projection before it reaches their events in the log."""
    load_rows: ClassVar[int] = 20_000
    """Rows collected for one `load`."""
    skipped: LiteralString = "false"
    """SQL condition on events `e` that do not change the rows of their stream."""
    rights: Rights = Rights(relay="SIUD")
    """Rights of the service's roles on the tables: the relay writes tables that follow the log."""
    definition: str
    """Text of the declaration. A version with another definition cannot become live."""

    def rights_on(self, table: str) -> Rights:
        """Return the rights of the service's roles on a table."""
        return self.rights

    def create(self, connection: Connection[Any], schema: str) -> None:
        """Create the projection's empty tables in the schema."""
        raise NotImplementedError

    def index(self, connection: Connection[Any], schema: str, table: str) -> None:
        """Create the key and indexes of a table after its rows are loaded."""

    def add_indexes(self, connection: Connection[Any]) -> None:
        """Create declared indexes that the live tables lack, while the service writes to them."""

    def declared_columns(self, table: str) -> Sequence[tuple[str, str]]:
        """Return (name, SQL type with constraint) of the columns that can be added to existing rows; see `install`."""
        return ()

    def fits(self, table: str, present: Mapping[str, str]) -> bool:
        """Return whether a live table with these columns and types can store the rows of the present declaration."""
        return True

    def unsampled_columns(self, table: str) -> Sequence[str]:
        """Return the columns that must have no planner statistics, because statistics would contain values of erased
        persons.
        """
        return ()

    @property
    def topics(self) -> list[str]:
        return topics_of(self.events)

    def rows(self, seen: Seen) -> Rows:
        """Return the rows by table for the last event of a stream. Pure."""
        raise NotImplementedError

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        """Load rows of last events into tables of a new version."""
        raise NotImplementedError

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        """Apply events to the schema's tables, in the order of the log."""
        raise NotImplementedError

    def unwritten(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> Sequence[Seen]:
        """Return the events that the tables do not include yet.

        The function is called before payloads are decrypted.
        """
        return batch

    def maintain(self, connection: Connection[Any], *, is_idle: bool) -> None:
        """Maintain the live tables. The projector calls it after each read, outside of a transaction.

        `is_idle` is True if the last read had no events.
        """

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        """Delete the rows of a stream; return False if the projection's rows do not belong to single streams."""
        return False

    @property
    def holds_persons(self) -> bool:
        """True if the rows have personal data from payloads; the projection's events then include erasures."""
        return self.reads_payloads and not self.events.isdisjoint(ERASURES.values())

    def forget_person(self, connection: Connection[Any], schema: str, erasure: Recorded) -> None:
        """Delete personal data from the schema's tables when a person is erased."""
        if self.holds_persons:
            self.forget(connection, schema, erasure.stream)


def declared_columns_of(body: str) -> dict[str, str]:
    """Return the declarations in the body of a CREATE TABLE by column, without table constraints."""
    parts = (part.split(maxsplit=1) for part in re.split(r",\s*(?![^()]*\))", body))
    return {name: declaration for name, declaration in parts if not name.isupper()}


def as_sql(text: str) -> SQL:
    """Return the text of a declaration as SQL. Declarations are code, so they need no quoting."""
    return SQL(text)


def exclude_from_statistics(connection: Connection[Any], projection: Projection, schema: str) -> None:
    """Exclude personal data from the planner statistics of the schema's tables."""
    for table in projection.tables:
        if columns := projection.unsampled_columns(table):
            clauses = [SQL("ALTER COLUMN {} SET STATISTICS 0").format(Identifier(name)) for name in columns]
            statement = SQL("ALTER TABLE IF EXISTS {} {}").format(Identifier(schema, table), SQL(", ").join(clauses))
            connection.execute(statement)


def delete_rows(connection: Connection[Any], schema: str, table: str, key: Mapping[str, Any]) -> None:
    """Delete the rows of a table with these values by column."""
    conditions = SQL(" AND ").join(SQL("{} = %s").format(Identifier(column)) for column in key)
    connection.execute(SQL("DELETE FROM {} WHERE {}").format(Identifier(schema, table), conditions), [*key.values()])


def copy_rows(connection: Connection[Any], schema: str, rows: Rows, columns: Mapping[str, Sequence[str]]) -> None:
    """COPY rows into the schema's tables; `columns` gives the order of the values by table."""
    for table, values in rows.items():
        copy_into(connection, schema, table, columns[table], values)
