"""The compiled rules report the same as a simple walk over the rows, on valid and invalid accounts."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market import RULES
from market.rule import Breach, Rule, RuleBook, Severity, inlined
from schemas.account import Account
from schemas.base import Problem, Wire
from schemas.reading.problems import MAX_PROBLEMS, UNKNOWN_FIELD, LeftOut, left_out
from schemas.reading.shape import derived_checks
from schemas.reading.work import TooMuchWork
from schemas.sentence import Sentence
from schemas.submission import read_submission
from tests.support import make

NOW = datetime(2026, 11, 21, tzinfo=UTC)
EXAMPLES = settings().max_examples * 3 // 2
Steps = tuple[str | int, ...]

BOOK = RuleBook.of(Account, RULES)
ALL = (
    *(Rule(code=c.code, at=c.at, holds=c.holds, says=c.says, source="shape") for c in derived_checks(Account)),
    *RULES,
)


def places(value: Any, steps: Sequence[str], path: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Every (path, value) at a place that is there: the slow, obvious way."""
    if not steps:
        yield path, value
        return
    name, many = steps[0].removesuffix("[]"), steps[0].endswith("[]")
    inner = getattr(value, name)
    if many:
        for index, item in enumerate(inner):
            yield from places(item, steps[1:], (*path, name, index))
    elif inner:
        yield from places(inner, steps[1:], (*path, name))


def may_be_asked(rule: Rule, path: Steps, problems: Sequence[Problem]) -> bool:
    """Nothing at, above or (where the rule looks) below this place is a problem already."""
    here = tuple(map(str, path))
    for problem in problems:
        if problem.code == UNKNOWN_FIELD:
            continue
        bad = tuple(step for step in problem.attr.removesuffix("non_field_errors").strip(".").split(".") if step)
        if here[: len(bad)] == bad:
            return False
        if bad[: len(here)] == here:
            below = tuple("[]" if step.isdigit() else step for step in bad[len(here) :])
            if rule.reads is None or any(place[: len(below)] == below for place in rule.reads):
                return False
    return True


def naively(account: Account, problems: Sequence[Problem] = ()) -> set[tuple[str, str]]:
    broken = set()
    for rule in ALL:
        for path, value in places(account, rule.at.split(".") if rule.at else ()):
            if may_be_asked(rule, path, problems) and not (
                rule.holds(value, NOW) if rule.needs_now else rule.holds(value)
            ):
                shown = (*path, rule.field) if isinstance(value, msgspec.Struct | tuple) else path
                broken.add((".".join(map(str, shown)), rule.code))
    return broken


