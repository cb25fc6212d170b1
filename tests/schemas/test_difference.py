"""A difference names each changed field, and turns one body into the other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.difference import bounded_difference, difference
from schemas.reading.work import COMPARISON_BOUNDS, Bounds, TooMuchWork
from tests.support.strategies import JSON


def changes(before: Any, after: Any) -> list[tuple[str, str, Any, Any]]:
    found = difference(json.dumps(before).encode(), json.dumps(after).encode())
    return [(change.path, change.kind, change.before, change.after) for change in found]


def test_each_place_is_named_once() -> None:
    before = {"a": 1, "b": [1, {"c": "x"}], "gone": None}
    after = {"a": 1, "b": [2, {"c": "y"}, 3], "new": True}
    assert changes(before, after) == [
        ("b.0", "changed", 1, 2),
        ("b.1.c", "changed", "x", "y"),
        ("b.2", "added", None, 3),
        ("gone", "removed", None, None),
        ("new", "added", None, True),
    ]


def test_a_boolean_is_no_number() -> None:
    assert changes({"a": 1}, {"a": True}) == [("a", "changed", 1, True)]


@given(JSON.filter(lambda value: "\\ud" not in json.dumps(value)))
def test_a_body_does_not_differ_from_itself(value: Any) -> None:
    assert changes(value, value) == []


@given(st.dictionaries(st.sampled_from("abc"), st.integers()), st.dictionaries(st.sampled_from("abc"), st.integers()))
def test_the_changes_lead_from_one_to_the_other(before: dict[str, int], after: dict[str, int]) -> None:
    applied = dict(before)
    for path, kind, _, value in changes(before, after):
        if kind == "removed":
            del applied[path]
        else:
            applied[path] = value
    assert applied == after


LONG = {"k" * 200_000: {str(n): n for n in range(2_000)}}


def bounded(
    before: Any, after: Any, max_bytes: int = 2_000_000, bounds: Bounds = COMPARISON_BOUNDS
) -> list[dict[str, Any]]:
    answer = bounded_difference(json.dumps(before).encode(), json.dumps(after).encode(), bounds, max_bytes)
    assert len(answer) <= max_bytes
    return list(json.loads(answer))


@pytest.mark.promise("keys-paths-cut-looks")
def test_keys_in_paths_are_cut() -> None:
    [change] = difference(json.dumps({"k" * 100: 1}).encode(), json.dumps({"k" * 100: 2}).encode())
    assert change.path == "k" * 63 + "…"


@pytest.mark.promise("difference-between-two-payloads")
def test_a_difference_for_http_has_2_mb_and_says_how_much_is_left_out() -> None:
    """0.4 MB became 100 MB."""
    found = bounded(LONG, {name: dict.fromkeys(below, "x") for name, below in LONG.items()})
    assert len(found) == 2_000
    nested = {"k" * 70: {"k" * 70: {"k" * 70: {f"{n:06}" + "k" * 60: n for n in range(20_000)}}}}
    found = bounded(nested, {"k" * 70: {"k" * 70: {"k" * 70: {}}}})
    listed, end = found[:-1], found[-1]
    assert {change["kind"] for change in listed} == {"removed"}
    assert len(listed) > 1_000
    assert end == {"path": "", "kind": "left_out", "before": None, "after": None, "left_out": 20_000 - len(listed)}


def test_a_large_value_alone_is_left_out() -> None:
    found = bounded({"a": 1, "b": "x" * 3_000_000, "c": 1}, {"a": 2, "c": 2})
    assert [(change["path"], change["kind"]) for change in found] == [
        ("a", "changed"),
        ("c", "changed"),
        ("", "left_out"),
    ]
    assert found[-1]["left_out"] == 1


def test_a_small_difference_is_whole() -> None:
    assert bounded({}, {}) == []
    assert bounded({"a": 1}, {"a": 1.50}) == [{"path": "a", "kind": "changed", "before": 1, "after": 1.5}]


@pytest.mark.promise("difference-between-two-payloads")
def test_comparing_ends_when_it_takes_too_long() -> None:
    found = bounded({}, {str(n): n for n in range(1_000)}, bounds=Bounds(walk_s=-1))
    assert found == [{"path": "", "kind": "left_out", "before": None, "after": None, "left_out": None}]
    with pytest.raises(TooMuchWork):
        bounded({}, {"a": list(range(300_000))})
