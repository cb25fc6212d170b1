"""What an event changes in the platform's records, live and when they are made anew. Pure."""

from datetime import datetime
from typing import Any

from eventstore.aggregates.import_process import ImportProcessed, SubjectErased
from eventstore.aggregates.import_process import identity_of as import_identity
from eventstore.aggregates.participant import ContactsErased, ParticipantImported
from eventstore.aggregates.participant import identity_of as participant_identity
from eventstore.aggregates.post_account import RecordCancellationChanged, RecordImported, identity_of
from eventstore.aggregates.price_sheet import PriceSheetImported
from eventstore.events import Recorded
from projections.platform.rows import (
    erased_row,
    participant_rows_of,
    price_sheet_rows_of,
    record_rows_of,
    rows_of,
)
from projections.platform.tables import ACCOUNT_TABLE, PARTICIPANT_TABLE, RECORD_TABLES, TABLES
from projections.platform.writing import PlatformChange
from schemas.base import Wire
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import PriceSheet
from schemas.reading.shape import Shape
from schemas.submission import stored_account

_ENVELOPES: dict[str, tuple[Shape[Any], str]] = {
    "delivery-note": (Shape(DeliveryNoteImport), "delivery_note"),
    "energy-amount": (Shape(EnergyAmountImport), "energy_amount"),
    "invoice": (Shape(MarketParticipantInvoiceImport), "market_participant_invoice"),
}

_PARTICIPANT = Shape(MarketParticipant)
_PRICE_SHEET = Shape(PriceSheet)


def platform_change(recorded: Recorded, body: bytes | None) -> PlatformChange | None:
    """What an event changes in the platform's records, given the payload that it speaks of. Pure."""
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
    """The record's rows, in place of those that it had."""
    reference = identity_of(recorded.stream)[2]
    key = {"account_number": account_number, "reference": reference}
    event, is_new = recorded.event, isinstance(recorded.event, RecordImported)
    assert isinstance(event, RecordImported | RecordCancellationChanged)
    return PlatformChange(
        deleted=() if is_new else [(table.name, key) for table in RECORD_TABLES[type(record)].all()],
        copied=record_rows_of(record, account_number, reference, event.imported_at),
    )


def participant_change(participant: MarketParticipant, recorded: Recorded) -> PlatformChange:
    """A participant is imported once, and never changed, until its contacts are erased."""
    event = recorded.event
    assert isinstance(event, ParticipantImported | ContactsErased)
    organisation, code = participant_identity(recorded.stream)
    key = {"organisation": organisation, "code": str(code)}
    is_new = isinstance(event, ParticipantImported)
    return PlatformChange(
        deleted=() if is_new else [(table.name, key) for table in PARTICIPANT_TABLE.all()],
        copied=participant_rows_of(participant, organisation, event.imported_at),
    )


def price_sheet_change(sheet: PriceSheet, recorded: Recorded) -> PlatformChange:
    """A sheet is imported once, and never changed."""
    assert isinstance(recorded.event, PriceSheetImported)
    organisation = recorded.stream.split("/", 2)[1]
    return PlatformChange(copied=price_sheet_rows_of(sheet, organisation, recorded.event.imported_at))


def _erasure(stream: str, account_number: str, at: datetime) -> PlatformChange:
    """Delete every row that speaks of the person; the account's number and keys stay."""
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
