"""Records of imported accounts (v1): delivery notes, energy amounts, market participant invoices.

A record is idempotent by its reference. The same content gets the same answer, whatever its spelling; a changed
`cancelled` is recorded, other content is refused as `unique`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import WRITERS
from api.admission import Call
from api.http.body_checks import run_on_body
from api.http.database import in_thread
from api.http.errors import data_not_valid
from api.http.responses import JsonResponse, refuse_large_answer
from api.http.status_codes import sentence_of
from api.intake.record_imports import AMOUNT, INVOICE, NOTE, Kind, RecordImports, missing_account
from api.intake.staging import UNKNOWN_SUPPLIER
from api.intake.typed_names import typed_number
from api.operation import AFTER, V1, example_of, operation
from api.services import Endpoint, Services
from eventstore.aggregates.post_account import RecordDiffers
from eventstore.clock import now
from eventstore.errors import Refused
from market.submission_check import Terms
from projections.platform.change import changing
from projections.retention.reverting import AccountReverted, of_existing
from schemas.base import Problem
from schemas.echo import echo
from schemas.reading.problems import is_stated
from schemas.reading.shape import untyped


def _created(kind: Kind) -> dict[str, Any]:
    """Return the arguments of `operation` for the endpoint of this kind of records."""
    envelope = kind.envelope
    return {"roles": WRITERS, "answers": {201: envelope}, "body": envelope, "example": example_of(kind.field)}


class PostAccountImport(Endpoint):
    """The handlers of the post-account imports. All answer 201 with the validated data."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._imports = RecordImports(services.ledger)

    @operation("POST", f"{V1}/delivery-note/create/", AFTER, **_created(NOTE))
    async def create_delivery_note(self, request: Request, call: Call) -> Response:
        """Attach a delivery note to an account."""
        return await self._imported(call, NOTE)

    @operation("POST", f"{V1}/energy-amount/create/", AFTER, **_created(AMOUNT))
    async def create_energy_amount(self, request: Request, call: Call) -> Response:
        """Attach an energy amount to an account."""
        return await self._imported(call, AMOUNT)

    @operation("POST", f"{V1}/market-participant-invoice/create/", AFTER, **_created(INVOICE))
    async def create_market_participant_invoice(self, request: Request, call: Call) -> Response:
        """Attach a market participant's invoice to an account."""
        return await self._imported(call, INVOICE)

    async def _imported(self, call: Call, kind: Kind) -> Response:
        envelope, shape_errors = await run_on_body(call.body, self._imports.examined, call.body, kind)
        supplier, external = envelope.import_supplier, envelope.external_account_number
        entry = await self._directory.supplier(supplier) if call.key.may_touch(supplier) else None
        if entry is not None and is_stated("external_account_number", shape_errors):
            call.note_account(supplier, external)
        else:
            meant = supplier if entry is not None else call.key.only_supplier
            call.note_account(meant, await run_on_body(call.body, typed_number, call.body))
        terms = entry.terms if entry is not None else Terms()
        problems, dropped = await run_on_body(call.body, self._imports.check, envelope, shape_errors, terms, kind)
        if entry is None and is_stated("import_supplier", shape_errors):
            raise data_not_valid(UNKNOWN_SUPPLIER, *problems)
        if problems:
            raise data_not_valid(*problems, supplier=supplier if entry is not None else "")
        account_number = await self._account_number(supplier, external)
        body = await run_on_body(call.body, _echoed, call.body, envelope)
        refuse_large_answer(body)
        await in_thread(self._append, call, kind, envelope, account_number, body, dropped)
        return JsonResponse(body, 201)

    async def _account_number(self, supplier: str, external: str) -> str:
        """Return the number of the account of the record. Raises NotValid while there is none."""
        status = await self._statuses.read((supplier, external))
        if status is not None and status.service_identifier is not None:
            return status.service_identifier
        raise data_not_valid(missing_account(status.status if status is not None else "NEW"), supplier=supplier)

    def _append(
        self, call: Call, kind: Kind, envelope: Any, account_number: str, body: bytes, dropped: Sequence[str]
    ) -> None:
        attached = self._imports.attached(envelope, kind, call.body, account_number, dropped)
        execute = partial(
            self._ledger.execute,
            attached.stream,
            at=now(),
            by=call.by,
            payload=attached.payload,
            answer=call.answer(201, body),
            write_rows=of_existing([(envelope.import_supplier, account_number)], changing(attached.change)),
        )
        try:
            try:
                recorded = execute(attached.command)
            except RecordDiffers:
                recorded = execute(self._imports.as_stored(attached, kind))
            call.is_stored = recorded is not None
        except AccountReverted as reverted:
            raise data_not_valid(missing_account("CANCELLED"), supplier=envelope.import_supplier) from reverted
        except Refused as refusal:
            problem = Problem(f"{kind.field}.non_field_errors", refusal.code, sentence_of(refusal))
            raise data_not_valid(problem, supplier=envelope.import_supplier) from refusal


def _echoed(body: bytes, envelope: Any) -> bytes:
    return echo(untyped(body), envelope)
