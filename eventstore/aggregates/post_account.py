"""Records of an account that are sent after its import: delivery notes, energy amounts, invoices. Pure.

All three kinds have the same rules. A record is imported once under its reference. The same content again appends no
event, a changed cancellation appends one, and any other content is refused.
"""

import hashlib
import json
from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from eventstore.aggregates.aggregate import Aggregate, Command, Digest, Event, Events, Instant, State, event_of
from eventstore.errors import Refused


class RecordDiffers(Refused):
    """A record with this reference was imported with other content."""

    code = "unique"

    def __init__(self) -> None:
        super().__init__(
            "A record with this reference was imported with other content.",
            "Ein Datensatz mit dieser Referenz wurde mit anderem Inhalt importiert.",
        )


class RecordImported(Event, frozen=True):
    """The account has the record. `payload_sha256` is the digest of the request, `content_sha256` of its content.

    `private` holds the encrypted names of undocumented fields that were dropped (`eventstore.log.private`). The
    record's rows are dated `imported_at`.
    """

    account_number: str
    payload_sha256: Digest
    content_sha256: str
    cancellation_sha256: str
    imported_at: Instant
    is_cancelled: bool = False
    dropped_fields: tuple[str, ...] = ()
    private: str = ""


class RecordCancellationChanged(Event, frozen=True):
    """The record was cancelled, or is valid again. Nothing else has changed. The rows of the record are replaced."""

    account_number: str
    payload_sha256: Digest
    cancellation_sha256: str
    imported_at: Instant
    is_cancelled: bool
    dropped_fields: tuple[str, ...] = ()
    private: str = ""


RecordEvent = RecordImported | RecordCancellationChanged


class ImportRecord(Command, frozen=True):
    """Store the record.

    `content_sha256` covers all fields except the cancellation, `cancellation_sha256` covers the cancellation. Both
    digests are of the text as sent. If the text differs from the stored text but means the same, the caller passes the
    stored digests.
    """

    account_number: str
    payload_sha256: str
    content_sha256: str
    cancellation_sha256: str
    is_cancelled: bool
    dropped_fields: tuple[str, ...] = ()
    private: str = ""


class Record(State, frozen=True):
    """State of a record.

    `content_sha256` is empty for an unknown record. `payload_sha256` is the digest of the newest request.
    """

    payload_sha256: str = ""
    content_sha256: str = ""
    cancellation_sha256: str = ""
    is_cancelled: bool = False


def decide(command: ImportRecord, record: Record, at: datetime) -> RecordEvent | None:
    """Return the event that follows; None for the same record again. Raises RecordDiffers."""
    match command:
        case ImportRecord() if not record.content_sha256:
            return event_of(RecordImported, command, imported_at=at)
        case ImportRecord() if record.content_sha256 != command.content_sha256:
            raise RecordDiffers
        case ImportRecord() if record.cancellation_sha256 == command.cancellation_sha256:
            return None
        case ImportRecord() if record.is_cancelled != command.is_cancelled:
            return event_of(RecordCancellationChanged, command, imported_at=at)
        case ImportRecord():
            raise RecordDiffers


def evolve(record: Record, event: RecordEvent) -> Record:
    """Return the state after the event."""
    match event:
        case RecordImported():
            return Record(
                payload_sha256=event.payload_sha256,
                content_sha256=event.content_sha256,
                cancellation_sha256=event.cancellation_sha256,
                is_cancelled=event.is_cancelled,
            )
        case RecordCancellationChanged():
            return replace(
                record,
                payload_sha256=event.payload_sha256,
                cancellation_sha256=event.cancellation_sha256,
                is_cancelled=event.is_cancelled,
            )
        case _:
            assert_never(event)


def stream_of(aggregate: Aggregate, supplier: str, external_account_number: str, *reference: str) -> str:
    """Return the stream id: kind, supplier and account as text, then a digest of the reference, which may be long."""
    digest = hashlib.sha256(json.dumps(reference).encode()).hexdigest()[:32]
    return f"{aggregate.prefix}/{supplier}/{external_account_number}/{digest}"


def identity_of(stream: str) -> tuple[str, str, str]:
    """Return supplier code, external account number and digest of the reference of a record's stream."""
    _, supplier, rest = stream.split("/", 2)
    external, _, digest = rest.rpartition("/")
    return supplier, external, digest


EVENTS: Events = {
    "record_imported.v1": (RecordImported, ImportRecord),
    "record_cancellation_changed.v1": (RecordCancellationChanged, ImportRecord),
}
DELIVERY_NOTE = Aggregate("delivery-note", EVENTS, Record(), decide, evolve, parts=4)
ENERGY_AMOUNT = Aggregate("energy-amount", EVENTS, Record(), decide, evolve, parts=4)
INVOICE = Aggregate("invoice", EVENTS, Record(), decide, evolve, parts=4)
POST_ACCOUNT = (DELIVERY_NOTE, ENERGY_AMOUNT, INVOICE)
