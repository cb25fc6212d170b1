"""The compiled rules say what a naive walk over the rows says, on whole and on broken accounts."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from market import RULES, Rule
from market.rule import RuleBook
from schemas.account import Account
from schemas.base import Problem
from schemas.problems import MAX_PROBLEMS, UNKNOWN_FIELD
from schemas.shape import derived_checks
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded

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


def leaves(value: Any, path: Steps = ()) -> Iterator[Steps]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in children:
        yield (*path, name)
        yield from leaves(inner, (*path, name))


WHOLE = an_account()
PATHS = sorted((path for path in leaves(WHOLE) if path != ("import_supplier",)), key=str)
TEXTS = (
    "", "x", "0", "12.30", "-1", "2020-02-30", "1999-12-31", "2031-01-01", "2026-11-21T00:00:00+01:00", "DE00",
    "a@b.de", "+49301234567", "ELECTRICITY", "GAS",
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.sampled_from([*TEXTS, 0, 1, 10**12, True, None, [], {}, [{}]])
CHANGES = st.lists(st.tuples(st.sampled_from(PATHS), VALUES), max_size=8)


def account_with(changes: Sequence[tuple[Steps, Any]]) -> Any:
    account: Any = WHOLE
    for path, value in changes:
        try:
            account = changed(account, value, *path)
        except (KeyError, IndexError, TypeError):  # the place went with what stood above it
            continue
    return account


@settings(max_examples=EXAMPLES)
@given(CHANGES)
def test_the_compiled_rules_say_what_a_naive_walk_says(changes: list[tuple[Steps, Any]]) -> None:
    account = read_submission(encoded(account_with(changes))).account
    said = BOOK.breaches(account, NOW)
    assert len(said) < MAX_PROBLEMS
    assert {(one.problem.attr, one.problem.code) for one in said} == naively(account)


@settings(max_examples=EXAMPLES)
@given(CHANGES)
def test_they_also_agree_where_some_places_are_problems_already(changes: list[tuple[Steps, Any]]) -> None:
    submission = read_submission(encoded(account_with(changes)))
    misfits = submission.misfits
    said = BOOK.breaches(submission.account, NOW, misfits)
    expected = naively(submission.account, misfits)
    assert {(one.problem.attr, one.problem.code) for one in said} == expected
