"""What support looks at: how far a supplier's imports are, what goes wrong in them, and which account is meant."""

from datetime import date

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.auth import AUDITORS, READERS
from api.calls import Call
from api.errors import NotValid, not_found
from api.operation import STATUS, V2, Operation, Parameter
from api.paths import identifier
from api.responses import json_response
from api.services import Services
from api.store import read
from projections.account_search import found_accounts
from projections.error_statistics import supplier_errors
from projections.import_progress import supplier_progress
from schemas.base import Problem
from schemas.status import ErrorCount, FoundAccount, SupplierProgress

MAX_QUERY = 254


class SupportQueries:
    """The handlers of …/suppliers/{supplier}/progress/, …/errors/ and …/search/."""

    def __init__(self, services: Services) -> None:
        self._pool = services.pool
        self._directory = services.directory

    async def progress(self, request: Request, call: Call) -> Response:
        """200 with the counts of a supplier's imports by state; a supplier without any has none."""
        supplier = await self._supplier(request)
        return json_response(await read(self._pool, supplier_progress, supplier))

    async def errors(self, request: Request, call: Call) -> Response:
        """200 with what went wrong, by day, code and place."""
        supplier = await self._supplier(request)
        _refuse_others(request, "from_day", "to_day")
        first, last = _day(request, "from_day"), _day(request, "to_day")
        return json_response(await read(self._pool, supplier_errors, supplier, first, last))

    async def search(self, request: Request, call: Call) -> Response:
        """200 with the accounts that the text names, of the suppliers that the key may touch."""
        key = call.key
        _refuse_others(request, "q", "supplier")
        text = request.query_params.get("q", "").strip()
        if not text or len(text) > MAX_QUERY or "\0" in text:
            raise _not_valid(Problem("q", "invalid", "Give what you look for: 1 to 254 characters."))
        suppliers = key.reach
        if (supplier := request.query_params.get("supplier")) is not None:
            if not key.may_touch(supplier):
                return json_response([])
            suppliers = frozenset((supplier,))
        return json_response(await read(self._pool, found_accounts, text, suppliers and list(suppliers)))

    async def _supplier(self, request: Request) -> str:
        supplier = identifier(request, "supplier")
        if await self._directory.supplier(supplier) is None:
            raise not_found()
        return supplier


def _refuse_others(request: Request, *names: str) -> None:
    """A mistyped parameter would be an answer to another question."""
    if others := [name for name in request.query_params if name not in names]:
        said = f"This is no parameter; there are {' and '.join(names)}."
        raise _not_valid(*(Problem(name, "unknown_field", said) for name in others))


def _day(request: Request, name: str) -> date | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        return msgspec.convert(text, date)
    except msgspec.ValidationError as error:
        raise _not_valid(Problem(name, "invalid", "Give a day as YYYY-MM-DD.")) from error


def _not_valid(*problems: Problem) -> NotValid:
    return NotValid("validation_error", "The query could not be understood.", problems)


def _day_parameter(name: str) -> Parameter:
    return Parameter(
        name=name,
        description="A day in German market time; open where nothing is said.",
        schema={"type": "string", "format": "date"},
    )


_TEXT = Parameter(
    name="q",
    description="What is looked for, without regard to case, accents and umlauts; at least 3 letters of a name.",
    schema={"type": "string", "pattern": r"^[!-~]{1,254}$"},
    is_required=True,
)
_SUPPLIER = Parameter(
    name="supplier",
    description="Only accounts of this import supplier.",
    schema={"type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$"},
)

OPERATIONS = (
    Operation(
        handler=SupportQueries.progress,
        name="read_supplier_progress",
        method="GET",
        path=f"{V2}/suppliers/{{supplier}}/progress/",
        tag=STATUS,
        summary="How many of a supplier's imports are in which state; up to a second late.",
        answers={200: SupplierProgress},
        roles=READERS,
        refuses=(404,),
    ),
    Operation(
        handler=SupportQueries.errors,
        name="read_supplier_errors",
        method="GET",
        path=f"{V2}/suppliers/{{supplier}}/errors/",
        tag=STATUS,
        summary="What goes wrong for a supplier: refused requests and failed imports by day, code and place.",
        answers={200: list[ErrorCount]},
        roles=READERS,
        query=(_day_parameter("from_day"), _day_parameter("to_day")),
        refuses=(400, 404),
    ),
    Operation(
        handler=SupportQueries.search,
        name="search_accounts",
        method="GET",
        path=f"{V2}/search/",
        tag=STATUS,
        summary="Accounts by part of a name, e-mail, postcode, meter number or MaLo-ID; for auditors and staff.",
        answers={200: list[FoundAccount]},
        roles=AUDITORS,
        query=(_TEXT, _SUPPLIER),
        refuses=(400,),
    ),
)
