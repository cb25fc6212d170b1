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
from psycopg.sql import SQL, Composed, Identifier

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.import_process import SubjectErased
from eventstore.aggregates.participant import PARTICIPANT, ContactsErased
from eventstore.aggregates.participant import identity_of as participant_identity
from eventstore.aggregates.price_sheet import PRICE_SHEET
from eventstore.events import ERASURES, Recorded
from eventstore.log.copying import copy_into
from eventstore.operations.rights import Rights
from projections.platform.change import platform_change
from projections.platform.storage import TABLE_OF_FIELD
from projections.platform.tables import (
    ACCOUNT_TABLE,
    INDEXES,
    PARTICIPANT_TABLE,
    PRICE_SHEET_TABLE,
    Table,
    primary_key,
    table_columns,
)
from projections.platform.writing import PlatformChange, apply_change, copy_platform_rows
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
    reads_previous: bool = True
    """Whether it wants to know what came before an event in its stream: to look that up costs as much as reading."""
    folds_all: bool = False
    adds_up: bool = False
    """Whether with `folds_all` each event counts by itself, whatever came before it: any order gives the same."""
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
        raise NotImplementedError

    @property
    def holds_persons(self) -> bool:
        """Whether its rows repeat what was sent about persons: an erasure is among its events then."""
        return self.reads_payloads and not self.events.isdisjoint(ERASURES.values())

    def forget_person(self, connection: Connection[Any], schema: str, erasure: Recorded) -> None:
        """Delete what these tables hold of a person, before the erasure itself is applied to them, or instead of it."""
        if self.holds_persons:
            self.forget(connection, schema, erasure.stream)


class Platform(Projection):
    """The platform's records, all these tables at once: written in the transaction that makes the record."""

    home = "platform"
    reads_payloads = True
    reads_previous = False
    load_rows = 100_000  # each is what an account has in a table; bytes of payloads bound them before that

    def __init__(
        self, name: str, tables: Sequence[Table], events: frozenset[type[Event]], rights: Mapping[str, Rights]
    ) -> None:
        self.name = name
        self._rights = rights
        self.tables = tuple(table.name for table in tables)
        self._declared = tuple(tables)
        self.events = events
        self.definition = "; ".join(f"{table.name} {table_columns(table)}" for table in tables)

    def create(self, connection: Connection[Any], schema: str) -> None:
        """Tables as they are declared; `index` makes their keys and indexes."""
        for table in self._declared:
            connection.execute(_create_statement(table, schema))

    def declared_columns(self, table: str) -> Sequence[tuple[str, str]]:
        return table_columns(self._table(table))

    def unsampled_columns(self, table: str) -> Sequence[str]:
        """All that a payload fills in, and JSON, which nobody searches."""
        return [
            name
            for name, kind in table_columns(self._table(table))
            if kind in ("json", "jsonb")
            or (self.holds_persons and name not in _STAYING and not name.endswith("ordinal"))
        ]

    def rights_on(self, table: str) -> Rights:
        return self._rights[table]

    def key_of(self, table: str) -> Sequence[str]:
        """The columns that name a row."""
        return primary_key(self._table(table))

    def index(self, connection: Connection[Any], schema: str, table: str) -> None:
        key = SQL(", ").join(map(Identifier, self.key_of(table)))
        adding = SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(Identifier(schema, table), key)
        connection.execute(adding)
        for name, columns in INDEXES.get(table, {}).items():
            kind = SQL("UNIQUE INDEX" if columns.startswith("UNIQUE ") else "INDEX")
            making = SQL("CREATE {} {} ON {} {}")
            names = (Identifier(name), Identifier(schema, table), _said(columns.removeprefix("UNIQUE ")))
            connection.execute(making.format(kind, *names))

    def _table(self, name: str) -> Table:
        [declared] = [one for one in self._declared if one.name == name]
        return declared

    def rows(self, seen: Seen) -> Rows:
        change = platform_change(seen.recorded, seen.body)
        return {} if change is None else change.copied

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        copy_platform_rows(connection, schema, rows)

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
            key = dict(zip((name for name, _ in root.key), rest.split("/", len(root.key) - 1), strict=True))
            for below in root.all():
                delete_rows(connection, schema, below.name, key)
        return True

    def forget_person(self, connection: Connection[Any], schema: str, erasure: Recorded) -> None:
        """Delete what the tables say of the person.

        The account's number comes from the erasure itself, since tables in the making may lack the account's row.

        Versions that other code has made may have other tables.
        """
        event = erasure.event
        if isinstance(event, ContactsErased) and CONTACT_TABLE in self.tables:
            organisation, code = participant_identity(erasure.stream)
            deleting = SQL(_DELETE_CONTACTS).format(Identifier(schema, CONTACT_TABLE))
            connection.execute(deleting, {"code": code, "organisation": organisation})
        if self.holds_persons and isinstance(event, SubjectErased) and event.account_number:
            with connection.cursor(row_factory=tuple_row) as cursor:
                cursor.execute(_SELECT_OF_ACCOUNTS, (schema,))
                present = [name for (name,) in cursor.fetchall()]
            deleted = [(table, {"account_number": event.account_number}) for table in present]
            apply_change(connection, PlatformChange(deleted=deleted), schema=schema)


_STAYING = (
    *("account_number", "import_supplier", "external_account_number", "created_at", "recorded_at", "erased_at"),
    *("organisation", "code", "market_participant_code", "document_number"),
)
"""Columns that an erasure leaves, and times of the log."""

CONTACT_TABLE = TABLE_OF_FIELD["contact_details"]
_MARKET_ROOTS = {PARTICIPANT.prefix: PARTICIPANT_TABLE, PRICE_SHEET.prefix: PRICE_SHEET_TABLE}


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


_DELETE_CONTACTS: LiteralString = """
DELETE FROM {} AS t
WHERE code = %(code)s AND coalesce(to_jsonb(t) ->> 'organisation', %(organisation)s) = %(organisation)s
"""
"""Tables of former versions have no organisation: there, all contacts under the code are deleted."""
_SELECT_OF_ACCOUNTS = """
SELECT table_name FROM information_schema.columns
WHERE table_schema = %s AND column_name = 'account_number'
ORDER BY table_name
"""


def _create_statement(table: Table, schema: str) -> Composed:
    """Columns that name a row, or its parent, are never null."""
    columns = table_columns(table)
    named = {*primary_key(table), f"{table.parent}_ordinal"}
    if not table.field and table is not ACCOUNT_TABLE:
        named.add("recorded_at")
    if table is ACCOUNT_TABLE:
        named |= {"import_supplier", "external_account_number"}
    parts = [
        SQL("{} {}{}").format(Identifier(name), _said(kind), SQL(" NOT NULL" if name in named else ""))
        for name, kind in columns
    ]
    return SQL("CREATE TABLE {} ({})").format(Identifier(schema, table.name), SQL(", ").join(parts))


def _said(text: str) -> SQL:
    """Text of a declaration as SQL. It is written in our own files, so it needs no quoting."""
    return SQL(text)
