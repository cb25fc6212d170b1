"""What is attached to an imported account (v1): delivery notes, energy amounts, market participant invoices.

A record is idempotent by its reference: what means the same is answered as the first time, however it is spelt; a
changed `cancelled` is recorded, other content is refused as `unique`.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.auth import WRITERS
from api.beside import beside
from api.calls import Call
from api.errors import NotValid
from api.operation import AFTER, V1, Operation, example_of
from api.responses import JsonResponse, refuse_large_answer
from api.services import Services
from api.store import in_thread, read
from eventstore.aggregates import post_account
from eventstore.aggregates.aggregate import Aggregate
from eventstore.aggregates.post_account import ImportRecord, Record, RecordDiffers, stream_of
from eventstore.clock import now
from eventstore.errors import Refused
from eventstore.events import Recorded
from eventstore.log.payloads import Payload
from market.judging import MAX_NAMES_KEPT, Terms, without_dropped
from market.post_account import POST_ACCOUNT_BOOKS
from market.rule import Severity
from projections.import_status import import_status
from projections.platform.change import record_change
from projections.platform.writing import PlatformChange, changing
from schemas.base import Problem, Wire
from schemas.delivery_note import DeliveryNote, DeliveryNoteImport
from schemas.echo import echo
from schemas.energy_amount import EnergyAmount, EnergyAmountImport
from schemas.invoice import MarketParticipantInvoice, MarketParticipantInvoiceImport
from schemas.meaning import meaning
from schemas.shape import Shape, untyped

_canonical = msgspec.json.Encoder(order="sorted", decimal_format="number")


class _Kind(msgspec.Struct, frozen=True):
    """A kind of record: its stream, its envelope, its field in there, what names it, what says it is cancelled."""

    aggregate: Aggregate
    envelope: type[Wire]
    field: str
    reference: Callable[[Any], tuple[str, ...]]
    cancellation: tuple[str, ...]


def _note_reference(note: DeliveryNote) -> tuple[str, ...]:
    return (note.malo_number, note.edifact_reference_number, note.preceding_reference)


def _amount_reference(amount: EnergyAmount) -> tuple[str, ...]:
    return (
        amount.malo_number,
        amount.edifact_reference_number,
        amount.preceding_reference,
        amount.product_identifier,
        amount.line_item_identifier,
        str(amount.period_start_at.timestamp()),
        str(amount.period_end_at.timestamp()),
    )


def _invoice_reference(invoice: MarketParticipantInvoice) -> tuple[str, ...]:
    return (invoice.external_id,)


_NOTE = _Kind(post_account.DELIVERY_NOTE, DeliveryNoteImport, "delivery_note", _note_reference, ("cancelled",))
_AMOUNT = _Kind(
    post_account.ENERGY_AMOUNT,
    EnergyAmountImport,
    "energy_amount",
    _amount_reference,
    ("cancelled", "cancelled_at", "cancelled_reference"),
)
_INVOICE = _Kind(
    post_account.INVOICE, MarketParticipantInvoiceImport, "market_participant_invoice", _invoice_reference, ()
)
_SHAPES: dict[type[Wire], Shape[Any]] = {kind.envelope: Shape(kind.envelope) for kind in (_NOTE, _AMOUNT, _INVOICE)}


class PostAccountImport:
    """The handlers of the post-account imports. All answer 201 with the validated data."""

    def __init__(self, services: Services) -> None:
        self._ledger = services.ledger
        self._pool = services.pool
        self._directory = services.directory

    async def delivery_note(self, request: Request, call: Call) -> Response:
        return await self._imported(call, _NOTE)

    async def energy_amount(self, request: Request, call: Call) -> Response:
        return await self._imported(call, _AMOUNT)

    async def invoice(self, request: Request, call: Call) -> Response:
        return await self._imported(call, _INVOICE)

    async def _imported(self, call: Call, kind: _Kind) -> Response:
        envelope, misfits = await beside(call.body, _SHAPES[kind.envelope].examine, call.body)
        supplier, external = envelope.import_supplier, envelope.external_account_number
        bad_places = {problem.attr for problem in misfits}
        entry = await self._directory.supplier(supplier) if call.key.may_touch(supplier) else None
        if entry is None and "import_supplier" not in bad_places:
            raise _not_valid(
                "", Problem("import_supplier", "invalid_choice", "This is not one of your import suppliers.")
            )
        if entry is not None and "external_account_number" not in bad_places:
            call.concerns(supplier, external)
        terms = entry.terms if entry is not None else Terms()
        counting, dropped = without_dropped(misfits, terms)
        breaches = await beside(call.body, POST_ACCOUNT_BOOKS[kind.envelope].breaches, envelope, now(), counting)
        errors = [b.problem for b in breaches if terms.is_strict or b.severity is Severity.ERROR]
        if counting or errors:
            raise _not_valid(supplier if entry is not None else "", *counting, *errors)
        account_number = await self._account_number(supplier, external)
        body = await beside(call.body, _echoed, call.body, envelope)
        refuse_large_answer(body)
        await in_thread(self._append, call, kind, envelope, account_number, body, dropped)
        return JsonResponse(body, 201)

    async def _account_number(self, supplier: str, external: str) -> str:
        """The number of the account that the record belongs to. Raises NotValid while there is none."""
        found = await read(self._pool, import_status, supplier, external)
        if found is None:
            code, detail = "import_process_does_not_exist", "There is no import of this account."
        elif found.service_identifier is None:
            code, detail = "account_not_found", f"The account does not exist yet; its import is {found.status}."
        else:
            return found.service_identifier
        raise _not_valid(supplier, Problem("external_account_number", code, detail))

    def _append(
        self, call: Call, kind: _Kind, envelope: Any, account_number: str, body: bytes, dropped: Sequence[str]
    ) -> None:
        record = getattr(envelope, kind.field)
        payload = Payload.of(call.body)
        at = now()
        stream = stream_of(
            kind.aggregate, envelope.import_supplier, envelope.external_account_number, *kind.reference(record)
        )
        content, cancellation = _digests(record, kind)
        command = ImportRecord(
            account_number=account_number,
            payload_sha256=payload.sha256.hex(),
            content_sha256=content,
            cancellation_sha256=cancellation,
            is_cancelled=getattr(record, "cancelled", False) is True,
            dropped_fields=tuple(dropped[:MAX_NAMES_KEPT]),
        )

        def change(recorded: Recorded) -> PlatformChange:
            return record_change(record, recorded, account_number)

        execute = partial(
            self._ledger.execute,
            stream,
            at=at,
            by=call.by,
            payload=payload,
            answer=call.answer(201, body),
            beside=changing(change),
        )
        try:
            try:
                execute(command)
            except RecordDiffers:
                execute(self._as_stored(stream, command, record, kind))
        except Refused as refusal:
            problem = Problem(f"{kind.field}.non_field_errors", refusal.code, str(refusal))
            raise _not_valid(envelope.import_supplier, problem) from refusal

    def _as_stored(self, stream: str, command: ImportRecord, record: Any, kind: _Kind) -> ImportRecord:
        """The command with the digests of what is stored where that means the same. Raises RecordDiffers."""
        known: Record = self._ledger.load([stream])[stream].state
        body = self._ledger.payloads({stream: known.payload_sha256}).get(stream)
        if body is None:
            raise RecordDiffers
        stored = getattr(_SHAPES[kind.envelope].examine(body)[0], kind.field)
        (content, cancellation), (stored_content, stored_cancellation) = _meaning(record, kind), _meaning(stored, kind)
        if content != stored_content:
            raise RecordDiffers
        is_same = cancellation == stored_cancellation
        return msgspec.structs.replace(
            command,
            content_sha256=known.content_sha256,
            cancellation_sha256=known.cancellation_sha256 if is_same else command.cancellation_sha256,
        )


def _meaning(record: Any, kind: _Kind) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the record says, without and of its cancellation."""
    fields = meaning(record)
    cancellation = {name: fields.pop(name, None) or None for name in kind.cancellation}
    return fields, cancellation


