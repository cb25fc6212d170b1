"""Validate, create and read account imports (v2).

Refusals are judged in this order: parse → supplier known → already imported or in progress → supplier ongoing →
all shape and market problems together.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from psycopg_pool import AsyncConnectionPool
from starlette.requests import Request
from starlette.responses import Response

import market
from api.auth import READERS, Authenticator
from api.calls import Call
from api.directory import Directory, Key, SupplierEntry
from api.endpoints.history_queries import as_of
from api.errors import NotValid, not_found
from api.paths import identifier
from api.responses import JsonResponse, json_response
from api.store import in_thread, read
from eventstore.aggregates.import_process import StageImport, stream_of
from eventstore.clock import now
from eventstore.errors import AlreadyImported, ImportInProgress, VersionConflict
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from projections.history import NOW, account_history, of_import, status_after
from projections.import_status import import_status
from schemas.account import TaskParams
from schemas.base import Problem, instant
from schemas.shape import UNKNOWN_FIELD
from schemas.submission import Submission, read_submission

MAX_WINDOW = timedelta(days=4)
MAX_WARNINGS_KEPT = 50
_VALID = JsonResponse(b"{}", 200)
_CREATED = JsonResponse(b"{}", 201)


class Checked(msgspec.Struct, frozen=True):
    """A submission and what was found: problems refuse it; warnings, as code@path, and dropped fields are recorded."""

    submission: Submission
    problems: Sequence[Problem]
    warnings: tuple[str, ...]
    dropped_fields: tuple[str, ...]


class AccountImport:
    """The handlers of /v2/data-import/accounts/."""

    def __init__(self, ledger: Ledger, pool: AsyncConnectionPool, directory: Directory, auth: Authenticator) -> None:
        self._ledger = ledger
        self._pool = pool
        self._directory = directory
        self._auth = auth

    async def validate(self, request: Request, call: Call) -> Response:
        """200 with an empty object, or 400 with every problem; no side effects."""
        await self._checked(call, is_create=False)
        return _VALID

    async def create(self, request: Request, call: Call) -> Response:
        """201 once the import is durably in the log; 400 with every problem, or because it was imported already."""
        await self._stage(call, await self._checked(call, is_create=True))
        return _CREATED

    async def status(self, request: Request) -> Response:
        """The v2 status record, now or as of a moment, or 404."""
        key = await self._auth.caller(request, READERS)
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        if not key.may_touch(supplier):
            raise not_found()
        moment = as_of(request)
        if moment is NOW:
            found = await read(self._pool, import_status, supplier, external)
        else:
            found = status_after(of_import(await read(self._pool, account_history, supplier, external, moment)))
        if found is None:
            raise not_found()
        return json_response(found)

    async def _stage(self, call: Call, checked: Checked) -> None:
        """Append to a new stream; where the stream exists, decide on its state."""
        submission, at = checked.submission, now()
        payload = Payload.of(call.body)
        stream = stream_of(submission.account.import_supplier, submission.account.external_account_number)
        command = StageImport(
            payload_sha256=payload.sha256.hex(),
            content_sha256=hashlib.sha256(submission.canonical_json()).hexdigest(),
            payload_bytes=len(call.body),
            is_dry_run=submission.task.is_dry_run,
            not_before=_utc(submission.task.schedule_window_start),
            not_after=_utc(submission.task.schedule_window_end),
            rules_edition=market.EDITION,
            warnings=checked.warnings,
            dropped_fields=checked.dropped_fields,
        )
        by, answer = call.by, call.answer(201, b"{}")
        try:
            await self._ledger.begin(stream, command, at=at, by=by, payload=payload, answer=answer)
        except VersionConflict:
            await in_thread(self._ledger.execute, stream, command, at=at, by=by, payload=payload, answer=answer)

    async def _checked(self, call: Call, *, is_create: bool) -> Checked:
        """Judge a body, in the order that the module states. Raises what refuses it."""
        submission = read_submission(call.body)
        account = submission.account
        supplier = None
        if submission.states("import_supplier"):
            supplier = await self._supplier(call.key, account.import_supplier)
            if supplier is None:
                raise _not_valid([_UNKNOWN_SUPPLIER])
        judged = _judged(submission, supplier, is_create=is_create)
        if is_create and supplier is not None:
            is_refused = supplier.status != "ongoing" or bool(judged.problems)  # else the append finds what is taken
            if is_refused and submission.states("external_account_number"):
                await self._refuse_if_taken(account.import_supplier, account.external_account_number)
            if supplier.status != "ongoing":
                raise _not_ongoing(account.import_supplier, supplier.status)
        if judged.problems:
            raise _not_valid(judged.problems, account.import_supplier if supplier is not None else "")
        return judged

    async def _supplier(self, key: Key, code: str) -> SupplierEntry | None:
        """The supplier, if the key may touch it: an unknown and a foreign one look the same."""
        return await self._directory.supplier(code) if key.may_touch(code) else None

    async def _refuse_if_taken(self, supplier: str, external: str) -> None:
        found = await read(self._pool, import_status, supplier, external)
        if found is not None and found.status == "PROCESSED":
            raise AlreadyImported(found.service_identifier or "")
        if found is not None and found.status == "IN_PROGRESS":
            raise ImportInProgress


def _judged(submission: Submission, supplier: SupplierEntry | None, *, is_create: bool) -> Checked:
    """Everything that shape, market and schedule have to say, by the supplier's settings."""
    at = now()
    unknown = [problem for problem in submission.misfits if problem.code == UNKNOWN_FIELD]
    is_ignoring = supplier is not None and supplier.unknown_fields == "ignore"
    misfits = [problem for problem in submission.misfits if not (is_ignoring and problem.code == UNKNOWN_FIELD)]
    is_strict = supplier is not None and supplier.strictness == "strict"
    breaches = market.check(submission.account, at, misfits)
    errors = [b.problem for b in breaches if is_strict or b.severity is market.Severity.ERROR]
    problems = [*misfits, *errors, *window_problems(submission.task, at)]
    if is_create and supplier is not None and supplier.is_dry_run_only and not submission.task.is_dry_run:
        problems.append(_DRY_RUN_ONLY)
    return Checked(
        submission,
        problems,
        tuple(f"{b.problem.code}@{b.problem.attr}" for b in breaches[:MAX_WARNINGS_KEPT]),
        tuple(problem.attr for problem in unknown[:MAX_WARNINGS_KEPT]) if is_ignoring else (),
    )


