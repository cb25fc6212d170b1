"""Check of a submitted account: the supplier's terms and the occasion decide which problems refuse it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from market.submission_check import (
    MAX_WINDOW,
    Occasion,
    SubmissionCheck,
    Terms,
    check_submission,
    problem_names,
    without_dropped,
)
from schemas.base import Problem
from schemas.reading.problems import UNKNOWN_FIELD, UnknownLeftOut
from schemas.reading.work import TooMuchWork
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
STRICT = Terms(strictness="strict")
IDENTIFIER = "supply_addresses.0.supply_points.0.identifier"


def checked(account: dict[str, Any], terms: Terms = Terms(), occasion: Occasion = Occasion.CREATE) -> SubmissionCheck:  # noqa: B008
    return check_submission(read_submission(encoded(account)), terms, NOW, occasion)


def with_wrong_check_digit() -> dict[str, Any]:
    account = changed(an_account(), "12345678901", *(int(s) if s.isdigit() else s for s in IDENTIFIER.split(".")))
    return changed(account, ["12345678901"], "ledgers", 0, "identifiers")


def wrapped(**task: Any) -> dict[str, Any]:
    return {"payload": an_account(), "task_params": task}


@pytest.mark.parametrize("occasion", Occasion)
def test_what_the_market_warns_of_is_a_problem_for_strict_suppliers_alone(occasion: Occasion) -> None:
    standard, strict = (
        checked(with_wrong_check_digit(), Terms(), occasion),
        checked(with_wrong_check_digit(), STRICT, occasion),
    )
    name = f"invalid_supply_point_identifier@{IDENTIFIER}"
    assert (standard.problems, problem_names(standard.warnings)) == ((), (name,))
    assert (problem_names(strict.problems), strict.warnings) == ((name,), ())


def test_a_blank_text_is_a_problem_of_the_named_field() -> None:
    [problem] = checked(changed(an_account(), " ", "notes", 0, "body")).problems
    assert problem.detail == "Notes → body must not be blank."


@pytest.mark.promise("wrong-postcode-malo-melo")
def test_a_warning_says_where_and_why() -> None:
    [warning] = checked(with_wrong_check_digit()).warnings
    assert warning.attr == IDENTIFIER
    assert "check digit" in warning.detail


def test_unknown_fields_are_problems_or_dropped() -> None:
    account = changed(an_account(), "x", "loyalty_tier")
    assert problem_names(checked(account).problems) == ("unknown_field@loyalty_tier",)
    ignoring = checked(account, Terms(unknown_fields="ignore"))
    assert (ignoring.problems, ignoring.dropped_fields) == ((), ("loyalty_tier",))


@pytest.mark.parametrize(
    ("occasion", "expected"), [(Occasion.VALIDATE, ()), (Occasion.CREATE, ("dry_run_only",)), (Occasion.PROCESS, ())]
)
def test_dry_runs_only_matters_to_those_who_create(occasion: Occasion, expected: tuple[str, ...]) -> None:
    found = checked(wrapped(is_dry_run=False), Terms(is_dry_run_only=True), occasion)
    assert tuple(problem.code for problem in found.problems) == expected
    assert {problem.attr for problem in found.problems} <= {"task_params.is_dry_run"}
    assert found.submission == read_submission(encoded(wrapped(is_dry_run=False)))
    assert checked(wrapped(is_dry_run=True), Terms(is_dry_run_only=True), occasion).problems == ()


@pytest.mark.promise("window-ends-past-refused")
@pytest.mark.parametrize("occasion", [Occasion.VALIDATE, Occasion.CREATE])
def test_an_end_of_the_window_in_the_past_is_refused(occasion: Occasion) -> None:
    ended = wrapped(schedule_window_end=(NOW - timedelta(seconds=1)).isoformat())
    [problem] = checked(ended, Terms(), occasion).problems
    assert (problem.code, problem.attr) == ("schedule_window_end_in_past", "task_params.schedule_window_end")
    open_still = wrapped(schedule_window_end=(NOW + timedelta(hours=1)).isoformat())
    assert checked(open_still, Terms(), occasion).problems == ()


def test_the_window_is_no_matter_when_the_account_is_processed() -> None:
    ended = wrapped(schedule_window_end=(NOW - timedelta(days=1)).isoformat())
    assert checked(ended, Terms(), Occasion.PROCESS).problems == ()


def test_what_was_accepted_is_processed_however_long_it_takes() -> None:
    account = an_account("NORDWIND")
    large = read_submission(encoded(account | {"notes": account["notes"] * 64}))
    assert check_submission(large, Terms(), NOW, Occasion.PROCESS, within_s=-1).problems == ()
    for occasion in (Occasion.VALIDATE, Occasion.CREATE):
        with pytest.raises(TooMuchWork):
            check_submission(large, Terms(), NOW, occasion, within_s=-1)


def test_undocumented_fields_that_are_dropped_count_neither_listed_nor_left_out() -> None:
    unknown = Problem("loyalty_tier", UNKNOWN_FIELD, "not documented")
    left_out = UnknownLeftOut("", "errors_truncated", "and 7 more", 7)
    other = Problem("email", "invalid", "no")
    assert without_dropped([unknown, left_out, other], Terms(unknown_fields="ignore")) == ([other], ("loyalty_tier",))
    assert without_dropped([unknown, left_out, other], Terms()) == ([unknown, left_out, other], ())


def test_the_documented_limits_of_a_judgement() -> None:
    assert timedelta(days=4) == MAX_WINDOW
    problems = [Problem(str(number), "invalid", "no") for number in range(51)]
    assert problem_names(problems[:50]) == tuple(f"invalid@{number}" for number in range(50))
    assert problem_names(problems) == problem_names(problems[:50])
    assert Terms() == Terms(strictness="standard", unknown_fields="refuse", is_dry_run_only=False)
