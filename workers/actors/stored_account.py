"""Read the account in a stored payload, and check it again if the rules may have changed since. Pure."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

import market
from eventstore.aggregates.import_process import FailImport, ImportProcess, ImportStaged
from market.submission_check import Occasion, Terms, check_submission, problem_names
from schemas.account import Account
from schemas.base import Problem
from schemas.reading.duplicate_names import REPEATED_FIELD
from schemas.reading.problems import UNKNOWN_FIELD
from schemas.reading.shape import NotJson
from schemas.submission import stored_account, stored_submission

_ARCHIVED = ("payload_archived", "The payload is in the supplier's archive: attach the archive, then retry the import.")
_ERASED = ("payload_erased", "The payload was erased; send it again.")


def account_of(
    body: bytes | None, process: ImportProcess, terms: Terms, at: datetime, *, is_archived: bool = False
) -> Account | FailImport:
    """Return the account in a stored payload, or the command that fails the import.

    `body` is None if the payload was erased. The account is checked again, unless the present edition of the rules has
    accepted it and the present terms also accept it.
    """
    staged = process.staged
    if body is None:
        code, detail = _ARCHIVED if is_archived else _ERASED
        return FailImport(start=process.start, code=code, detail=detail)
    if staged is None or not _is_judged(staged, terms):
        return checked_account(body, process, terms, at)
    try:
        return stored_account(body)
    except NotJson as error:
        return _not_json(process, error)


def checked_account(body: bytes, process: ImportProcess, terms: Terms, at: datetime) -> Account | FailImport:
    """Check the account by today's rules.

    Return the account, or the command that fails the import. Fields that were dropped when the payload was staged are
    dropped again, also under other terms.
    """
    try:
        submission = stored_submission(body)
    except NotJson as error:
        return _not_json(process, error)
    if process.staged is not None and process.staged.dropped:
        terms = msgspec.structs.replace(terms, unknown_fields="ignore")
    problems = check_submission(submission, terms, at, Occasion.PROCESS).problems
    return invalid(process.start, problems) if problems else submission.account


def invalid(start: int, problems: Sequence[Problem]) -> FailImport:
    """Return the command that fails an import for these problems.

    The log stores no name that an importer has chosen: an undocumented field is named `*`.
    """
    names = problem_names(
        [
            Problem("*", problem.code, "") if problem.code in (UNKNOWN_FIELD, REPEATED_FIELD) else problem
            for problem in problems
        ]
    )
    return FailImport(
        start=start,
        code="account_failed_validation",
        detail="The account could not be validated: " + ", ".join(names[:5]),
        problems=names,
        rules_edition=market.EDITION,
    )


def _is_judged(staged: ImportStaged, terms: Terms) -> bool:
    has_warnings = bool(staged.warnings)
    return staged.rules_edition == market.EDITION and not staged.dropped and not (terms.is_strict and has_warnings)


def _not_json(process: ImportProcess, error: NotJson) -> FailImport:
    return invalid(process.start, [Problem("non_field_errors", "parse_error", error.detail)])