def _echoed(body: bytes, envelope: Any) -> bytes:
    return echo(untyped(body), envelope)


def _digests(record: Any, kind: _Kind) -> tuple[str, str]:
    """Digests of the record as it is spelt, without and of its cancellation."""
    fields = msgspec.to_builtins(record)
    cancellation = {name: fields.pop(name, None) or None for name in kind.cancellation}
    return _sha256(fields), _sha256(cancellation)


def _sha256(value: Any) -> str:
    return hashlib.sha256(_canonical.encode(value)).hexdigest()


def _not_valid(supplier: str, *problems: Problem) -> NotValid:
    return NotValid("validation_error", "The data could not be validated.", problems, supplier=supplier)


OPERATIONS = (
    Operation(
        handler=PostAccountImport.delivery_note,
        name="create_delivery_note",
        method="POST",
        path=f"{V1}/delivery-note/create/",
        tag=AFTER,
        summary="Attach a delivery note to an account.",
        answers={201: DeliveryNoteImport},
        roles=WRITERS,
        body=DeliveryNoteImport,
        example=example_of("delivery_note"),
    ),
    Operation(
        handler=PostAccountImport.energy_amount,
        name="create_energy_amount",
        method="POST",
        path=f"{V1}/energy-amount/create/",
        tag=AFTER,
        summary="Attach an energy amount to an account.",
        answers={201: EnergyAmountImport},
        roles=WRITERS,
        body=EnergyAmountImport,
        example=example_of("energy_amount"),
    ),
    Operation(
        handler=PostAccountImport.invoice,
        name="create_market_participant_invoice",
        method="POST",
        path=f"{V1}/market-participant-invoice/create/",
        tag=AFTER,
        summary="Attach a market participant's invoice to an account.",
        answers={201: MarketParticipantInvoiceImport},
        roles=WRITERS,
        body=MarketParticipantInvoiceImport,
        example=example_of("market_participant_invoice"),
    ),
)
