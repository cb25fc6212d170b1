"""Checks before every handler that needs a token: credentials, role, supplier, and the body of a POST.

An Idempotency-Key is the caller's own name for a POST (IETF draft `idempotency-key-header`), within organisation,
method, path and run. The same key with the same body gets the first answer again, with another body 422. An answer is
stored only if the request changed something, in the transaction of that change. A refused request is processed again.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.access.directory import Key
from api.http.database import read, retry_on_switchover
from api.http.errors import NotValid, not_found, query_not_valid, unknown_parameter
from api.http.fields import APPLIED, field, prefers_representation
from api.http.paths import identifier
from api.http.responses import JsonResponse, json_response, read_body
from api.http.status_codes import ApiError, sentence_of
from api.intake.refusal_counts import places_of
from api.intake.refused_attempts import names_of
from api.intake.run_names import RUN, named_run
from api.operation import Operation
from api.services import Services
from eventstore.aggregates.run import Mode
from eventstore.errors import LedgerBusy, LedgerError, Refused, StoreUnavailable, VersionConflict
from eventstore.log.answers import Answer, command_id_of, remembered_answer
from schemas.base import Problem
from schemas.reading.problems import UNKNOWN_FIELD
from schemas.sentence import Sentence

_IN_USE = Sentence(
    "A request with this Idempotency-Key is being processed.",
    "Eine Anfrage mit diesem Idempotency-Key wird gerade verarbeitet.",
)
_REUSED = Sentence(
    "This Idempotency-Key was used for a request with another body.",
    "Dieser Idempotency-Key wurde für eine Anfrage mit anderem Inhalt verwendet.",
)
_NO_KEY = Sentence(
    "An Idempotency-Key must have 1 to 255 printable ASCII characters, in quotes or not.",
    "Ein Idempotency-Key muss 1 bis 255 druckbare ASCII-Zeichen haben, mit oder ohne Anführungszeichen.",
)
_REPEATED = Sentence("A parameter must not be given twice.", "Ein Parameter darf nicht zweimal angegeben sein.")
_KEY = re.compile(r'"?([!#-\[\]-~ ]{1,255})"?\Z')


class Call(msgspec.Struct):
    """A request of a known caller.

    `body` is empty for a GET, and after a handler has dropped it. `name` names a request with an Idempotency-Key, and
    is "" for other requests. `run` is the run of the request. `subjects` has supplier and number of the request's
    account, once a handler has checked the caller's access to the supplier.
    """

    key: Key
    confirm: Callable[[], Coroutine[Any, Any, None]]
    """Raises ApiError if the key has lost the rights with which the call was admitted."""
    body: bytes = b""
    name: str = ""
    run: str = ""
    subjects: list[tuple[str, str]] = []
    digest: bytes = b""
    """SHA-256 of a body that was dropped."""
    is_stored: bool = False
    """True if the call has written the data that its answer acknowledges, False if it has only read the data."""

    def note_account(self, supplier: str, external: str) -> None:
        """Note the account of the request.

        If the request is refused, it is listed among the account's refused attempts.
        """
        self.subjects.append((supplier, external))

    @property
    def organisation(self) -> str:
        return self.key.organisation

    @property
    def by(self) -> str:
        return f"{self.key.organisation}:{self.key.key_id}"

    def answer(self, status: int, body: bytes) -> Answer | None:
        """Return the answer to store with the events of this call; None if the request has no Idempotency-Key."""
        return Answer(command_id_of(self.name), self.request_sha256, status, body) if self.name else None

    @property
    def request_sha256(self) -> bytes:
        return self.digest or hashlib.sha256(self.body).digest()

    def drop_body(self) -> None:
        """Drop the body, to save memory while the call waits for its commit.

        If the answer is to be stored, keep the digest of the body.
        """
        if self.name:
            self.digest = self.request_sha256
        self.body = b""


Handler = Callable[[Request, Call], Awaitable[Response]]


class Admission:
    """Wraps handlers of operations in checks of credentials, role, supplier and body."""

    def __init__(self, services: Services) -> None:
        self._auth = services.auth
        self._pool = services.pool
        self._runs = services.runs
        self._attempts = services.attempts
        self._acknowledgements = services.acknowledgements

    def handler(self, operation: Operation, endpoint: Any) -> Callable[[Request], Awaitable[Response]]:
        """Return the operation's method of this endpoint as a handler of requests.

        Only callers with one of its roles are admitted. A supplier that the key may not access answers 404 or an empty
        list, like an unknown supplier.
        """
        method: Callable[..., Awaitable[Response]] = operation.handler.__get__(endpoint)
        roles = operation.roles
        declared = tuple(parameter.name for parameter in operation.query)
        has_body = operation.method == "POST" and not operation.is_ndjson

        async def answer(request: Request) -> Response:
            key = None if roles is None else await self._auth.caller(request, roles)
            _refuse_undeclared(request, declared)
            if key is None:
                return await method(request)
            if operation.names_supplier and not key.may_touch(identifier(request, "supplier")):
                if operation.is_foreign_empty:
                    return json_response([])
                raise not_found()
            call = Call(key, partial(self._auth.confirm, key))
            return await (self._call_post(operation, method, request, call) if has_body else method(request, call))

        return answer

    async def _call_post(self, operation: Operation, handler: Handler, request: Request, call: Call) -> Response:
        """Read the body, and answer once per Idempotency-Key. Refusals are counted and noted.

        An answer that acknowledges data which this call has only read waits for `Acknowledgements.confirm`.
        """
        call.body = await read_body(request)
        await call.confirm()
        if RUN in operation.query:
            call.run = named_run(request)
        if (header := field(request, b"idempotency-key")) is not None:
            call.name = _name_of(request, call, header)
            handler = partial(self._answered_once, handler)
        mode: Mode = "validate" if operation.name == "validate_account" else "create"
        try:
            answered = await handler(request, call)
        except NotValid as refusal:
            if refusal.supplier:
                self._runs.refuse(refusal.supplier, call.run, mode, places_of(refusal.problems))
            self._note(operation.name, call, refusal.code, refusal.problems)
            raise
        except Refused as refusal:
            if call.run and call.subjects:
                problem = Problem("non_field_errors", refusal.code, sentence_of(refusal))
                self._runs.refuse(call.subjects[-1][0], call.run, mode, places_of([problem]))
            self._note(operation.name, call, refusal.code, ())
            await self._confirm(operation, call)
            raise
        await self._confirm(operation, call)
        return answered

    async def _confirm(self, operation: Operation, call: Call) -> None:
        if not operation.is_read and not call.is_stored:
            await self._acknowledgements.confirm()

    def _note(self, name: str, call: Call, code: str, problems: Sequence[Problem]) -> None:
        if call.subjects and call.subjects[-1][0]:
            self._attempts.note(name, *call.subjects[-1], code, names_of(problems))

    async def _answered_once(self, handler: Handler, request: Request, call: Call) -> Response:
        """Return the stored answer, or else the handler's answer.

        Stored answers are read again after the handler, because a concurrent request with the same key may have
        finished first.
        """
        if (stored := await self._stored_answer(request, call)) is not None:
            return stored
        try:
            answered = await handler(request, call)
        except (StoreUnavailable, LedgerBusy):
            raise
        except (ApiError, NotValid, LedgerError) as refusal:
            if (stored := await self._stored_answer(request, call)) is not None:
                return stored
            if isinstance(refusal, VersionConflict):
                raise ApiError(409, _IN_USE) from refusal
            raise
        return await self._stored_answer(request, call) or answered

    async def _stored_answer(self, request: Request, call: Call) -> Response | None:
        """Return the stored answer to this call, or None. The `Prefer` header of the new request has no effect.

        Raises ApiError 422 if the stored answer belongs to a request with another body.
        """
        stored = await retry_on_switchover(read, self._pool, remembered_answer, call.name)
        if stored is None:
            return None
        if stored.request_sha256 != call.request_sha256:
            raise ApiError(422, _REUSED)
        has_preference = stored.body != b"{}" and prefers_representation(request)
        return JsonResponse(stored.body, stored.status, APPLIED if has_preference else None)


def _refuse_undeclared(request: Request, declared: tuple[str, ...]) -> None:
    """Raise NotValid for repeated parameters, and for parameters that the operation does not declare.

    Without this check, a mistyped parameter would change the meaning of a request: `?mod=validate` would create
    accounts.
    """
    if not request.scope["query_string"]:
        return
    counts = Counter(name for name, _ in request.query_params.multi_items())
    problems = [Problem(name, UNKNOWN_FIELD, unknown_parameter(declared)) for name in counts if name not in declared]
    problems += [Problem(name, "repeated_field", _REPEATED) for name in declared if counts[name] > 1]
    if problems:
        raise query_not_valid(*problems)


def _name_of(request: Request, call: Call, header: str) -> str:
    match = _KEY.match(header)
    if match is None:
        raise ApiError(400, _NO_KEY, code="invalid_idempotency_key")
    run = f"?run={call.run}" if call.run else ""  # the first answer says nothing about another run
    return f"{call.organisation}:{request.method} {request.url.path.rstrip('/')}{run}:{match.group(1)}"
