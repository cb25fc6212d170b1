"""What became of imports (v1): the transfer status of one, and the lists of a supplier's."""

from collections.abc import AsyncIterator
from typing import Any

from psycopg_pool import AsyncConnectionPool
from starlette.requests import Request
from starlette.responses import Response

from api.auth import READERS, Authenticator
from api.errors import not_found
from api.paths import identifier
from api.responses import json_array_response, json_response
from api.store import read
from projections.import_status import ALL_STATES, IMPORTED_STATES, PENDING_STATES, import_list, transfer_status


class StatusQueries:
    """The handlers of the four status queries. `lists` is a pool of its own, so that slow readers starve nobody."""

    def __init__(self, pool: AsyncConnectionPool, lists: AsyncConnectionPool, auth: Authenticator) -> None:
        self._pool = pool
        self._lists = lists
        self._auth = auth

    async def transfer_status(self, request: Request) -> Response:
        """200 whenever an import process exists; 404 otherwise."""
        key = await self._auth.caller(request, READERS)
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        if not key.may_touch(supplier):
            raise not_found()
        found = await read(self._pool, transfer_status, supplier, external)
        if found is None:
            raise not_found("No account was found for this supplier and account number.")
        return json_response(found)

    async def all(self, request: Request) -> Response:
        return await self._list(request, ALL_STATES)

    async def pending(self, request: Request) -> Response:
        return await self._list(request, PENDING_STATES)

    async def imported(self, request: Request) -> Response:
        return await self._list(request, IMPORTED_STATES)

    async def _list(self, request: Request, states: tuple[str, ...]) -> Response:
        key = await self._auth.caller(request, READERS)
        supplier = identifier(request, "supplier")
        if not key.may_touch(supplier):
            return json_response([])

        async def items() -> AsyncIterator[Any]:
            async with self._lists.connection() as connection:
                async for item in import_list(connection, supplier, states):
                    yield item

        return await json_array_response(items())
