"""What became of imports (v1): the transfer status of one, and the lists of a supplier's."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import READERS
from api.admission import Call
from api.http.errors import not_found
from api.http.paths import identifier
from api.http.responses import json_response
from api.operation import STATUS, V1, Operation
from api.services import Services
from projections.views.import_status import ALL_STATES, IMPORTED_STATES, PENDING_STATES, import_list, transfer_status
from schemas.sentence import Sentence
from schemas.status import ImportListItem, TransferStatus


class StatusQueries:
    """The handlers of the four status queries."""

    def __init__(self, services: Services) -> None:
        self._statuses = services.statuses
        self._lists = services.lists
        self._acknowledgements = services.acknowledgements

    async def transfer_status(self, request: Request, call: Call) -> Response:
        """200 whenever an import process exists; 404 otherwise."""
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        status = await self._statuses.read((supplier, external))
        if status is None:
            raise not_found(
                Sentence(
                    "No account was found for this supplier and account number.",
                    "Zu diesem Lieferanten und dieser Kontonummer wurde kein Konto gefunden.",
                )
            )
        await self._acknowledgements.confirm(status.modified_at)
        return json_response(transfer_status(status))

    async def all(self, request: Request, call: Call) -> Response:
        return await self._list(request, call, ALL_STATES)

    async def pending(self, request: Request, call: Call) -> Response:
        return await self._list(request, call, PENDING_STATES)

    async def imported(self, request: Request, call: Call) -> Response:
        return await self._list(request, call, IMPORTED_STATES)

    async def _list(self, request: Request, call: Call, states: tuple[str, ...]) -> Response:
        query = partial(import_list, supplier=identifier(request, "supplier"), states=states)
        return await self._lists.answer(call, query, 0)


OPERATIONS = (
    Operation(
        handler=StatusQueries.transfer_status,
        name="read_transfer_status",
        method="GET",
        path=f"{V1}/account-transfer-status/{{supplier}}/{{external}}/",
        tag=STATUS,
        summary="Whether the account has been created: UNKNOWN, IN_PROGRESS or COMPLETED.",
        answers={200: TransferStatus},
        roles=READERS,
        refuses=(404,),
    ),
    *(
        Operation(
            handler=handler,
            name=f"list_{kind}_imports",
            method="GET",
            path=f"{V1}/{kind}-account-import-processes/{{supplier}}/",
            tag=STATUS,
            summary=summary,
            answers={200: list[ImportListItem]},
            roles=READERS,
            is_foreign_empty=True,
            refuses=(404,),
        )
        for kind, handler, summary in (
            ("all", StatusQueries.all, "A supplier's imports, in order of creation."),
            ("pending", StatusQueries.pending, "A supplier's imports without an account, but for the cancelled ones."),
            ("imported", StatusQueries.imported, "A supplier's imports that have an account."),
        )
    ),
)
