"""Judge the lines of a batch: decode them and check all rules. This needs CPU time and no database, in any process.

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
from market.judging import Occasion, Terms, judge
from projections.views.search_at_once import noted_of
from schemas.base import Problem
from schemas.reading.problems import MAX_PROBLEMS, bounded
from schemas.reading.shape import NotJson
from schemas.reading.work import TooMuchWork
from schemas.sentence import Sentence
from schemas.submission import sent_submission

INVALID = "account_failed_validation"

logger = structlog.get_logger()


class Question(msgspec.Struct, frozen=True):
    """Lines to check. `terms` are those of the suppliers that the caller may access, by code."""

    lines: list[bytes]
    terms: dict[str, Terms]
    mode: Mode
    run: str
    at: datetime


class Judged(msgspec.Struct, frozen=True):
    """Result of checking a line: why it is refused (`code`, "" if it is not), or the command that stages it.

    `supplier` and `external` are "" if the line does not state them, or the caller may not access the supplier.
    """

    supplier: str = ""
    external: str = ""
    code: str = ""
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    command: StageImport | None = None
    payload: Payload | None = None


def judge_lines(question: Question) -> list[Judged]:
    """Check the lines, and return a result for each. A line whose check fails unexpectedly is refused."""
    judgements: list[Judged] = []
    listed = 0
    for line in question.lines:
        judged = _judged_safely(line, question, problems_listed(listed))
        listed += len(judged.errors) + len(judged.warnings)
        judgements.append(judged)
    return judgements


def _judged_safely(line: bytes, question: Question, most: int) -> Judged:
    try:
        return judge_line(line, question, most)
    except NotJson as error:
        return Judged(code="parse_error", errors=(Problem("non_field_errors", "parse_error", error.detail),))
    except TooMuchWork as error:
        return Judged(
            code="request_too_large", errors=(Problem("non_field_errors", "request_too_large", error.detail),)
        )
    except Exception as error:  # one line must not lose the others
        logger.exception("line could not be judged", reason=type(error).__name__)
        return Judged(code="error", errors=(Problem("non_field_errors", "error", unexpected(error)),))


def unexpected(error: Exception) -> Sentence:
    """Return the sentence for a line whose check failed unexpectedly."""
    kind = type(error).__name__
    return Sentence(
        f"An unexpected error occurred: {kind}. Contact the platform team.",
        f"Ein unerwarteter Fehler ist aufgetreten: {kind}. Bitte dem Plattform-Team melden.",
    )


def judge_line(line: bytes, question: Question, most: int = MAX_PROBLEMS) -> Judged:
    """Check a line as the endpoint of single accounts checks a body. List at most `most` problems.

    Raises NotJson, TooMuchWork.
    """
    submission = sent_submission(line, with_digest=question.mode != "validate")
    account = submission.account
    supplier = account.import_supplier if submission.states("import_supplier") else ""
    external = account.external_account_number if submission.states("external_account_number") else ""
    occasion = Occasion.VALIDATE if question.mode == "validate" else Occasion.CREATE
    if question.mode == "dry_run":
        task = msgspec.structs.replace(submission.task, is_dry_run=True)
        submission = msgspec.structs.replace(submission, task=task)
    judged = judge(submission, question.terms.get(supplier, Terms()), question.at, occasion)
    warnings = warnings_of(judged)[:most]
    if supplier and supplier not in question.terms:
        return _refused("", external, [UNKNOWN_SUPPLIER, *judged.problems], (), most)
    if judged.problems:
        return _refused(supplier, external, judged.problems, warnings, most)
    if question.mode == "validate":
        return Judged(supplier, external, "", (), warnings)
    payload = Payload.of(line, noted_of(line, account))
    return Judged(supplier, external, "", (), warnings, staging_of(judged, payload, question.run), payload)


def _refused(
    supplier: str, external: str, problems: Sequence[Problem], warnings: tuple[Problem, ...], most: int
) -> Judged:
    return Judged(supplier, external, INVALID, tuple(bounded(problems, most)), warnings)
