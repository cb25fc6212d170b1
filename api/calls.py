"""What stands before every POST: credentials, the body, and the first answer again for a repeated Idempotency-Key.

A key is the caller's own name for a request (IETF draft `idempotency-key-header`); it counts within organisation,
method and path. The same key with the same body gets the first answer again, with another body 422. Only answers
that changed something are remembered, in the transaction that changed it; a refused request is judged anew.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from psycopg_pool import AsyncConnectionPool
from starlette.requests import Request
from starlette.responses import Response

from api.auth import Authenticator
from api.directory import Key
from api.errors import NotValid
from api.operations import OPERATIONS
from api.refusal_counts import RefusalCounts
from api.refusals import ApiError
from api.responses import JsonResponse, read_body
from api.store import read
from eventstore.errors import LedgerBusy, LedgerError, StoreUnavailable, VersionConflict
from eventstore.log.answers import Answer, remembered_answer

_KEY = re.compile(r'"?([!#-\[\]-~ ]{1,255})"?\Z')


class Call(msgspec.Struct, frozen=True):
    """A POST of a known caller. `command_id` names it when it came with an Idempotency-Key, and is "" otherwise."""

    key: Key
    body: bytes
    command_id: str = ""

    @property
    def by(self) -> str:
        return f"{self.key.organisation}:{self.key.key_id}"

    def answer(self, status: int, body: bytes) -> Answer | None:
        """What is to be remembered with the events of this call."""
        return Answer(self.command_id, self.request_sha256, status, body) if self.command_id else None

    @property
    def request_sha256(self) -> bytes:
        return hashlib.sha256(self.body).digest()


Handler = Callable[[Request, Call], Awaitable[Response]]


class Calls:
    """Turns handlers of calls into handlers of requests."""

    def __init__(self, auth: Authenticator, pool: AsyncConnectionPool, refusals: RefusalCounts) -> None:
        self._auth = auth
        self._pool = pool
        self._refusals = refusals

    def handlers(self, calls: Mapping[str, Handler]) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """The handlers of calls behind what their operations ask for, by the operations' names."""
        return {
            operation.name: self.post(operation.roles, calls[operation.name])
            for operation in OPERATIONS
            if operation.roles and operation.method == "POST"
        }

    def post(self, roles: frozenset[str], handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """The handler behind authentication for these roles, with the body read, answered once per key."""

        async def answer(request: Request) -> Response:
            key = await self._auth.caller(request, roles)
            body = await read_body(request)
            header = request.headers.get("idempotency-key")
            try:
                if header is None:
                    return await handler(request, Call(key, body))
                call = Call(key, body, _command_id(request, key, header))
                return await self._answered_once(request, call, handler)
            except NotValid as refusal:
                if refusal.supplier:
                    self._refusals.count(refusal.supplier, refusal.problems)
                raise

        return answer

    async def _answered_once(self, request: Request, call: Call, handler: Handler) -> Response:
        """The remembered answer, or the handler's; looked up again afterwards, since a twin may have been faster."""
        if (first := await self._remembered(call)) is not None:
            return first
        try:
            answered = await handler(request, call)
        except (StoreUnavailable, LedgerBusy):
            raise
        except (ApiError, NotValid, LedgerError) as refusal:
            if (first := await self._remembered(call)) is not None:
                return first
            if isinstance(refusal, VersionConflict):
                raise ApiError(409, "A request with this Idempotency-Key is being processed.") from refusal
            raise
        return await self._remembered(call) or answered

    async def _remembered(self, call: Call) -> Response | None:
        """The first answer to this call. Raises ApiError 422 when it was another request that it answered."""
        found = await read(self._pool, remembered_answer, call.command_id)
        if found is None:
            return None
        if found.request_sha256 != call.request_sha256:
            raise ApiError(422, "This Idempotency-Key was used for a request with another body.")
        return JsonResponse(found.body, found.status)


def _command_id(request: Request, key: Key, header: str) -> str:
    match = _KEY.match(header)
    if match is None:
        detail = "An Idempotency-Key has 1 to 255 printable ASCII characters, in quotes or not."
        raise ApiError(400, detail, code="invalid_idempotency_key")
    return f"{key.organisation}:{request.method} {request.url.path.rstrip('/')}:{match.group(1)}"
