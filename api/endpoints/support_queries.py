"""Queries for support: progress and errors of a supplier's imports, and a search for accounts."""

from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import AUDITORS, READERS
from api.admission import Call
from api.description.catalogue import CATALOGUE
from api.description.problem_sentences import with_sentence
from api.http.database import in_thread, read
from api.http.errors import data_not_valid, not_found, query_not_valid
from api.http.paths import identifier
from api.http.responses import json_response, localised_response
from api.operation import STATUS, V1, V2, Parameter, operation
from api.services import Endpoint
from eventstore.aggregates.import_process import STATUSES
from projections.queries.missing_documents import misses_documents, with_missing_documents
from projections.views.account_search import MAX_FOUND, search_accounts
from projections.views.error_statistics import supplier_errors
from projections.views.import_progress import supplier_progress
from projections.views.import_status import (
    ALL_STATES,
    IMPORTED_STATES,
    PENDING_STATES,
    ImportFilter,
    import_list,
    imports_page,
    transfer_status,
)
from schemas.base import Problem
from schemas.reading.shape import Shape
from schemas.sentence import Sentence
from schemas.status import (
    AccountSearch,
    ErrorCount,
    FoundAccount,
    ImportListItem,
    ListedImport,
    SupplierProgress,
    TransferStatus,
)

MAX_LISTED = 1_000

_SEARCH = Shape(AccountSearch)
_NO_TEXT = Sentence("The text must not be blank.", "Der Suchtext darf nicht leer sein.")
NO_PLACE = Sentence(
    "This must be the value in the link to the next page.", "Dies muss der Wert im Link auf die nächste Seite sein."
)
_OF_IMPORTS = frozenset(entry.code for entry in CATALOGUE if "latest_error" in entry.where)


def _day(name: str) -> Parameter:
    return Parameter(
        name=name,
        description="Day in German market time [default: no limit].",
        schema={"type": "string", "format": "date"},
    )


def limit_of(most: int, default: int) -> Parameter:
    """Return the parameter `limit` of a paged list."""
    return Parameter(
        name="limit",
        description=f"Most entries of the page [default: {default}].",
        schema={"type": "integer", "minimum": 1, "maximum": most},
        default=default,
    )


_FROM, _TO = _day("from_day"), _day("to_day")
_STATUS = Parameter(
    name="status", description="Only imports in this status.", schema={"type": "string", "enum": list(STATUSES)}
)
_ERROR_CODE = Parameter(
    name="code",
    description="Only imports that failed with this code, in `latest_error` or in one of their problems.",
    schema={"type": "string", "pattern": "^[A-Za-z0-9_-]{1,100}$"},
    sentence=Sentence(
        "A code must have letters, digits, _ and - only; /errors/ lists all.",
        "Ein Code darf nur Buchstaben, Ziffern, _ und - haben; /errors/ zählt alle auf.",
    ),
)
_AFTER = Parameter(
    name="after",
    description="End of the previous page, from its link.",
    schema={"type": "integer", "minimum": 0, "maximum": 10**18},
    default=0,
)
LIMIT = limit_of(MAX_LISTED, ImportFilter().limit)
_FOUND_AFTER = Parameter(
    name="after",
    description="End of the previous page, from its link.",
    schema={"type": "string", "pattern": "^M[A-Za-z0-9_-]*$"},
    default="",
    sentence=NO_PLACE,
)
_FOUND_LIMIT = limit_of(MAX_FOUND, MAX_FOUND)
_V1_LIST: dict[str, Any] = {"roles": READERS, "answers": {200: list[ImportListItem]}, "is_foreign_empty": True}


