"""Projections of the platform: tables of accounts, customers, contracts, meters and market data.

The worker or api that appends an event also writes the rows of the event, in the same transaction.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import Connection
from psycopg.sql import SQL, Composed, Identifier

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.import_process import ImportProcessed, ImportReverted, SubjectErased
from eventstore.aggregates.participant import PARTICIPANT, ContactsErased
from eventstore.aggregates.participant import identity_of as participant_identity
from eventstore.aggregates.price_sheet import PRICE_SHEET
from eventstore.events import Recorded, read_event
from eventstore.log.rows import rows_of, value_of
from eventstore.operations.rights import Rights
from projections.platform.change import (
    PlatformChange,
    apply_change,
    copy_platform_rows,
    delete_accounts,
    platform_change,
)
from projections.platform.json_columns import TABLE_OF_FIELD
from projections.platform.tables import (
    ACCOUNT_TABLE,
    INDEXES,
    PARTICIPANT_TABLE,
    PRICE_SHEET_TABLE,
    RIGHTS,
    Table,
    primary_key,
    table_columns,
)
from projections.versions.projection import Projection, Rows, as_sql, delete_rows
from projections.versions.reading import Seen


class Platform(Projection):
    """A projection of several of the platform's tables."""

    home = "platform"
    reads_payloads = True
    load_rows = 100_000  # of all tables together; the bytes of payloads limit a load earlier

    def __init__(self, name: str, tables: Sequence[Table], events: frozenset[type[Event]]) -> None:
        self.name = name
        self.tables = tuple(table.name for table in tables)
        self._declared = tuple(tables)
        self.events = events
        self.definition = "; ".join(f"{table.name} {table_columns(table)}" for table in tables)

    def create(self, connection: Connection[Any], schema: str) -> None:
        """Create the declared tables; `index` creates their keys and indexes."""
        for table in self._declared:
            connection.execute(_create_statement(table, schema))

    def declared_columns(self, table: str) -> Sequence[tuple[str, str]]:
        return table_columns(self._table(table))

    def unsampled_columns(self, table: str) -> Sequence[str]:
        """Return the columns that are filled from payloads, and JSON columns, which no query searches."""
        return [
            name
            for name, kind in table_columns(self._table(table))
            if kind == "json" or (self.holds_persons and name not in _STAYING and not name.endswith("ordinal"))
        ]

    def rights_on(self, table: str) -> Rights:
        return RIGHTS[table]

    def fits(self, table: str, present: Mapping[str, str]) -> bool:
        """Return False if the table must be rebuilt, because it lacks a key column, or has an undeclared column or
        type.
        """
        declared = dict(self.declared_columns(table))
        has_key = present.keys() >= {*primary_key(self._table(table))}
        return has_key and all(declared.get(name) == kind for name, kind in present.items())

    def index(self, connection: Connection[Any], schema: str, table: str) -> None:
        key = SQL(", ").join(map(Identifier, primary_key(self._table(table))))
        connection.execute(SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(Identifier(schema, table), key))
        for name, columns in INDEXES.get(table, {}).items():
            kind = SQL("UNIQUE INDEX" if columns.startswith("UNIQUE ") else "INDEX")
            making = SQL("CREATE {} {} ON {} {}")
            names = (Identifier(name), Identifier(schema, table), as_sql(columns.removeprefix("UNIQUE ")))
            connection.execute(making.format(kind, *names))

    def add_indexes(self, connection: Connection[Any]) -> None:
        for table in self.tables:
            for name, columns in INDEXES.get(table, {}).items():
                if value_of(connection, _LACKS_INDEX, f"{self.home}.{table}", f"{self.home}.{name}"):
                    making = SQL("CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} {}")
                    place = Identifier(self.home, table)
                    connection.execute(making.format(Identifier(name), place, as_sql(columns.removeprefix("UNIQUE "))))

    def _table(self, name: str) -> Table:
        [declared] = [table for table in self._declared if table.name == name]
        return declared

    def rows(self, seen: Seen) -> Rows:
        change = platform_change(seen.recorded, seen.body)
        return {} if change is None else change.copied

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        copy_platform_rows(connection, schema, rows)

    def apply(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> None:
        rows: dict[str, list[bytes]] = {}
        reverted: dict[str, str] = {}
        for seen in batch:
            if isinstance(seen.recorded.event, ImportReverted):
                reverted[seen.stream] = seen.recorded.event.account_number
                continue
            change = platform_change(seen.recorded, seen.body)
            if change is None:
                continue
            if seen.stream in reverted:  # the next account of the same external number
                apply_change(connection, PlatformChange(copied=rows), schema=schema)
                delete_accounts(connection, schema, [*reverted.values()])
                rows, reverted = {}, {}
            if change.deleted:  # this event may delete rows of this batch
                apply_change(connection, PlatformChange(copied=rows), schema=schema)
                rows = {}
                apply_change(connection, change, schema=schema)
            else:
                for table, values in change.copied.items():
                    rows.setdefault(table, []).extend(values)
        apply_change(connection, PlatformChange(copied=rows), schema=schema)
        delete_accounts(connection, schema, [*reverted.values()])

    def forget(self, connection: Connection[Any], schema: str, stream: str) -> bool:
        prefix, rest = stream.split("/", 1)
        if prefix == "import" and ACCOUNT_TABLE.name in self.tables:
            query = SQL("SELECT account_number FROM {} WHERE import_supplier = %s AND external_account_number = %s")
            stored = rows_of(connection, query.format(Identifier(schema, ACCOUNT_TABLE.name)), *rest.split("/", 1))
            for number in sorted({number for (number,) in stored} | _numbers_in_log(connection, stream)):
                for table in self.tables:
                    delete_rows(connection, schema, table, {"account_number": number})
        root = _MARKET_ROOTS.get(prefix)
        if root is not None and root.name in self.tables:
            key = dict(zip((name for name, _ in root.key), rest.split("/", len(root.key) - 1), strict=True))
            for below in root.all():
                delete_rows(connection, schema, below.name, key)
        return True

    def forget_person(self, connection: Connection[Any], schema: str, erasure: Recorded) -> None:
        """Delete the person's rows.

        Account numbers come from the log, because tables being built may lack the account's row. A version that does
        not follow the log may still have reverted accounts. Versions that other code has built may have other tables.
        """
        event = erasure.event
        if isinstance(event, ContactsErased) and CONTACT_TABLE in self.tables:
            organisation, code = participant_identity(erasure.stream)
            delete_rows(connection, schema, CONTACT_TABLE, {"organisation": organisation, "code": code})
        if self.holds_persons and isinstance(event, SubjectErased):
            present = [name for (name,) in rows_of(connection, _SELECT_OF_ACCOUNTS, schema)]
            numbers = {event.account_number, *_numbers_in_log(connection, erasure.stream)} - {""}
            deleted = [(table, {"account_number": number}) for table in present for number in sorted(numbers)]
            apply_change(connection, PlatformChange(deleted=deleted), schema=schema)


_STAYING = (
    *("account_number", "import_supplier", "external_account_number", "created_at", "recorded_at", "erased_at"),
    *("organisation", "code", "market_participant_code", "document_number"),
)
"""Columns without personal data: columns that an erasure keeps, and times of the log."""

CONTACT_TABLE = TABLE_OF_FIELD["contact_details"]
_MARKET_ROOTS = {PARTICIPANT.prefix: PARTICIPANT_TABLE, PRICE_SHEET.prefix: PRICE_SHEET_TABLE}


_LACKS_INDEX = "SELECT to_regclass(%s) IS NOT NULL AND to_regclass(%s) IS NULL"
_SELECT_NUMBERED = """
SELECT topic, state FROM events WHERE stream = %s AND topic IN ('import_processed.v1', 'import_reverted.v1')
"""


def _numbers_in_log(connection: Connection[Any], stream: str) -> set[str]:
    """Return the numbers of all accounts of the import.

    Unreadable events are skipped, because an erasure must not fail.
    """
    events = [read_event(stream, topic, bytes(state)) for topic, state in rows_of(connection, _SELECT_NUMBERED, stream)]
    return {event.account_number for event in events if isinstance(event, ImportProcessed | ImportReverted)}


_SELECT_OF_ACCOUNTS = """
SELECT table_name FROM information_schema.columns
WHERE table_schema = %s AND column_name = 'account_number'
ORDER BY table_name
"""


def _create_statement(table: Table, schema: str) -> Composed:
    """Return the CREATE TABLE, with NOT NULL for the columns that identify a row or its parent."""
    columns = table_columns(table)
    named = {*primary_key(table), f"{table.parent}_ordinal"}
    if not table.field and table is not ACCOUNT_TABLE:
        named.add("recorded_at")
    if table is ACCOUNT_TABLE:
        named |= {"import_supplier", "external_account_number"}
    parts = [
        SQL("{} {}{}").format(Identifier(name), as_sql(kind), SQL(" NOT NULL" if name in named else ""))
        for name, kind in columns
    ]
    return SQL("CREATE TABLE {} ({})").format(Identifier(schema, table.name), SQL(", ").join(parts))
