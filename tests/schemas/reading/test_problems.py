"""The problems of any body fit into an answer, and further ones are counted."""

import json
from typing import Any

import pytest

from api.http.errors import NotValid, tree_of
from api.http.languages import JSON
from schemas.account import Account
from schemas.base import Problem
from schemas.reading.problems import MAX_PROBLEMS, MAX_STEP, LeftOut, UnknownLeftOut, attr_of, bounded, is_truncated
from schemas.reading.shape import Shape
from schemas.reading.work import MAX_VALUES, TooMuchWork
from schemas.sentence import Sentence
from tests.support.make import an_account, encoded

ACCOUNT = Shape(Account)
LARGE = MAX_VALUES + 10_000


def shape_errors_of(body: dict[str, Any] | bytes) -> list[Problem]:
    return list(ACCOUNT.examine(body if isinstance(body, bytes) else encoded(body))[1])


@pytest.mark.promise("judging-stops-when-answer")
def test_as_many_problems_as_an_answer_lists_are_all_listed() -> None:
    problems = [Problem(f"x{n}", "invalid", "No.") for n in range(MAX_PROBLEMS)]
    assert bounded(problems) == problems
    assert not is_truncated(problems)


@pytest.mark.promise("judging-stops-when-answer")
def test_the_last_entry_says_how_many_problems_are_left_out() -> None:
    listed = bounded(Problem(f"x{n}", "invalid", "No.") for n in range(MAX_PROBLEMS + 500))
    assert len(listed) == MAX_PROBLEMS
    assert listed[-1] == LeftOut("non_field_errors", "errors_truncated", "501 further problems are not listed.", 501)
    assert is_truncated(listed)
    assert bounded([*listed, Problem("y", "invalid", "No.")])[-1] == LeftOut(
        "non_field_errors", "errors_truncated", "502 further problems are not listed.", 502
    )


@pytest.mark.promise("nearest-name-looked-up")
def test_every_unknown_name_is_counted_and_only_the_first_are_compared() -> None:
    problems = shape_errors_of(an_account() | {f"custome{n}": 1 for n in range(20_000)})
    assert len(problems) == MAX_PROBLEMS + 1
    assert isinstance(problems[-1], UnknownLeftOut)
    assert problems[-1].left_out == 19_000
    assert sum("Did you mean" in problem.detail for problem in problems) == 20


def test_undocumented_names_take_no_room_from_other_problems() -> None:
    problems = shape_errors_of({f"name{n}": 1 for n in range(5_000)} | {"customers": [5] * 3})
    assert {"import_supplier", "customers.0", "customers.2"} <= {p.attr for p in problems}


@pytest.mark.promise("repeated-names-obey-limit")
def test_repeated_names_obey_the_limit_of_problems() -> None:
    problems = shape_errors_of(b"{" + b",".join(b'"n%d":1,"n%d":1' % (n, n) for n in range(5_000)) + b"}")
    assert sum(problem.code == "repeated_field" for problem in problems) == MAX_PROBLEMS
    assert len(bounded(problems)) == MAX_PROBLEMS


@pytest.mark.slow
@pytest.mark.parametrize("items", [b"1", b"[]", b'"a"', b"1.5"])
def test_a_body_with_too_many_values_of_its_own_is_refused(items: bytes) -> None:
    with pytest.raises(TooMuchWork):
        ACCOUNT.examine(b'{"metadata":[' + b",".join([items] * LARGE) + b"]}")


@pytest.mark.promise("keys-paths-cut-looks")
def test_long_names_are_cut_in_paths() -> None:
    assert attr_of(("metadata", "0", "n" * 1_000)) == f"metadata.0.{'n' * (MAX_STEP - 1)}…"
    assert len(attr_of(["n" * 60] * 60)) == 512
    assert attr_of(()) == "non_field_errors"
    [problem] = shape_errors_of(an_account() | {"x" * 100_000: 1})
    assert len(problem.attr) == MAX_STEP


@pytest.mark.promise("list-tree-together-2")
@pytest.mark.parametrize("name", ["n" * 90, "\x01" * 90, "ü" * 90, "." * 90, "a." * 40, '"' * 90])
def test_an_answer_has_two_megabytes_at_most(name: str) -> None:
    problems = shape_errors_of({f"{n}{name}": 1 for n in range(5_000)})
    refusal = NotValid("x", Sentence("x", "x"), [*problems, *problems])
    body = tree_of(refusal.problems) | {"errors": refusal.problems}
    assert all(len(encoder.encode(body)) < 2_000_000 for encoder in JSON.values())


@pytest.mark.promise("undocumented-names-look-like")
def test_a_name_that_looks_like_a_path_below_another_has_its_place_in_the_tree() -> None:
    for names in (["x", "x.non_field_errors.y"], ["x.non_field_errors.y", "x"], ["x.y", "x", "x.non_field_errors"]):
        tree = tree_of([Problem(name, "unknown_field", name) for name in names])
        assert all(json.dumps(name) in json.dumps(tree) for name in names)


@pytest.mark.slow
def test_a_body_with_too_many_values_is_refused_by_what_its_names_say() -> None:
    body = b"{" + b",".join(b'"a%d":1' % n for n in range(MAX_VALUES + 10)) + b"}"
    first, *others = shape_errors_of(body)
    assert (first.attr, first.code) == ("non_field_errors", "max_length")
    assert others[0] == Problem("a0", "unknown_field", "This field is not documented and must be left out.")
    assert isinstance(others[-1], LeftOut)