class SupportQueries(Endpoint):
    """The handlers of …/suppliers/{supplier}/imports/, …/progress/, …/errors/ and …/search/."""

    @operation(
        "GET",
        f"{V1}/account-transfer-status/{{supplier}}/{{external}}/",
        STATUS,
        roles=READERS,
        answers={200: TransferStatus},
    )
    async def read_transfer_status(self, request: Request, call: Call) -> Response:
        """Read the transfer status of an account: UNKNOWN, IN_PROGRESS or COMPLETED."""
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        status = await self._statuses.read((supplier, external))
        if status is None:
            raise not_found(
                Sentence(
                    "No account was found for this supplier and account number.",
                    "Zu dieser Quelle und dieser Kontonummer wurde kein Konto gefunden.",
                )
            )
        await self._acknowledgements.confirm(status.modified_at)
        return json_response(transfer_status(status))

    @operation("GET", f"{V1}/all-account-import-processes/{{supplier}}/", STATUS, **_V1_LIST)
    async def list_all_imports(self, request: Request, call: Call) -> Response:
        """List a supplier's imports in order of creation."""
        return await self._list(request, call, ALL_STATES)

    @operation("GET", f"{V1}/pending-account-import-processes/{{supplier}}/", STATUS, **_V1_LIST)
    async def list_pending_imports(self, request: Request, call: Call) -> Response:
        """List a supplier's imports without an account, except cancelled imports."""
        return await self._list(request, call, PENDING_STATES)

    @operation("GET", f"{V1}/imported-account-import-processes/{{supplier}}/", STATUS, **_V1_LIST)
    async def list_imported_imports(self, request: Request, call: Call) -> Response:
        """List a supplier's imports that have an account."""
        return await self._list(request, call, IMPORTED_STATES)

    async def _list(self, request: Request, call: Call, states: tuple[str, ...]) -> Response:
        query = partial(import_list, supplier=identifier(request, "supplier"), states=states)
        return await self._lists.answer(call, query, 0)

    @operation(
        "GET",
        f"{V2}/suppliers/{{supplier}}/progress/",
        STATUS,
        roles=READERS,
        answers={200: SupplierProgress},
    )
    async def read_supplier_progress(self, request: Request, call: Call) -> Response:
        """Count a supplier's imports by status. Changes are counted after up to a second."""
        supplier = await self._known_supplier(request)
        return json_response(await read(self._pool, supplier_progress, supplier))

    @operation(
        "GET",
        f"{V2}/suppliers/{{supplier}}/errors/",
        STATUS,
        roles=READERS,
        answers={200: list[ErrorCount]},
        query=(_FROM, _TO),
    )
    async def read_supplier_errors(self, request: Request, call: Call) -> Response:
        """Count a supplier's refused requests and failed imports by day, code and place."""
        supplier = await self._known_supplier(request)
        first, last = _FROM.read(request), _TO.read(request)
        return json_response(await read(self._pool, supplier_errors, supplier, first, last))

    @operation(
        "POST",
        f"{V2}/search/",
        STATUS,
        roles=AUDITORS,
        answers={200: list[FoundAccount]},
        is_read=True,
        body=AccountSearch,
        example={"q": "Mustermann", "supplier": "NORDWIND"},
        query=(_FOUND_AFTER, _FOUND_LIMIT),
    )
    async def search_accounts(self, request: Request, call: Call) -> Response:
        """Find accounts by names, numbers, e-mail, postcode, meter, MaLo-ID or IBAN; for auditors and staff."""
        key = call.key
        after, limit = _FOUND_AFTER.read(request), _FOUND_LIMIT.read(request)
        search, problems = _SEARCH.examine(call.body)
        text = search.q.strip()
        if problems or not text:
            raise data_not_valid(*(problems or (Problem("q", "blank", _NO_TEXT),)))
        suppliers = key.reach
        if search.supplier:
            if not key.may_touch(search.supplier):
                return json_response([])
            suppliers = frozenset((search.supplier,))
        query = partial(search_accounts, after=after, limit=limit)
        try:
            page = await read(self._pool, query, text, None if suppliers is None else list(suppliers))
        except ValueError as error:
            raise query_not_valid(Problem("after", "invalid", NO_PLACE)) from error
        return json_response(page.accounts, headers=next_page(request, page.next_after))

    @operation(
        "GET",
        f"{V2}/suppliers/{{supplier}}/imports/",
        STATUS,
        roles=READERS,
        answers={200: list[ListedImport]},
        query=(_STATUS, _ERROR_CODE, _AFTER, LIMIT),
    )
    async def list_imports(self, request: Request, call: Call) -> Response:
        """List a supplier's imports by status and error code, in order of creation, in pages."""
        supplier = await self._known_supplier(request)
        code = _ERROR_CODE.read(request)
        filters = ImportFilter(
            status=_STATUS.read(request),
            code=code,
            is_problem=code not in _OF_IMPORTS,
            after=_AFTER.read(request),
            limit=LIMIT.read(request),
        )
        page = await read(self._pool, imports_page, supplier, filters)
        statuses = {record.external_account_number: record for record in page.imports}
        if any(map(misses_documents, page.imports)):
            statuses = await in_thread(with_missing_documents, self._ledger, supplier, statuses)
        records = [with_sentence(record) for record in statuses.values()]
        return localised_response(request, records, headers=next_page(request, page.next_after))


def next_page(request: Request, after: str | int | None) -> dict[str, str]:
    """Return the header that links to the next page: the same query with `after`.

    {} on the last page. A client sends the body of a POST again to this link.
    """
    if after in (None, ""):
        return {}
    query = {**request.query_params, "after": str(after)}
    return {"Link": f'<{request.url.path}?{urlencode(query)}>; rel="next"'}
