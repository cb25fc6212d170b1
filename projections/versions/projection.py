"""Base of all projections: a name, its tables, the events that it is made from, and the rows that these make.

There are two ways from the log to the tables, and tests hold them together. `rows` gives the rows that the last event
of a stream leaves, which is all that a new version is made of, by bulk COPY. `apply` changes the tables for events in
order, which is how a version catches up and how a follower keeps a live one. Projections whose rows need every event
say so (`folds_all`) and are always made by `apply`.
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
"""Rows by table name: tuples of values, or what `load` of the projection takes instead."""


class Projection:
    """The base of all projections, which the module describes. Each is one object in `projections.PROJECTIONS`."""

    name: str
    home: ClassVar[str] = "public"
    """The schema in which the live version is."""
    tables: tuple[str, ...]
    events: frozenset[type[Event]]
    is_inline: bool = True
    """Whether it is written in the append's transaction; others follow the log."""
    reads_payloads: bool = False
    reads_previous: bool = False
    """Whether it needs the topic of the event before an event in its stream."""
    folds_all: bool = False
    is_ahead: bool = False
    """Whether its live rows may be ahead of its position, since appends write some; it follows the log all the same."""
    load_rows: ClassVar[int] = 20_000
    """How many items of `rows` are collected for a `load`; as many as memory allows, since each COPY has a price."""
    skipped: LiteralString = "false"
    """An SQL condition on events `e` that leave the rows of their stream as they are."""
    rights: Rights = Rights(relay="SIUD")
    """Rights of each role of the service on the tables: the relay writes tables that follow the log."""
    definition: str
    """How its tables are made, by which a version is known: one that was made otherwise is not switched in."""

    def rights_on(self, table: str) -> Rights:
        """Return the rights of each role of the service on this table."""
        return self.rights

    def create(self, connection: Connection[Any], schema: str) -> None:
        """Make its tables in the schema, empty."""
        raise NotImplementedError

    def index(self, connection: Connection[Any], schema: str, table: str) -> None:
        """Give a table the key and the indexes that `create` has left to be made when the rows are there."""

    def declared_columns(self, table: str) -> Sequence[tuple[str, str]]:
        """(name, SQL type with its constraint) of the columns that rows in place can get later; see `install`."""
        return ()

    def fits(self, table: str, present: Mapping[str, str]) -> bool:
        """Return whether a live table of these columns and types can hold rows as they are declared now."""
        return True

    def unsampled_columns(self, table: str) -> Sequence[str]:
        """Columns without statistics: those would keep values of persons who are erased."""
        return ()

    @property
    def topics(self) -> list[str]:
        return topics_of(self.events)

    def rows(self, seen: Seen) -> Rows:
        """The rows that this last event of its stream leaves, by table. Pure."""
        raise NotImplementedError

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        """Take rows of last events into tables that are being made."""
        raise NotImplementedError

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        """Change the schema's tables for these events, which follow each other in the log."""
        raise NotImplementedError

    def unwritten(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> Sequence[Seen]:
        """Those of the events that its tables do not have already, asked before their payloads are opened."""
        return batch

    def put_in_order(self, connection: Connection[Any], *, is_idle: bool) -> None:
        """What its live tables want to have done now and then, by who follows the log, outside of a transaction."""

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        """Delete the rows of one stream; False when they cannot be told from those of others."""
        return False

    @property
    def holds_persons(self) -> bool:
        """Whether its rows repeat what was sent about persons: an erasure is among its events then."""
        return self.reads_payloads and not self.events.isdisjoint(ERASURES.values())

    def forget_person(self, connection: Connection[Any], schema: str, erasure: Recorded) -> None:
        """Delete what these tables hold of a person, before the erasure itself is applied to them, or instead of it."""
        if self.holds_persons:
            self.forget(connection, schema, erasure.stream)


def declared_columns_of(body: str) -> dict[str, str]:
    """The declaration of each column, by name, in the body of a CREATE TABLE; without constraints of the table."""
    parts = (part.split(maxsplit=1) for part in re.split(r",\s*(?![^()]*\))", body))
    return {name: declaration for name, declaration in parts if not name.isupper()}


def keep_off_statistics(connection: Connection[Any], projection: Projection, schema: str) -> None:
    """Let ANALYZE sample no value of a person in the schema's tables."""
    for table in projection.tables:
        if columns := projection.unsampled_columns(table):
            clauses = [SQL("ALTER COLUMN {} SET STATISTICS 0").format(Identifier(name)) for name in columns]
            statement = SQL("ALTER TABLE IF EXISTS {} {}").format(Identifier(schema, table), SQL(", ").join(clauses))
            connection.execute(statement)


def delete_rows(connection: Connection[Any], schema: str, table: str, key: Mapping[str, Any]) -> None:
    """Delete the rows of a table in which these columns have these values."""
    places = SQL(" AND ").join(SQL("{} = %s").format(Identifier(column)) for column in key)
    connection.execute(SQL("DELETE FROM {} WHERE {}").format(Identifier(schema, table), places), [*key.values()])


def copy_rows(connection: Connection[Any], schema: str, rows: Rows, columns: Mapping[str, Sequence[str]]) -> None:
    """COPY rows, whose values are in the order of these columns by table, into the schema's tables."""
    for table, values in rows.items():
        copy_into(connection, schema, table, columns[table], values)