WHOLE = make.an_account()
PATHS = sorted((path for path in make.places(WHOLE)[1:] if path != ("import_supplier",)), key=str)
TEXTS = (
    "", "x", "0", "12.30", "-1", "2020-02-30", "1999-12-31", "2031-01-01", "2026-11-21T00:00:00+01:00", "DE00",
    "a@b.de", "+49301234567", "ELECTRICITY", "GAS",
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.sampled_from([*TEXTS, 0, 1, 10**12, True, None, [], {}, [{}]])
CHANGES = st.lists(st.tuples(st.sampled_from(PATHS), VALUES), max_size=8)


@settings(max_examples=EXAMPLES)
@given(CHANGES)
def test_the_compiled_rules_say_what_a_naive_walk_says(changes: list[tuple[Steps, Any]]) -> None:
    account = read_submission(make.encoded(make.changed_where_there(WHOLE, changes))).account
    breaches = BOOK.breaches(account, NOW)
    assert len(breaches) < MAX_PROBLEMS
    assert {(breach.problem.attr, breach.problem.code) for breach in breaches} == naively(account)


@settings(max_examples=EXAMPLES)
@given(CHANGES)
def test_they_also_agree_where_some_places_are_problems_already(changes: list[tuple[Steps, Any]]) -> None:
    submission = read_submission(make.encoded(make.changed_where_there(WHOLE, changes)))
    shape_errors = submission.shape_errors
    breaches = BOOK.breaches(submission.account, NOW, shape_errors)
    expected = naively(submission.account, shape_errors)
    assert {(breach.problem.attr, breach.problem.code) for breach in breaches} == expected


class Item(Wire, frozen=True):
    wrong: int = 0


class Many(Wire, frozen=True):
    items: tuple[Item, ...] = ()


def rule(number: int, severity: Severity = Severity.ERROR) -> Rule:
    """Broken by each item that has more wrong than this."""
    says = Sentence("Something is wrong.", "Etwas ist falsch.")
    return Rule(
        code=f"c{number}",
        at="items[].wrong",
        holds=lambda wrong: wrong <= number,
        says=says,
        source="here",
        severity=severity,
    )


def many(*wrong: int) -> Many:
    return Many(items=tuple(Item(wrong=n) for n in wrong))


@pytest.mark.parametrize("severity", Severity)
@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_of_each_severity_so_many_are_listed_and_the_others_are_counted(more: int, severity: Severity) -> None:
    [other] = set(Severity) - {severity}
    book = RuleBook([rule(0, severity), rule(1, other)])
    breaches = book.breaches(many(*[1] * (MAX_PROBLEMS + more), 2), NOW)
    listed = [breach for breach in breaches if breach.severity is severity and not isinstance(breach.problem, LeftOut)]
    assert len(listed) == min(MAX_PROBLEMS, MAX_PROBLEMS + more + 1)
    assert [breach.problem.code for breach in breaches if breach.severity is other] == ["c1"]
    counted = [breach for breach in breaches if isinstance(breach.problem, LeftOut)]
    assert counted == ([Breach(left_out(more + 1), severity)] if more >= 0 else [])


@pytest.mark.parametrize(
    "besides", [[], [Problem("elsewhere", "invalid", "No.")]], ids=["alone", "beside a shape error"]
)
def test_asking_ends_when_it_takes_too_long_and_the_answer_is_not_full_by_then(besides: list[Problem]) -> None:
    """The clock is looked at before the 64th item."""
    book = RuleBook([rule(number) for number in range(16)])
    before = [16] * 62 + [MAX_PROBLEMS - 16 * 62]
    with pytest.raises(TooMuchWork):
        book.breaches(many(*before, 1, 1), NOW, besides, within_s=-1)
    before[-1] += 1
    breaches = book.breaches(many(*before, 1, 1), NOW, besides, within_s=-1)
    assert len(breaches) == MAX_PROBLEMS + 1
    assert book.breaches(many(*[0] * 63), NOW, besides, within_s=-1) == []
    with pytest.raises(TooMuchWork):
        book.breaches(many(*[0] * 64), NOW, besides, within_s=-1)
    assert book.breaches(many(*[0] * 64), NOW, besides) == []


def test_a_rule_over_a_whole_value_names_no_field() -> None:
    whole = msgspec.structs.replace(rule(0), at="", holds=lambda value: False)
    assert [breach.problem.attr for breach in RuleBook([whole]).breaches(many(), NOW)] == ["non_field_errors"]
    assert [*Severity] == ["error", "warning"]


def test_an_inlined_check_is_not_called() -> None:
    @inlined("{v} == 2")
    def holds(wrong: int) -> bool:
        raise AssertionError(wrong)

    book = RuleBook([msgspec.structs.replace(rule(0), holds=holds)])
    assert [breach.problem.attr for breach in book.breaches(many(1, 2), NOW)] == ["items.0.wrong"]


def test_no_rule_is_asked_of_what_stands_for_a_shape_error() -> None:
    seen: list[int] = []

    def noted(wrong: int) -> bool:
        seen.append(wrong)
        return False

    book = RuleBook([msgspec.structs.replace(rule(0), holds=noted)])
    shape_error = Problem("items.1.wrong", "invalid", "No.")
    assert [breach.problem.attr for breach in book.breaches(many(1, 2, 3), NOW, [shape_error])] == [
        "items.0.wrong",
        "items.2.wrong",
    ]
    assert seen == [1, 3]


def test_no_rule_is_asked_of_what_has_too_many_shape_errors_already() -> None:
    assert RuleBook([rule(0)]).breaches(many(1), NOW, [left_out(1)]) == []


@pytest.mark.parametrize(
    ("attr", "is_asked"),
    [
        ("non_field_errors", False),
        ("items", False),
        ("items.non_field_errors", False),
        ("items.0", False),
        ("items.0.wrong", False),
        ("items.1.wrong", True),
        ("others", True),
        (".".join(["items", "0", "wrong", *"x" * 30]), False),
    ],
)
def test_a_rule_is_not_asked_at_or_below_a_problem(attr: str, is_asked: bool) -> None:
    breaches = RuleBook([rule(0)]).breaches(many(1), NOW, [Problem(attr, "invalid", "No.")])
    assert bool(breaches) is is_asked
    undocumented = [Problem(attr, UNKNOWN_FIELD, "No.")]
    assert len(RuleBook([rule(0)]).breaches(many(1), NOW, undocumented)) == 1


def test_an_undocumented_field_hides_no_problem_that_follows() -> None:
    undocumented, problem = Problem("others", UNKNOWN_FIELD, "No."), Problem("items.0.wrong", "invalid", "No.")
    assert RuleBook([rule(0)]).breaches(many(1), NOW, [undocumented, problem]) == []
