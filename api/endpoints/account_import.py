"""Validate, create and read account imports (v2).

An account with several reasons for a refusal gets the first of these: parse error, already imported or in progress,
supplier not ongoing, then all problems, including an unknown supplier.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import READERS, WRITERS
from api.admission import Call
from api.description.problem_sentences import with_sentence
from api.endpoints.history_queries import AS_OF, as_of
from api.http.body_checks import run_steps
from api.http.database import in_thread, read, retry_on_switchover, with_timeout
from api.http.errors import NotValid, not_found
from api.http.fields import APPLIED, prefers_representation
from api.http.languages import language_headers, language_of
from api.http.paths import identifier
from api.http.responses import EmptyResponse, JsonResponse, encoded, json_response, localised_response
from api.intake.refusal_counts import places_of
from api.intake.run_names import RUN
from api.intake.staging import UNKNOWN_SUPPLIER, not_ongoing, staging_of, warnings_of
from api.intake.typed_names import typed_number
from api.operation import ACCOUNT_PATH, ACCOUNTS, SUGGEST, V2, example_of, operation
from api.services import Endpoint
from eventstore.aggregates.import_process import StageImport, stream_of
from eventstore.aggregates.run import Mode
from eventstore.clock import now
from eventstore.errors import AlreadyImported, ImportInProgress, VersionConflict
from eventstore.log.payloads import Payload
from market.submission_check import Occasion, SubmissionCheck, Terms, check_submission_in_steps
from market.suggestions import with_suggestions
from projections.queries.history import status_as_of
from projections.queries.missing_documents import misses_documents, with_missing_documents
from projections.views.import_supplier import KnownSupplier
from projections.views.search_at_once import view_values_of
from schemas.account import WrappedAccount
from schemas.base import Problem
from schemas.sentence import Sentence
from schemas.status import Empty, ImportState, ImportStatus, Outcome
from schemas.submission import sent_submission_in_steps
from system.steps import Steps
from telemetry.measures import measures

T = TypeVar("T")
_NOTHING = b"{}"
"""Body of the answer to a request without `Prefer: return=representation`."""

_NOT_VALID = Sentence("The account data could not be validated.", "Die Kontodaten konnten nicht validiert werden.")
_ACCOUNT = example_of("account")


class AccountImport(Endpoint):
    """The handlers of /v2/data-import/accounts/."""

    @operation(
        "POST",
        f"{V2}/accounts/",
        ACCOUNTS,
        roles=WRITERS,
        answers={201: Empty},
        body=WrappedAccount,
        example=_ACCOUNT,
        examples={"dry_run": {"payload": _ACCOUNT, "task_params": {"is_dry_run": True}}},
        query=(RUN,),
        prefers=True,
    )
    async def create_account(self, request: Request, call: Call) -> Response:
        """Import an account.

        The answer is 201 once the account is durably stored; a worker creates the account later.
        """
        staging = await self._accepted(call, Occasion.CREATE, partial(_staging_of, call.body, call.run))
        await retry_on_switchover(self._services.runs.names.refuse_new, staging.supplier, call.run)
        has_body = prefers_representation(request)
        content = await retry_on_switchover(self._staged, request, call, staging, has_body=has_body)
        return _response(request, 201, content, has_body=has_body)

    @operation(
        "POST",
        f"{V2}/accounts/validate/",
        ACCOUNTS,
        roles=WRITERS,
        answers={200: Empty},
        is_read=True,
        body=WrappedAccount,
        example=_ACCOUNT,
        query=(RUN, SUGGEST),
        prefers=True,
    )
    async def validate_account(self, request: Request, call: Call) -> Response:
        """Validate an account: return every problem, without side effects."""
        suggests = SUGGEST.read(request) == "1"
        try:
            warnings = await self._accepted(call, Occasion.VALIDATE, warnings_of)
        except NotValid as refusal:
            if suggests:
                refusal.problems = await self._suggested(call, refusal.problems)
            raise
        if suggests:
            warnings = tuple(await self._suggested(call, warnings))
        if call.subjects:
            await self._services.runs.names.refuse_new(call.subjects[-1][0], call.run)
            self._services.runs.validate(call.subjects[-1][0], call.run, places_of(warnings))
        has_body = prefers_representation(request)
        body = _answer(request, "VALID", None, warnings) if has_body else _NOTHING
        return _response(request, 200, body, has_body=has_body)

    async def _suggested(self, call: Call, problems: Sequence[Problem]) -> list[Problem]:
        supplier = self._directory.known_supplier(call.subjects[-1][0]) if call.subjects else None
        terms = supplier.terms if supplier is not None else Terms()
        return await in_thread(with_suggestions, call.body, problems, terms, now(), Occasion.VALIDATE)

    @operation("GET", ACCOUNT_PATH, ACCOUNTS, roles=READERS, answers={200: ImportStatus}, query=(AS_OF,))
    async def read_import_status(self, request: Request, call: Call) -> Response:
        """Read the status of an import."""
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        upto = await as_of(self._pool, request)
        if upto is None:
            status = await self._statuses.read((supplier, external))
        else:
            status = await read(self._pool, status_as_of, supplier, external, upto)
        if status is None:
            raise not_found()
        await self._acknowledgements.confirm(status.modified_at)
        if misses_documents(status):
            named = await in_thread(with_missing_documents, self._ledger, supplier, {external: status})
            status = named[external]
        return (
            json_response(status) if status.latest_error is None else localised_response(request, with_sentence(status))
        )

    async def _staged(self, request: Request, call: Call, staging: "_Staging", *, has_body: bool) -> bytes:
        """Append to a new stream, or decide on the state of an existing stream. Return the answer's body."""

        def body(status: ImportState, outcome: Outcome) -> bytes:
            return _answer(request, status, outcome, staging.warnings) if has_body else _NOTHING

        stream, content = stream_of(staging.supplier, staging.external), body("PENDING", "staged")
        answer, payload = call.answer(201, content), staging.payload
        try:
            await self._ledger.begin(stream, staging.command, at=now(), by=call.by, payload=payload, answer=answer)
        except VersionConflict:
            return await with_timeout(self._staged_again(call, stream, staging, body))
        call.is_stored = True
        measures().accepted(_mode_of(staging.command), "staged")
        return content

    async def _staged_again(
        self, call: Call, stream: str, staging: "_Staging", body: Callable[[ImportState, Outcome], bytes]
    ) -> bytes:
        """Run the command against the existing stream; return the body of the answer."""
        payload, content = staging.payload, body("PENDING", "replaced")
        answer = call.answer(201, content)
        command = staging.command
        recorded = await asyncio.to_thread(
            self._ledger.execute, stream, command, at=now(), by=call.by, payload=payload, answer=answer
        )
        measures().accepted(_mode_of(command), "replaced" if recorded is not None else "unchanged")
        if recorded is not None:
            call.is_stored = True
            return content
        if command.run:
            await self._services.runs.join(staging.supplier, command.run, _mode_of(command), [staging.external])
            await self._services.runs.append()
        existing = await self._statuses.read((staging.supplier, staging.external))
        return body(existing.status if existing is not None else "PENDING", "unchanged")

    async def _accepted(self, call: Call, occasion: Occasion, convert: Callable[[SubmissionCheck], T]) -> T:
        """Check a body, and return the result of `convert` for an accepted account.

        Raises NotValid, Refused. The body of an account that is to be created is dropped, since `convert` returns all
        values that are needed later. If the directory does not have the supplier yet, the directory is refreshed, and
        the body is checked again: keeping the first result during the refresh would take memory.
        """
        result = await run_steps(call.body, self._check(call, occasion, convert))
        if result is None:
            await self._directory.refresh()
            result = await run_steps(call.body, self._check(call, occasion, convert, is_refreshed=True))
        assert result is not None, "its supplier has been asked for"
        if occasion is Occasion.CREATE:
            call.drop_body()
        if isinstance(result, _Refusal):
            raise await self._answer_to(result, occasion)
        return result

    def _check(
        self, call: Call, occasion: Occasion, convert: Callable[[SubmissionCheck], T], *, is_refreshed: bool = False
    ) -> Steps["T | _Refusal | None"]:
        """Check a body in steps, and return a refusal, or the result of `convert` for an accepted account.

        Return None if the directory must be refreshed first, to find the supplier. The answer is the same for a
        supplier that does not exist and for a supplier that the key may not access.
        """
        submission = yield from sent_submission_in_steps(call.body, with_digest=occasion is Occasion.CREATE)
        account, supplier = submission.account, None
        external = account.external_account_number if submission.states("external_account_number") else None
        yield
        if submission.states("import_supplier") and call.key.may_touch(account.import_supplier):
            supplier = self._directory.known_supplier(account.import_supplier)
            if supplier is None and not is_refreshed:
                return None
        if supplier is not None and external is not None:
            call.note_account(account.import_supplier, external)
        else:
            code = account.import_supplier if supplier is not None else call.key.only_supplier
            call.note_account(code, typed_number(call.body))
        terms = supplier.terms if supplier is not None else Terms()
        submission_check = yield from check_submission_in_steps(submission, terms, now(), occasion)
        problems = submission_check.problems
        if supplier is None and submission.states("import_supplier"):
            problems = (UNKNOWN_SUPPLIER, *problems)
        is_ongoing = supplier is None or supplier.status == "ongoing" or occasion is not Occasion.CREATE
        if problems or not is_ongoing:
            return _Refusal(supplier, external, problems)
        yield
        return convert(submission_check)

    async def _answer_to(self, refusal: "_Refusal", occasion: Occasion) -> NotValid:
        """Return the refusal that comes first in the order of the module's docstring.

        Raises Refused for an account that exists.
        """
        supplier, code = refusal.supplier, refusal.supplier.code if refusal.supplier is not None else ""
        if (
            occasion is Occasion.CREATE and supplier is not None
        ):  # the append finds existing accounts of other suppliers
            if refusal.external is not None:
                await self._refuse_existing(code, refusal.external)
            if supplier.status != "ongoing":
                problem, sentence = not_ongoing(supplier.status)
                return NotValid(problem.code, sentence, [problem], supplier=code)
        return NotValid("account_failed_validation", _NOT_VALID, refusal.problems, supplier=code, with_tree=True)

    async def _refuse_existing(self, supplier: str, external: str) -> None:
        existing = await self._statuses.read((supplier, external))
        if existing is not None and existing.status == "PROCESSED":
            raise AlreadyImported(existing.service_identifier or "")
        if existing is not None and existing.status == "IN_PROGRESS":
            raise ImportInProgress


