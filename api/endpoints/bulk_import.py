"""Bulk imports: read NDJSON of any length, and send a receipt for each line, in order and while the body arrives."""

from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import WRITERS
from api.admission import Call
from api.bulk.answer import BulkAnswer, BulkWork
from api.bulk.inflate import INFLATERS, Inflater
from api.bulk.receipts import BulkEnd, Receipt
from api.endpoints.bulk_accounts import AccountWork
from api.endpoints.bulk_records import RecordWork
from api.http.languages import language_of
from api.http.status_codes import ApiError
from api.intake.record_imports import AMOUNT, INVOICE, NOTE, Kind
from api.intake.run_names import RUN, named_run
from api.operation import ACCOUNTS, AFTER, SUGGEST, V1, V2, Parameter, example_of, operation
from api.services import Endpoint
from eventstore.aggregates.run import Mode
from schemas.account import WrappedAccount
from schemas.sentence import Sentence

MODE = Parameter(
    name="mode",
    description="`create` when absent; `validate` keeps nothing; `dry_run` makes every line a dry run.",
    schema={"type": "string", "enum": [*get_args(Mode)]},
    default="create",
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
        "application/x-www-form-urlencoded",  # curl's default for --data-binary
        "text/plain",
        "",
    }
)


def _records(kind: Kind) -> dict[str, Any]:
    """Return the arguments of `operation` for the bulk endpoint of this kind of records."""
    return _LINES | {"body": kind.envelope, "example": example_of(kind.field), "query": (RUN,)}


_LINES: dict[str, Any] = {"roles": WRITERS, "answers": {200: Receipt}, "is_ndjson": True, "last_line": BulkEnd}


class BulkImport(Endpoint):
    """The handlers of …/bulk/. A receipt is sent once its result is durable.

    The answer to a complete body ends with a summary.
    """

    @operation(
        "POST",
        f"{V2}/accounts/bulk/",
        ACCOUNTS,
        body=WrappedAccount,
        example=example_of("account"),
        query=(MODE, RUN, SUGGEST),
        **_LINES,
    )
    async def create_accounts(self, request: Request, call: Call) -> Response:
        """Import any number of accounts, one a line. A receipt for each line is streamed back in order."""
        suggests = SUGGEST.read(request) == "1"
        work = AccountWork(self._services, call, named_run(request), MODE.read(request), suggests=suggests)
        return self._answer(request, call, work)

    @operation("POST", f"{V1}/delivery-note/bulk/", AFTER, **_records(NOTE))
    async def create_delivery_notes(self, request: Request, call: Call) -> Response:
        """Attach any number of delivery notes, one a line. A receipt for each line is streamed back in order."""
        return self._answer(request, call, RecordWork(self._services, call, named_run(request), NOTE))

    @operation("POST", f"{V1}/energy-amount/bulk/", AFTER, **_records(AMOUNT))
    async def create_energy_amounts(self, request: Request, call: Call) -> Response:
        """Attach any number of energy amounts, one a line. A receipt for each line is streamed back in order."""
        return self._answer(request, call, RecordWork(self._services, call, named_run(request), AMOUNT))

    @operation("POST", f"{V1}/market-participant-invoice/bulk/", AFTER, **_records(INVOICE))
    async def create_market_participant_invoices(self, request: Request, call: Call) -> Response:
        """Attach any number of market participants' invoices, one a line.

        A receipt for each line is streamed back in order.
        """
        return self._answer(request, call, RecordWork(self._services, call, named_run(request), INVOICE))

    def _answer(self, request: Request, call: Call, work: BulkWork) -> Response:
        return BulkAnswer(call, work, inflater_of(request), self._services.executor, language_of(request))


def inflater_of(request: Request) -> Inflater:
    """Return the decoder of the body's encoding. Raises ApiError 415."""
    content_type = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if content_type not in _TYPES:
        raise ApiError(415, _NOT_NDJSON)
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in INFLATERS:
        raise ApiError(415, _NOT_COMPRESSED_SO)
    return INFLATERS[encoding]()


_NOT_NDJSON = Sentence("The body must be application/x-ndjson.", "Der Inhalt muss application/x-ndjson sein.")
_NOT_COMPRESSED_SO = Sentence(
    "A compressed bulk body must use gzip or zstd.",
    "Ein komprimierter Sammelimport muss gzip oder zstd verwenden.",
)
