"""Check of a submitted account: its shape, the market's rules and its processing parameters. Pure.

`check_submission` is called by the api before it answers, by workers before they create records, and by `replay`.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

import msgspec

import market
from market.rule import Severity
from schemas.account import TaskParams
from schemas.base import Problem, instant, problem_name
from schemas.reading.problems import UNKNOWN_FIELD, UnknownLeftOut
from schemas.reading.work import MAX_RULES_S
from schemas.sentence import Sentence
from schemas.submission import Submission
from system.steps import Steps, finish_steps

MAX_WINDOW = timedelta(days=4)
"""Longest time from now to the start and to the end of the schedule window. A later start or end is a problem."""
MAX_PROBLEM_NAMES = 50
"""Problem names, and names of dropped fields, in one event. Further names are left out."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a supplier for the check of its accounts. An unknown supplier has the defaults."""

    strictness: str = "standard"
    unknown_fields: str = "refuse"
    is_dry_run_only: bool = False

    @property
    def is_strict(self) -> bool:
        return self.strictness == "strict"

    @property
    def drops_unknown_fields(self) -> bool:
        return self.unknown_fields == "ignore"


class Occasion(Enum):
    """Occasion of a check: a request, or processing. PROCESS does not check the schedule, and has no time limit."""

    VALIDATE = auto()
    CREATE = auto()
    PROCESS = auto()


class SubmissionCheck(msgspec.Struct, frozen=True):
    """Result of a check. Problems refuse the submission; warnings and paths of dropped fields are recorded with it."""

    submission: Submission
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    dropped_fields: tuple[str, ...]


def check_submission(
    submission: Submission, terms: Terms, at: datetime, occasion: Occasion, *, within_s: float = MAX_RULES_S
) -> SubmissionCheck:
    """Return the result of `check_submission_in_steps` in one step."""
    return finish_steps(check_submission_in_steps(submission, terms, at, occasion, within_s=within_s))


def check_submission_in_steps(
    submission: Submission, terms: Terms, at: datetime, occasion: Occasion, *, within_s: float = MAX_RULES_S
) -> Steps[SubmissionCheck]:
    """Check shape, market rules and schedule at a moment, with the supplier's terms, in steps.

    Raises TooMuchWork if the rules exceed their limit of CPU time, except for PROCESS.
    """
    shape_errors, dropped = without_dropped(submission.shape_errors, terms)
    within_s = math.inf if occasion is Occasion.PROCESS else within_s
    breaches = yield from market.check_in_steps(submission.account, at, shape_errors, within_s=within_s)
    task = _task_problems(submission.task, terms, at, occasion)
    errors = [b.problem for b in breaches if terms.is_strict or b.severity is Severity.ERROR]
    warnings = [b.problem for b in breaches if not terms.is_strict and b.severity is Severity.WARNING]
    return SubmissionCheck(submission, (*shape_errors, *errors, *task), tuple(warnings), dropped)


def without_dropped(shape_errors: Sequence[Problem], terms: Terms) -> tuple[list[Problem], tuple[str, ...]]:
    """Return the shape errors except errors about fields that the terms drop, and the paths of the dropped fields."""
    if not terms.drops_unknown_fields:
        return [*shape_errors], ()
    counting = [p for p in shape_errors if p.code != UNKNOWN_FIELD and not isinstance(p, UnknownLeftOut)]
    return counting, tuple(problem.attr for problem in shape_errors if problem.code == UNKNOWN_FIELD)


def problem_names(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Return code@path of each problem, without values, for the log."""
    return tuple(problem_name(problem.code, problem.attr) for problem in problems[:MAX_PROBLEM_NAMES])


def _task_problems(task: TaskParams, terms: Terms, at: datetime, occasion: Occasion) -> list[Problem]:
    """Return the problems of the processing parameters: dry run and schedule window."""
    if occasion is Occasion.PROCESS or (task == _NO_TASK and not terms.is_dry_run_only):
        return []
    start = instant(task.schedule_window_start) if task.schedule_window_start else None
    end = instant(task.schedule_window_end) if task.schedule_window_end else None
    latest = at + MAX_WINDOW
    codes = {
        "schedule_window_start_in_past": start is not None and start < at,
        "schedule_window_end_in_past": end is not None and end < at,
        "schedule_window_end_too_far_in_future": end is not None and end > latest,
        "schedule_window_start_too_far_in_future": start is not None and start > latest,
        "schedule_window_start__after_end": start is not None and end is not None and start >= end,
        "dry_run_only": occasion is Occasion.CREATE and terms.is_dry_run_only and not task.is_dry_run,
    }
    return [
        Problem(f"task_params.{_TASK[code][0]}", code, _TASK[code][1]) for code, applies in codes.items() if applies
    ]


_NO_TASK = TaskParams()
_START, _END, _DAYS = "schedule_window_start", "schedule_window_end", MAX_WINDOW.days
_TASK: dict[str, tuple[str, Sentence]] = {
    "schedule_window_start_in_past": (
        _START,
        Sentence(
            "The schedule window must not begin in the past.",
            "Das Zeitfenster darf nicht in der Vergangenheit beginnen.",
        ),
    ),
    "schedule_window_end_in_past": (
        _END,
        Sentence(
            "The schedule window must not end in the past.", "Das Zeitfenster darf nicht in der Vergangenheit enden."
        ),
    ),
    "schedule_window_end_too_far_in_future": (
        _END,
        Sentence(
            f"The schedule window must not end more than {_DAYS} days ahead.",
            f"Das Zeitfenster darf nicht mehr als {_DAYS} Tage in der Zukunft enden.",
        ),
    ),
    "schedule_window_start_too_far_in_future": (
        _START,
        Sentence(
            f"The schedule window must not begin more than {_DAYS} days ahead.",
            f"Das Zeitfenster darf nicht mehr als {_DAYS} Tage in der Zukunft beginnen.",
        ),
    ),
    "schedule_window_start__after_end": (
        _START,
        Sentence("The schedule window must begin before its end.", "Das Zeitfenster muss vor seinem Ende beginnen."),
    ),
    "dry_run_only": (
        "is_dry_run",
        Sentence(
            "The request must be a dry run: the import supplier accepts only dry runs.",
            "Die Anfrage muss ein Probelauf sein: Die Quelle nimmt nur Probeläufe an.",
        ),
    ),
}
"""Field of `task_params` and sentence, by code."""