class _Refusal(msgspec.Struct, frozen=True):
    """Refused account: its supplier and number if the body has them, and its problems."""

    supplier: KnownSupplier | None
    external: str | None
    problems: tuple[Problem, ...]


class _Staging(msgspec.Struct, frozen=True):
    """Account to stage, and the warnings for its importer."""

    supplier: str
    external: str
    command: StageImport
    payload: Payload
    warnings: tuple[Problem, ...]


def _staging_of(body: bytes, run: str, submission_check: SubmissionCheck) -> _Staging:
    account = submission_check.submission.account
    payload = Payload.of(body, view_values_of(body, account))
    command = staging_of(submission_check, payload, run)
    return _Staging(
        account.import_supplier, account.external_account_number, command, payload, warnings_of(submission_check)
    )


def _mode_of(command: StageImport) -> Mode:
    return "dry_run" if command.is_dry_run else "create"


def _answer(
    request: Request,
    status: Literal[ImportState, "VALID"],
    outcome: Outcome | None,
    warnings: tuple[Problem, ...],
) -> bytes:
    """Return the answer's body: `{}`, or status and warnings for callers who prefer a representation."""
    return encoded(Empty(status=status, outcome=outcome, warnings=warnings), language_of(request))


def _response(request: Request, status: int, body: bytes, *, has_body: bool) -> Response:
    if not has_body:
        return EmptyResponse(status)
    return JsonResponse(body, status, APPLIED | language_headers(language_of(request)))
