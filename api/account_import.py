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
from api.auth import READERS, WRITERS, Authenticator
from api.directory import Directory, Key
from api.errors import NotValid, not_found
from api.paths import identifier
from api.responses import JsonResponse, json_response, read_body
from api.store import in_thread, read
from eventstore.errors import AlreadyImported, ImportInProgress, VersionConflict
from eventstore.import_process import StageImport, stream_of
from eventstore.ledger import Ledger, now
from eventstore.payloads import Payload
from projections.import_status import import_status
from schemas.account import TaskParams
from schemas.base import Problem, instant
from schemas.submission import Submission, read_submission

MAX_WINDOW = timedelta(days=4)
MAX_WARNINGS_KEPT = 50
_VALID = JsonResponse(b"{}", 200)
_CREATED = JsonResponse(b"{}", 201)


class Checked(msgspec.Struct, frozen=True):
    """A submission that may be staged, and the warnings about it as code@path."""

    submission: Submission
    warnings: tuple[str, ...]


class AccountImport:
    """The handlers of /v2/data-import/accounts/."""

    def __init__(self, ledger: Ledger, pool: AsyncConnectionPool, directory: Directory, auth: Authenticator) -> None:
        self._ledger = ledger
        self._pool = pool
        self._directory = directory
        self._auth = auth

    async def validate(self, request: Request) -> Response:
        """200 with an empty object, or 400 with every problem; no side effects."""
        key = await self._auth.caller(request, WRITERS)
        await self._checked(key, await read_body(request), is_create=False)
        return _VALID

    async def create(self, request: Request) -> Response:
        """201 once the import is durably in the log; 400 with every problem, or because it was imported already."""
        key = await self._auth.caller(request, WRITERS)
        body = await read_body(request)
        checked = await self._checked(key, body, is_create=True)
        await self._stage(key, body, checked)
        return _CREATED

    async def status(self, request: Request) -> Response:
        """The v2 status record, or 404."""
        key = await self._auth.caller(request, READERS)
        supplier, external = identifier(request, "supplier"), identifier(request, "external")
        if not key.may_touch(supplier):
            raise not_found()
        found = await read(self._pool, import_status, supplier, external)
        if found is None:
            raise not_found()
        return json_response(found)

    async def _stage(self, key: Key, body: bytes, checked: Checked) -> None:
        """Append to a new stream; where the stream exists, decide on its state."""
        submission, at = checked.submission, now()
        payload = Payload.of(body)
        stream = stream_of(submission.account.import_supplier, submission.account.external_account_number)
        command = StageImport(
            payload_sha256=payload.sha256.hex(),
            content_sha256=hashlib.sha256(submission.canonical_json()).hexdigest(),
            payload_bytes=len(body),
            is_dry_run=submission.task.is_dry_run,
            not_before=_utc(submission.task.schedule_window_start),
            not_after=_utc(submission.task.schedule_window_end),
            rules_edition=market.EDITION,
            warnings=checked.warnings,
        )
        by = f"{key.organisation}:{key.key_id}"
        try:
            await self._ledger.begin(stream, command, at=at, by=by, payload=payload)
        except VersionConflict:
            await in_thread(self._ledger.execute, stream, command, at=at, by=by, payload=payload)

    async def _checked(self, key: Key, body: bytes, *, is_create: bool) -> Checked:
        """Judge a body, in the order that the module states. Raises what refuses it."""
        submission, at = read_submission(body), now()
        account = submission.account
        breaches = market.check(account, at, submission.misfits)
        problems = [
            *submission.misfits,
            *(breach.problem for breach in breaches if breach.severity is market.Severity.ERROR),
            *window_problems(submission.task, at),
        ]
        if submission.states("import_supplier"):
            status = await self._supplier_status(key, account.import_supplier)
            if status is None:
                raise _not_valid([_UNKNOWN_SUPPLIER])
            is_refused = status != "ongoing" or bool(problems)  # else the append finds out what is taken
            if is_create and is_refused and submission.states("external_account_number"):
                await self._refuse_if_taken(account.import_supplier, account.external_account_number)
            if is_create and status != "ongoing":
                raise _not_ongoing(status)
        if problems:
            raise _not_valid(problems)
        warnings = tuple(f"{b.problem.code}@{b.problem.attr}" for b in breaches[:MAX_WARNINGS_KEPT])
        return Checked(submission, warnings)

    async def _supplier_status(self, key: Key, supplier: str) -> str | None:
        if not key.may_touch(supplier):
            return None
        status = self._directory.status_of(supplier)
        if status is None:
            await self._directory.refresh()
            status = self._directory.status_of(supplier)
        return status

    async def _refuse_if_taken(self, supplier: str, external: str) -> None:
        found = await read(self._pool, import_status, supplier, external)
        if found is not None and found.status == "PROCESSED":
            raise AlreadyImported(found.service_identifier or "")
        if found is not None and found.status == "IN_PROGRESS":
            raise ImportInProgress


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


def _not_ongoing(status: str) -> NotValid:
    code = "import_supplier_migration_not_ongoing"
    detail = f"The import supplier is {status}; it takes no accounts now."
    return NotValid(code, detail, [Problem("import_supplier", code, detail)])


def _not_valid(problems: Sequence[Problem]) -> NotValid:
    return NotValid("account_failed_validation", "The account data could not be validated.", problems, with_tree=True)
