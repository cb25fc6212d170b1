"""Bulk imports: NDJSON of any length in, a receipt for each line out, in order and at once."""

from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import WRITERS
from api.admission import Call
from api.bulk.answer import BulkAnswer
from api.bulk.inflate import INFLATERS, Inflater
from api.bulk.receipts import BulkEnd, Receipt
from api.endpoints.bulk_accounts import OPERATION, AccountWork
from api.endpoints.bulk_records import RecordWork
from api.http.errors import query_not_valid
from api.http.languages import language_of
from api.http.status_codes import ApiError
from api.intake.record_imports import AMOUNT, INVOICE, NOTE, Kind
from api.intake.run_names import RUN, named_run
from api.operation import ACCOUNTS, AFTER, V1, V2, Operation, Parameter, example_of
from api.services import Services
from eventstore.aggregates.run import Mode
from schemas.account import WrappedAccount
from schemas.base import Problem
from schemas.sentence import Sentence

MODE = Parameter(
    name="mode",
    description="`create` when absent; `validate` keeps nothing; `dry_run` makes every line a dry run.",
    schema={"type": "string", "enum": [*get_args(Mode)]},
)
_TYPES = frozenset(
    {
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/jsonlines",
        "application/json",
        "application/octet-stream",
        "application/x-www-form-urlencoded",  # what curl says of --data-binary
        "text/plain",
        "",
    }
)


class BulkImport:
    """The handler of …/accounts/bulk/."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def accounts(self, request: Request, call: Call) -> Response:
        """200 and receipts, each durable when it is sent, and a summary at the end of a body that came whole."""
        mode, run = mode_of(request), named_run(request)
        inflater = inflater_of(request)
        work = AccountWork(
            call,
            mode,
            run,
            ledger=self._services.ledger,
            directory=self._services.directory,
            limit=self._services.limit,
            workshop=self._services.workshop,
            counts=self._services.runs,
            attempts=self._services.attempts,
            acknowledgements=self._services.acknowledgements,
        )
        return BulkAnswer(call, work, inflater, self._services.workshop, language_of(request))

    async def delivery_notes(self, request: Request, call: Call) -> Response:
        return self._records(request, call, NOTE)

    async def energy_amounts(self, request: Request, call: Call) -> Response:
        return self._records(request, call, AMOUNT)

    async def invoices(self, request: Request, call: Call) -> Response:
        return self._records(request, call, INVOICE)

    def _records(self, request: Request, call: Call, kind: Kind) -> Response:
        """200 and receipts as for accounts; a record is IMPORTED or REFUSED."""
        work = RecordWork(
            call,
            kind,
            named_run(request),
            ledger=self._services.ledger,
            directory=self._services.directory,
            limit=self._services.limit,
            workshop=self._services.workshop,
            counts=self._services.runs,
            attempts=self._services.attempts,
            acknowledgements=self._services.acknowledgements,
        )
        return BulkAnswer(call, work, inflater_of(request), self._services.workshop, language_of(request))


def mode_of(request: Request) -> Mode:
    """Return the mode of the request. Raises NotValid."""
    modes: tuple[Mode, ...] = get_args(Mode)
    for mode in modes:
        if request.query_params.get("mode", "create") == mode:
            return mode
    listed = ", ".join(modes)
    says = Sentence(f"The mode must be one of {listed}.", f"Der Modus (mode) muss einer von {listed} sein.")
    raise query_not_valid(Problem("mode", "invalid_choice", says))


def inflater_of(request: Request) -> Inflater:
    """What reads the body's encoding. Raises ApiError 415."""
    content_type = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if content_type not in _TYPES:
        raise ApiError(415, _NOT_NDJSON)
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in INFLATERS:
        raise ApiError(415, _NOT_COMPRESSED_SO)
    return INFLATERS[encoding]()


_NOT_NDJSON = Sentence(
    "The body is expected as application/x-ndjson.", "Der Inhalt wird als application/x-ndjson erwartet."
)
_NOT_COMPRESSED_SO = Sentence(
    "A bulk body may be compressed with gzip or zstd, and with nothing else.",
    "Ein Sammelimport darf mit gzip oder zstd komprimiert sein und mit nichts anderem.",
)

OPERATIONS = (
    Operation(
        handler=BulkImport.accounts,
        name=OPERATION,
        method="POST",
        path=f"{V2}/accounts/bulk/",
        tag=ACCOUNTS,
        summary="Import any number of accounts, one a line. A receipt for each line is streamed back in order.",
        answers={200: Receipt},
        roles=WRITERS,
        body=WrappedAccount,
        example=example_of("account"),
        query=(MODE, RUN),
        is_ndjson=True,
        last_line=BulkEnd,
    ),
    *(
        Operation(
            handler=handler,
            name=f"create_{kind.field}s",
            method="POST",
            path=f"{V1}/{path}/bulk/",
            tag=AFTER,
            summary=f"Attach any number of {what}, one a line. A receipt for each line is streamed back in order.",
            answers={200: Receipt},
            roles=WRITERS,
            body=kind.envelope,
            example=example_of(kind.field),
            query=(RUN,),
            is_ndjson=True,
            last_line=BulkEnd,
        )
        for handler, kind, path, what in (
            (BulkImport.delivery_notes, NOTE, "delivery-note", "delivery notes"),
            (BulkImport.energy_amounts, AMOUNT, "energy-amount", "energy amounts"),
            (BulkImport.invoices, INVOICE, "market-participant-invoice", "market participants' invoices"),
        )
    ),
)
