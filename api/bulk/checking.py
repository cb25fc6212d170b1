"""Check the lines of a batch: decode them and apply all rules.

The check needs no database, so that any process can check lines.
Input and output are Structs that can be sent between processes.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec
import structlog

from api.http.limits import problems_listed
from api.intake.staging import UNKNOWN_SUPPLIER, staging_of, warnings_of
from eventstore.aggregates.import_process import StageImport
from eventstore.aggregates.run import Mode
from eventstore.log.payloads import Payload
from market.submission_check import Occasion, Terms, check_submission
from market.suggestions import with_suggestions
from projections.views.search_at_once import view_values_of
from schemas.base import Problem
from schemas.reading.problems import MAX_PROBLEMS, bounded
from schemas.reading.shape import NotJson
from schemas.reading.work import TooMuchWork
from schemas.sentence import Sentence
from schemas.submission import sent_submission

INVALID = "account_failed_validation"

logger = structlog.get_logger()


class CheckRequest(msgspec.Struct, frozen=True):
    """Lines to check. `terms` are the settings of the suppliers that the caller may access, by supplier code."""

    lines: list[bytes]
    terms: dict[str, Terms]
    mode: Mode
    run: str
    at: datetime
    suggests: bool = False
    """True to add suggestions to problems."""


class CheckedLine(msgspec.Struct, frozen=True):
    """Result of checking a line: the `code` of its refusal, or "" and the command that stages its account.

    `supplier` and `external` are "" if the line does not have them, or the caller may not access the supplier.
    """

    supplier: str = ""
    external: str = ""
    code: str = ""
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    command: StageImport | None = None
    payload: Payload | None = None


def check_lines(request: CheckRequest) -> list[CheckedLine]:
    """Check the lines, and return a result for each. A line whose check fails unexpectedly is refused."""
    results: list[CheckedLine] = []
    listed = 0
    for line in request.lines:
        result = _check_safely(line, request, problems_listed(listed))
        listed += len(result.errors) + len(result.warnings)
        results.append(result)
    return results


def _check_safely(line: bytes, request: CheckRequest, limit: int) -> CheckedLine:
    try:
        result = check_line(line, request, limit)
        return _suggested(line, result, request) if request.suggests else result
    except NotJson as error:
        return CheckedLine(code="parse_error", errors=(Problem("non_field_errors", "parse_error", error.detail),))
    except TooMuchWork as error:
        return CheckedLine(
            code="request_too_large", errors=(Problem("non_field_errors", "request_too_large", error.detail),)
        )
    except Exception as error:  # an error of one line must not lose other lines
        logger.exception("line could not be checked", reason=type(error).__name__)
        return CheckedLine(code="error", errors=(Problem("non_field_errors", "error", unexpected(error)),))


def _suggested(line: bytes, result: CheckedLine, request: CheckRequest) -> CheckedLine:
    """Return the result with suggestions for its problems."""
    problems = with_suggestions(
        line,
        (*result.errors, *result.warnings),
        request.terms.get(result.supplier, Terms()),
        request.at,
        _occasion(request),
    )
    errors = len(result.errors)
    return msgspec.structs.replace(result, errors=tuple(problems[:errors]), warnings=tuple(problems[errors:]))


def _occasion(request: CheckRequest) -> Occasion:
    return Occasion.VALIDATE if request.mode == "validate" else Occasion.CREATE


def unexpected(error: Exception) -> Sentence:
    """Return the sentence for a line whose check failed unexpectedly."""
    kind = type(error).__name__
    return Sentence(
        f"An unexpected error occurred: {kind}. Contact the platform team.",
        f"Ein unerwarteter Fehler ist aufgetreten: {kind}. Melden Sie ihn dem Plattform-Team.",
    )


def check_line(line: bytes, request: CheckRequest, limit: int = MAX_PROBLEMS) -> CheckedLine:
    """Check a line as the endpoint of single accounts checks a body. List at most `limit` problems.

    Raises NotJson, TooMuchWork.
    """
    submission = sent_submission(line, with_digest=request.mode != "validate")
    account = submission.account
    supplier = account.import_supplier if submission.states("import_supplier") else ""
    external = account.external_account_number if submission.states("external_account_number") else ""
    if request.mode == "dry_run":
        task = msgspec.structs.replace(submission.task, is_dry_run=True)
        submission = msgspec.structs.replace(submission, task=task)
    submission_check = check_submission(
        submission, request.terms.get(supplier, Terms()), request.at, _occasion(request)
    )
    warnings = warnings_of(submission_check)[:limit]
    if supplier and supplier not in request.terms:
        return _refused("", external, [UNKNOWN_SUPPLIER, *submission_check.problems], (), limit)
    if submission_check.problems:
        return _refused(supplier, external, submission_check.problems, warnings, limit)
    if request.mode == "validate":
        return CheckedLine(supplier, external, "", (), warnings)
    payload = Payload.of(line, view_values_of(line, account))
    return CheckedLine(
        supplier, external, "", (), warnings, staging_of(submission_check, payload, request.run), payload
    )


def _refused(
    supplier: str, external: str, problems: Sequence[Problem], warnings: tuple[Problem, ...], limit: int
) -> CheckedLine:
    return CheckedLine(supplier, external, INVALID, tuple(bounded(problems, limit)), warnings)