def window_problems(task: TaskParams, at: datetime) -> list[Problem]:
    """What is wrong with the schedule window, seen from this moment."""
    start, end = _utc(task.schedule_window_start), _utc(task.schedule_window_end)
    problems = []
    if start is not None and start < at:
        problems.append(_window("start", "schedule_window_start_in_past", "The window begins in the past."))
    if end is not None and end > at + MAX_WINDOW:
        code = "schedule_window_end_too_far_in_future"
        problems.append(_window("end", code, f"The window ends more than {MAX_WINDOW.days} days ahead."))
    if start is not None and start > at + MAX_WINDOW:
        code = "schedule_window_start_too_far_in_future"
        problems.append(_window("start", code, f"The window begins more than {MAX_WINDOW.days} days ahead."))
    if start is not None and end is not None and start >= end:
        code = "schedule_window_start__after_end"
        problems.append(_window("start", code, "The window begins after its end."))
    return problems


def _window(edge: str, code: str, detail: str) -> Problem:
    return Problem(f"task_params.schedule_window_{edge}", code, detail)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else instant(moment)


_UNKNOWN_SUPPLIER = Problem("import_supplier", "invalid_choice", "This is not one of your import suppliers.")


_DRY_RUN_ONLY = Problem("task_params.is_dry_run", "dry_run_only", "This import supplier takes dry runs only.")


def _not_ongoing(supplier: str, status: str) -> NotValid:
    code = "import_supplier_migration_not_ongoing"
    detail = f"The import supplier is {status}; it takes no accounts now."
    return NotValid(code, detail, [Problem("import_supplier", code, detail)], supplier=supplier)


def _not_valid(problems: Sequence[Problem], supplier: str = "") -> NotValid:
    code, detail = "account_failed_validation", "The account data could not be validated."
    return NotValid(code, detail, problems, supplier=supplier, with_tree=True)
