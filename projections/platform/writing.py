"""Writing the platform's tables, in the transaction of the events that tell of the change."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.events import Recorded
from eventstore.log import locks
from eventstore.log.copy_format import copy_written
from eventstore.log.ledger import Beside
from projections.platform.tables import MARKET_TABLES, TABLES, table_columns

PlatformRows = Mapping[str, Sequence[bytes]]
"""Rows in COPY's format by table name, in the order of `table_columns`."""

_COLUMNS = {table.name: tuple(name for name, _ in table_columns(table)) for table in (*TABLES, *MARKET_TABLES)}


class PlatformChange(msgspec.Struct, frozen=True):
    """What an event changes in the platform's tables: rows to delete, by table and column values; rows to copy then."""

    deleted: Sequence[tuple[str, Mapping[str, str]]] = ()
    copied: PlatformRows = {}


def apply_change(connection: Connection[Any], change: PlatformChange, *, schema: str = "platform") -> None:
    """Delete from and COPY into the tables of the schema, in the connection's transaction."""
    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (locks.PLATFORM,))
    with connection.cursor() as cursor:
        for table, key in change.deleted:
            places = SQL(" AND ").join(SQL("{} = %s").format(Identifier(column)) for column in key)
            cursor.execute(SQL("DELETE FROM {} WHERE {}").format(Identifier(schema, table), places), [*key.values()])
    copy_platform_rows(connection, schema, change.copied)


def copy_platform_rows(connection: Connection[Any], schema: str, rows: PlatformRows) -> None:
    """COPY rows into the tables of the schema, one COPY a table."""
    with connection.cursor() as cursor:
        for table, written in rows.items():
            copy_written(cursor, schema, table, _COLUMNS[table], written)


def copying(rows: PlatformRows) -> Beside:
    """What `Ledger.execute_many` is to write beside its events: these rows."""
    return lambda connection, events: apply_change(connection, PlatformChange(copied=rows))


def changing(change: Callable[[Recorded], PlatformChange]) -> Beside:
    """What a `Ledger` is to write beside its events: what each of them changes, one COPY a table."""

    def write(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        changes = [change(recorded) for recorded in events]
        copied: dict[str, list[bytes]] = {}
        for one in changes:
            for table, rows in one.copied.items():
                copied.setdefault(table, []).extend(rows)
        apply_change(connection, PlatformChange([place for one in changes for place in one.deleted], copied))

    return write
