"""A name that an object gives twice is found at its place, and nothing else is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.account import Account
from schemas.base import Problem
from schemas.reading.duplicate_names import repeated_names, repeats_names
from schemas.reading.shape import Shape, untyped
from schemas.reading.work import TooMuchWork
from schemas.submission import stored_submission
from tests.support.make import an_account, encoded
from tests.support.strategies import JSON


@given(JSON, st.booleans())
def test_what_a_writer_writes_repeats_nothing(value: object, is_ascii: bool) -> None:
    body = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    if b"\xed" not in body and "\\ud" not in body.decode("utf-8", "replace"):
        assert not repeats_names(body, untyped(body))
        assert repeated_names(body) == []


@pytest.mark.parametrize(
    ("body", "places"),
    [
        (b'{"a": 1, "a": 2}', ["a"]),
        (b'{"a" : 1, "b": 2, "\\u0061" : 2}', ["a"]),
        (b'[{"a": {"b:c": 1, "b:c": [1, 2]}}]', ["0.a.b:c"]),
        (b'{"a": {"x": 1}, "a": {"x": 1, "x": 2}}', ["a", "a.x"]),
        (b'{"n": 1e999, "n": -1e-999}', ["n"]),
        (b'{"x": [1, [2, 3], {"a": 1, "a": 2}, {"b": [{}, {"c": 1, "c": 2}]}]}', ["x.2.a", "x.3.b.1.c"]),
        (b'[[1, 2], {"a": 1, "a": 2, "a": 3, "b": 4, "b": 5}]', ["1.a", "1.b"]),
        (b'{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}, {"a\\/b": 1, "a/b": 2}]}', ["b.2.a/b"]),
        (b'{"a": "\\u003a", "a": 2}', ["a"]),
        (b'{"a": "\\\\u003a", "a": ":"}', ["a"]),
        (b'{"\\u003A": "\\\\\\u003a", ":": 2}', [":"]),
    ],
)
def test_a_repeated_name_is_found(body: bytes, places: list[str]) -> None:
    assert repeats_names(body, untyped(body))
    assert [problem.attr for problem in repeated_names(body)] == places


def test_an_account_that_repeats_a_field_is_a_misfit() -> None:
    account = encoded(an_account())
    body = account.replace(b'"family_name":', b'"family_name":"Lost","family_name":', 1)
    read, misfits = Shape(Account).examine(body)
    assert read.customers
    expected = Problem("customers.0.family_name", "repeated_field", "This field must not be given twice in one object.")
    assert list(misfits) == [expected]
    assert Shape(Account).examine(account)[1] == ()


@pytest.mark.parametrize(
    "text", ["\\u003a", "\\u003A:", "\\\\u003a", "\\\\\\u003a", "\\\\\\\\u003a\\u003a", "\\u0030\\u003b"]
)
def test_a_colon_that_is_sent_as_its_code_repeats_nothing(text: str) -> None:
    body = f'{{"{text}": ["{text}", {{"a": "{text}"}}]}}'.encode()
    assert not repeats_names(body, untyped(body))


def test_a_lost_value_is_refused_where_its_name_is_not_found_in_time() -> None:
    with pytest.raises(TooMuchWork):
        repeated_names(b'{"a":1,"a":2}', within_s=-1)
    body = encoded(an_account())[:-1] + b',"notes":[],"notes":[]}'
    assert stored_submission(body).account.notes == ()
