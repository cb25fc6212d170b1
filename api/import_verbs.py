"""Cancel and retry one import (v2): for importers and staff, with who and why in the log."""

from typing import Any

from psycopg_pool import AsyncConnectionPool
from starlette.requests import Request
from starlette.responses import Response

from api.auth import Authenticator
from api.errors import NotValid, not_found
from api.paths import identifier
from api.refusals import ApiError
from api.responses import json_response, read_body
from api.store import in_thread, read
from eventstore.aggregate import Command
from eventstore.errors import IllegalTransition
from eventstore.import_process import CancelImport, RetryImport, stream_of
from eventstore.ledger import Ledger, now
from projections.import_status import import_status
from schemas.account import Reason
from schemas.shape import Shape

DECIDERS = frozenset({"importer", "support", "operator"})
"""Roles that may decide about an import; auditors only read."""

_REASON = Shape(Reason)


class ImportVerbs:
    """The handlers of …/cancel/ and …/retry/. Both answer the status record as it is afterwards."""

    def __init__(self, ledger: Ledger, pool: AsyncConnectionPool, auth: Authenticator) -> None:
        self._ledger = ledger
        self._pool = pool
        self._auth = auth

    async def cancel(self, request: Request) -> Response:
        """200 for what was pending or is cancelled; 400 `import_cannot_be_cancelled` for any other state."""
        return await self._decided(
            request, CancelImport, "import_cannot_be_cancelled", "Only a pending import can be cancelled"
        )

    async def retry(self, request: Request) -> Response:
        """200 for what had erred or is pending; 400 `import_cannot_be_retried` for any other state."""
        return await self._decided(
            request, RetryImport, "import_cannot_be_retried", "Only an errored import can be retried"
        )

    async def _decided(self, request: Request, kind: Any, code: str, rule: str) -> Response:
        key = await self._auth.caller(request, DECIDERS)
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        command: Command = kind(reason=await _reason(request))
        if not key.may_touch(supplier) or await read(self._pool, import_status, supplier, external) is None:
            raise not_found()
        by = f"{key.organisation}:{key.key_id}"
        try:
            await in_thread(self._ledger.execute, stream_of(supplier, external), command, at=now(), by=by)
        except IllegalTransition as refusal:
            raise ApiError(400, f"{rule}; this one is {refusal.status}.", code=code) from refusal
        return json_response(await read(self._pool, import_status, supplier, external))


async def _reason(request: Request) -> str:
    """The reason in an optional body. Raises NotValid for a body that says anything else."""
    body = await read_body(request)
    if not body.strip():
        return ""
    read, misfits = _REASON.examine(body)
    if misfits:
        raise NotValid("validation_error", "The body could not be validated.", misfits)
    return read.reason
