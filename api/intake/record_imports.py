"""Records that are attached to accounts: decode, check and identify them, one at a time or in bulk."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from eventstore.aggregates import post_account
from eventstore.aggregates.aggregate import Aggregate
from eventstore.aggregates.post_account import ImportRecord, Record, RecordDiffers, stream_of
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from market.post_account import POST_ACCOUNT_BOOKS
from market.rule import Severity
from market.submission_check import MAX_PROBLEM_NAMES, Terms, without_dropped
from projections.platform.change import PlatformChange, record_change
from schemas.base import Problem, Wire
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.reading.meaning import meaning
from schemas.reading.shape import Shape
from schemas.sentence import Sentence

_canonical = msgspec.json.Encoder(order="sorted", decimal_format="number")


class Kind(msgspec.Struct, frozen=True):
    """A kind of record that is attached to accounts."""

    aggregate: Aggregate
    envelope: type[Wire]
    field: str
    """Field of the envelope that holds the record."""
    identity: tuple[str, ...]
    """Fields that identify a record within its account."""
    cancellation: tuple[str, ...] = ()
    """Fields of the cancellation of a record."""

    def reference(self, record: Any) -> tuple[str, ...]:
        """Return the values that identify the record, as parts of its stream's name."""
        values = (getattr(record, name) for name in self.identity)
        return tuple(str(value.timestamp()) if isinstance(value, datetime) else value for value in values)


NOTE = Kind(
    post_account.DELIVERY_NOTE,
    DeliveryNoteImport,
    "delivery_note",
    ("malo_number", "edifact_reference_number", "preceding_reference"),
    ("cancelled",),
)
AMOUNT = Kind(
    post_account.ENERGY_AMOUNT,
    EnergyAmountImport,
    "energy_amount",
    (
        *("malo_number", "edifact_reference_number", "preceding_reference", "product_identifier"),
        *("line_item_identifier", "period_start_at", "period_end_at"),
    ),
    ("cancelled", "cancelled_at", "cancelled_reference"),
)
INVOICE = Kind(post_account.INVOICE, MarketParticipantInvoiceImport, "market_participant_invoice", ("external_id",))
_SHAPES: dict[type[Wire], Shape[Any]] = {kind.envelope: Shape(kind.envelope) for kind in (NOTE, AMOUNT, INVOICE)}


class Attached(msgspec.Struct, frozen=True):
    """A record to attach: its stream, the command, and the data that is written with its event."""

    stream: str
    command: ImportRecord
    record: Any
    payload: Payload
    account_number: str

    def change(self, recorded: Recorded) -> PlatformChange:
        return record_change(self.record, recorded, self.account_number)


class RecordImports:
    """Steps that the endpoints and bulk imports of records share."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def examined(self, body: bytes, kind: Kind) -> tuple[Any, Sequence[Problem]]:
        """Return the envelope and its shape errors. Raises NotJson."""
        return _SHAPES[kind.envelope].examine(body)

    def check(
        self, envelope: Any, shape_errors: Sequence[Problem], terms: Terms, kind: Kind
    ) -> tuple[list[Problem], tuple[str, ...]]:
        """Return the problems that refuse the record, and the paths of fields that are left out."""
        counting, dropped = without_dropped(shape_errors, terms)
        breaches = POST_ACCOUNT_BOOKS[kind.envelope].breaches(envelope, now(), counting)
        errors = [b.problem for b in breaches if terms.is_strict or b.severity is Severity.ERROR]
        return [*counting, *errors], dropped

    def attached(self, envelope: Any, kind: Kind, body: bytes, account_number: str, dropped: Sequence[str]) -> Attached:
        """Return the record of the envelope, ready to be attached to this account."""
        record, payload = getattr(envelope, kind.field), Payload.of(body)
        stream = stream_of(
            kind.aggregate, envelope.import_supplier, envelope.external_account_number, *kind.reference(record)
        )
        content, cancellation = (_sha256(part) for part in _parts(msgspec.to_builtins(record), kind))
        command = ImportRecord(
            account_number=account_number,
            payload_sha256=payload.sha256.hex(),
            content_sha256=content,
            cancellation_sha256=cancellation,
            is_cancelled=getattr(record, "cancelled", False) is True,
            dropped_fields=tuple(dropped[:MAX_PROBLEM_NAMES]),
        )
        return Attached(stream, command, record, payload, account_number)

    def as_stored(self, attached: Attached, kind: Kind) -> ImportRecord:
        """Return the command with the digests of the stored record, if both have the same content in different
        spelling. Raises RecordDiffers for other content.
        """
        known: Record = self._ledger.load([attached.stream])[attached.stream].state
        body = self._ledger.payloads({attached.stream: known.payload_sha256}).get(attached.stream)
        if body is None:
            raise RecordDiffers
        stored = getattr(_SHAPES[kind.envelope].stored(body), kind.field)
        content, cancellation = _parts(meaning(attached.record), kind)
        stored_content, stored_cancellation = _parts(meaning(stored), kind)
        if content != stored_content:
            raise RecordDiffers
        is_same = cancellation == stored_cancellation
        return msgspec.structs.replace(
            attached.command,
            content_sha256=known.content_sha256,
            cancellation_sha256=known.cancellation_sha256 if is_same else attached.command.cancellation_sha256,
        )


def missing_account(status: str) -> Problem:
    """Return the problem of a record whose account does not exist yet. The status is "NEW" if there is no import."""
    if status == "NEW":
        code = "import_process_does_not_exist"
        detail = Sentence("There is no import of this account.", "Zu diesem Konto gibt es keinen Import.")
    else:
        code = "account_not_found"
        detail = Sentence(
            f"The account does not exist yet; its import is {status}.",
            f"Das Konto gibt es noch nicht; sein Import ist im Status {status}.",
        )
    return Problem("external_account_number", code, detail)


def _parts(fields: dict[str, Any], kind: Kind) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a record without its cancellation, and the fields of its cancellation. Changes `fields`."""
    cancellation = {name: fields.pop(name, None) or None for name in kind.cancellation}
    return fields, cancellation


def _sha256(value: Any) -> str:
    return hashlib.sha256(_canonical.encode(value)).hexdigest()
