"""Changes that events make in the platform's records, live and in a rebuild; and writing them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.import_process import ImportProcessed, SubjectErased
from eventstore.aggregates.import_process import identity_of as import_identity
from eventstore.aggregates.participant import ContactsErased, ParticipantImported
from eventstore.aggregates.participant import identity_of as participant_identity
from eventstore.aggregates.post_account import RecordCancellationChanged, RecordImported, identity_of
from eventstore.aggregates.price_sheet import PriceSheetImported
from eventstore.events import Recorded
from eventstore.log import locks
from eventstore.log.copy_format import BIGINT, copy_written, text
from eventstore.log.ledger import WriteRows
from projections.platform.rows import erased_row, rows_of, rows_under
from projections.platform.tables import (
    ACCOUNT_TABLE,
    MARKET_TABLES,
    PARTICIPANT_TABLE,
    PRICE_SHEET_TABLE,
    RECORD_TABLES,
    TABLES,
    table_columns,
)
from projections.versions.projection import delete_rows
from schemas.base import Wire
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import PriceSheet
from schemas.reading.shape import Shape
from schemas.submission import stored_account

PlatformRows = Mapping[str, Sequence[bytes]]
"""Rows in COPY's format by table name, in the order of `table_columns`."""

_COLUMNS = {table.name: tuple(name for name, _ in table_columns(table)) for table in (*TABLES, *MARKET_TABLES)}


class PlatformChange(msgspec.Struct, frozen=True):
    """Change of the platform's tables by an event: rows to delete, by table and values, then rows to COPY."""

    deleted: Sequence[tuple[str, Mapping[str, str]]] = ()
    copied: PlatformRows = {}


_ENVELOPES: dict[str, tuple[Shape[Any], str]] = {
    "delivery-note": (Shape(DeliveryNoteImport), "delivery_note"),
    "energy-amount": (Shape(EnergyAmountImport), "energy_amount"),
    "invoice": (Shape(MarketParticipantInvoiceImport), "market_participant_invoice"),
}

_PARTICIPANT = Shape(MarketParticipant)
_PRICE_SHEET = Shape(PriceSheet)


def platform_change(recorded: Recorded, body: bytes | None) -> PlatformChange | None:
    """Return the change that an event with this payload makes in the platform's records, or None. Pure."""
    match recorded.event:
        case ImportProcessed(account_number=number, created_at=at) if body is not None:
            return PlatformChange(copied=rows_of(stored_account(body), number, at))
        case RecordImported(account_number=number) | RecordCancellationChanged(account_number=number) if (
            body is not None
        ):
            return record_change(_record_in(recorded.stream, body), recorded, number)
        case ParticipantImported() | ContactsErased() if body is not None:
            return participant_change(_PARTICIPANT.stored(body), recorded)
        case PriceSheetImported() if body is not None:
            return price_sheet_change(_PRICE_SHEET.stored(body), recorded)
        case SubjectErased(account_number=number, erased_at=at) if number:
            return _erasure(recorded.stream, number, at)
        case _:
            return None


def record_change(record: Wire, recorded: Recorded, account_number: str) -> PlatformChange:
    """Return the change that inserts a record's rows, or replaces these rows after a changed cancellation."""
    reference = identity_of(recorded.stream)[2]
    key = {"account_number": account_number, "reference": reference}
    event, is_new = recorded.event, isinstance(recorded.event, RecordImported)
    assert isinstance(event, RecordImported | RecordCancellationChanged)
    return PlatformChange(
        deleted=() if is_new else [(table.name, key) for table in RECORD_TABLES[type(record)].all()],
        copied=rows_under(
            RECORD_TABLES[type(record)], record, (text(account_number), text(reference)), event.imported_at
        ),
    )


def participant_change(participant: MarketParticipant, recorded: Recorded) -> PlatformChange:
    """Return the change that inserts a participant's rows, or replaces these rows when its contacts are erased."""
    event = recorded.event
    assert isinstance(event, ParticipantImported | ContactsErased)
    organisation, code = participant_identity(recorded.stream)
    key = {"organisation": organisation, "code": str(code)}
    is_new = isinstance(event, ParticipantImported)
    return PlatformChange(
        deleted=() if is_new else [(table.name, key) for table in PARTICIPANT_TABLE.all()],
        copied=rows_under(
            PARTICIPANT_TABLE, participant, (text(organisation), BIGINT[participant.code]), event.imported_at
        ),
    )


def price_sheet_change(sheet: PriceSheet, recorded: Recorded) -> PlatformChange:
    """Return the change that inserts a price sheet's rows. A sheet never changes."""
    assert isinstance(recorded.event, PriceSheetImported)
    key = (
        text(recorded.stream.split("/", 2)[1]),
        BIGINT[sheet.market_participant_code],
        text(sheet.document_number),
    )
    return PlatformChange(copied=rows_under(PRICE_SHEET_TABLE, sheet, key, recorded.event.imported_at))


def _erasure(stream: str, account_number: str, at: datetime) -> PlatformChange:
    """Return the change that deletes all rows of the account, and keeps its numbers and its supplier."""
    row = erased_row(account_number, *import_identity(stream), at)
    return PlatformChange(
        deleted=[(table.name, {"account_number": account_number}) for table in TABLES],
        copied={ACCOUNT_TABLE.name: [row]},
    )


def _record_in(stream: str, body: bytes) -> Wire:
    shape, field = _ENVELOPES[stream.split("/", 1)[0]]
    record = getattr(shape.stored(body), field)
    assert isinstance(record, Wire)
    return record


def apply_change(connection: Connection[Any], change: PlatformChange, *, schema: str = "platform") -> None:
    """Delete from and COPY into the tables of the schema, in the connection's transaction."""
    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (locks.PLATFORM,))
    for table, key in change.deleted:
        delete_rows(connection, schema, table, key)
    copy_platform_rows(connection, schema, change.copied)


def delete_accounts(connection: Connection[Any], schema: str, numbers: Sequence[str]) -> None:
    """Delete the rows of reverted accounts. Reverted accounts have no records."""
    for table in ACCOUNT_TABLE.all() if numbers else ():
        statement = SQL("DELETE FROM {} WHERE account_number = ANY(%s)").format(Identifier(schema, table.name))
        connection.execute(statement, (list(numbers),))


def copy_platform_rows(connection: Connection[Any], schema: str, rows: PlatformRows) -> None:
    """COPY rows into the tables of the schema, with one COPY per table."""
    with connection.cursor() as cursor:
        for table, written in rows.items():
            copy_written(cursor, schema, table, _COLUMNS[table], written)


def copying(rows: PlatformRows) -> WriteRows:
    """Return a `write_rows` for `Ledger.execute_many` that COPYs platform rows."""
    return lambda connection, events: apply_change(connection, PlatformChange(copied=rows))


def changing(change: Callable[[Recorded], PlatformChange]) -> WriteRows:
    """Return a function that writes the changes of events in their transaction, with one COPY per table."""

    def write(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        changes = [change(recorded) for recorded in events]
        copied: dict[str, list[bytes]] = {}
        for each in changes:
            for table, rows in each.copied.items():
                copied.setdefault(table, []).extend(rows)
        apply_change(connection, PlatformChange([deletion for each in changes for deletion in each.deleted], copied))

    return write
