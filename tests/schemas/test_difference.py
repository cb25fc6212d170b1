"""What differs between two bodies is named field by field, and applying it to one gives the other."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.difference import difference
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
