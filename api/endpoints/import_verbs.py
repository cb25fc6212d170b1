"""Cancel, retry and heal one import (v2), for importers and staff. The log records the caller and the reason."""

import secrets
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import DECIDERS
from api.admission import Call
from api.http.body_checks import run_on_body
from api.http.database import in_thread
from api.http.errors import data_not_valid, not_found
from api.http.paths import identifier
from api.http.responses import JsonResponse, encoded
from api.http.status_codes import ApiError
from api.operation import ACCOUNT_PATH, ACCOUNTS, operation
from api.services import Endpoint
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import CancelImport, RetryImport, stream_of
from eventstore.aggregates.owner_task import KEY_PREFIX, RequestOwnerTask, with_mac
from eventstore.aggregates.owner_task import stream_of as task_stream_of
from eventstore.clock import now
from eventstore.errors import IllegalTransition
from schemas.account import Reason
from schemas.reading.shape import Shape
from schemas.sentence import Sentence
from schemas.status import ImportStatus

_REASON = Shape(Reason)
_WITH_REASON = {"body": Reason, "is_body_optional": True}


class _Verb(msgspec.Struct, frozen=True):
    """Decision about an import: its command, the resulting status, and its refusal in other states."""

    command: Callable[..., Command]
    status: str
    code: str
    rule: Sentence


_ONLY_PENDING = Sentence("Only a pending import can be cancelled", "Nur ein wartender Import kann storniert werden")
_ONLY_ERRORED = Sentence(
    "Only an errored import can be retried", "Nur ein fehlgeschlagener Import kann wiederholt werden"
)
_CANCEL = _Verb(CancelImport, "CANCELLED", "import_cannot_be_cancelled", _ONLY_PENDING)
_RETRY = _Verb(RetryImport, "PENDING", "import_cannot_be_retried", _ONLY_ERRORED)


class ImportVerbs(Endpoint):
    """The handlers of …/cancel/, …/retry/ and …/heal/. They answer with the status record."""

    @operation(
        "POST",
        f"{ACCOUNT_PATH}cancel/",
        ACCOUNTS,
        roles=DECIDERS,
        answers={200: ImportStatus},
        example={"reason": "sent twice"},
        **_WITH_REASON,
    )
    async def cancel_import(self, request: Request, call: Call) -> Response:
        """Cancel a pending import."""
        return await self._decided(request, call, _CANCEL)

    @operation(
        "POST",
        f"{ACCOUNT_PATH}retry/",
        ACCOUNTS,
        roles=DECIDERS,
        answers={200: ImportStatus},
        example={"reason": "the price table is corrected"},
        **_WITH_REASON,
    )
    async def retry_import(self, request: Request, call: Call) -> Response:
        """Process an errored import again."""
        return await self._decided(request, call, _RETRY)

    @operation(
        "POST",
        f"{ACCOUNT_PATH}heal/",
        ACCOUNTS,
        roles=frozenset({"operator"}),
        answers={202: ImportStatus},
        example={},
        **_WITH_REASON,
    )
    async def heal_import(self, request: Request, call: Call) -> Response:
        """Request that the rows of an account are made again from the log.

        The relay makes the rows again, with the owner's rights, after it has checked the caller's key again.
        """
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        await run_on_body(call.body, _reason, call.body)
        present = await self._statuses.read((supplier, external))
        if present is None:
            raise not_found()
        task_id, at, body = f"t_{secrets.token_hex(8)}", now(), encoded(present)
        command = RequestOwnerTask(
            kind="heal",
            arguments={"supplier": supplier, "external": external, "organisation": call.key.organisation},
            user=f"{KEY_PREFIX}{call.key.key_id}",
            requested_at=at,
        )
        await in_thread(
            self._ledger.execute,
            task_stream_of(task_id),
            with_mac(command, task_id, self._services.authority.mac),
            at=at,
            by=call.by,
            answer=call.answer(202, body),
        )
        return JsonResponse(body, 202)

    async def _decided(self, request: Request, call: Call, verb: _Verb) -> Response:
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        command = verb.command(reason=await run_on_body(call.body, _reason, call.body))
        present = await self._statuses.read((supplier, external))
        if present is None:
            raise not_found()
        at = now()
        body = encoded(msgspec.structs.replace(present, status=verb.status, modified_at=at, latest_error=None))
        try:
            recorded = await in_thread(
                self._ledger.execute,
                stream_of(supplier, external),
                command,
                at=at,
                by=call.by,
                answer=call.answer(200, body),
            )
        except IllegalTransition as refusal:
            detail = Sentence(
                "{rule}; this one is {status}.", "{rule}; dieser ist {status}.", rule=verb.rule, status=refusal.status
            )
            raise ApiError(400, detail, code=verb.code) from refusal
        if recorded is None:
            body = encoded(await self._statuses.read((supplier, external)))
        return JsonResponse(body, 200)


def _reason(body: bytes) -> str:
    """Return the reason in a body, "" for an empty body. Raises NotValid for any other body."""
    if not body.strip():
        return ""
    read, shape_errors = _REASON.examine(body)
    if shape_errors:
        raise data_not_valid(*shape_errors)
    return read.reason
