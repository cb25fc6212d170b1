"""Turn a checked account into the command that stages it, and into warnings for its importer."""

import market
from eventstore.aggregates.import_process import StageImport
from eventstore.log.payloads import Payload
from market.submission_check import MAX_PROBLEM_NAMES, SubmissionCheck, problem_names
from schemas.base import Problem, instant
from schemas.reading.problems import MAX_PROBLEMS, UNKNOWN_FIELD
from schemas.sentence import Sentence

UNKNOWN_SUPPLIER = Problem(
    "import_supplier",
    "invalid_choice",
    Sentence("The import supplier must be one of yours.", "Die Quelle muss eine von Ihren sein."),
)
_LEFT_OUT = Sentence(
    "This field is not documented; it is left out.", "Dieses Feld ist nicht dokumentiert; es wird weggelassen."
)


def not_ongoing(status: str) -> tuple[Problem, Sentence]:
    """Return the refusal of an account whose supplier is paused or closed: the problem, and its sentence."""
    detail = Sentence(
        f"The import supplier must be ongoing to accept accounts. It is {status}.",
        f"Die Quelle muss im Status ongoing sein, um Konten zu senden. Sie ist im Status {status}.",
    )
    return Problem("import_supplier", "import_supplier_migration_not_ongoing", detail), detail


def staging_of(submission_check: SubmissionCheck, payload: Payload, run: str = "") -> StageImport:
    """Return the command that stores this payload for processing, under a run if one is named."""
    task = submission_check.submission.task
    start, end = task.schedule_window_start, task.schedule_window_end
    return StageImport(
        payload_sha256=payload.sha256.hex(),
        content_sha256=submission_check.submission.content_sha256().hex(),
        payload_bytes=payload.received_bytes,
        is_dry_run=task.is_dry_run,
        not_before=instant(start) if start else None,
        not_after=instant(end) if end else None,
        rules_edition=market.EDITION,
        warnings=problem_names(submission_check.warnings),
        dropped_fields=submission_check.dropped_fields[:MAX_PROBLEM_NAMES],
        dropped=len(submission_check.dropped_fields),
        run=run,
    )


def warnings_of(submission_check: SubmissionCheck) -> tuple[Problem, ...]:
    """Return the warnings of the market's rules, and one for each field that is left out."""
    dropped = (Problem(path, UNKNOWN_FIELD, _LEFT_OUT) for path in submission_check.dropped_fields)
    return (*submission_check.warnings, *dropped)[:MAX_PROBLEMS]
