"""A repeated name of an object is found with its path, and nothing else is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.account import Account
from schemas.base import Problem
from schemas.reading import duplicate_names, shape_errors
from schemas.reading.duplicate_names import has_larger_object, repeated_names, repeats_names
from schemas.reading.shape import NotJson, Shape, untyped
from schemas.reading.shape_errors import MAX_DEPTH
from schemas.reading.work import MAX_NAMES, MAX_VALUES, STORED_BOUNDS, TooMuchWork, Work
from schemas.submission import read_submission, stored_submission
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


def test_an_account_that_repeats_a_field_is_a_shape_error() -> None:
    account = encoded(an_account())
    body = account.replace(b'"family_name":', b'"family_name":"Lost","family_name":', 1)
    read, problems = Shape(Account).examine(body)
    assert read.customers
    detail = "Customers → family name must not be given twice in one object."
    expected = Problem("customers.0.family_name", "repeated_field", detail)
    assert list(problems) == [expected]
    assert Shape(Account).examine(account)[1] == ()


def an_object(names: int, item: bytes = b'"%x":1') -> bytes:
    return b"{" + b",".join(item % number for number in range(names)) + b"}"


@pytest.mark.parametrize("item", [b'"%x":1', b'"}%x{":[]', b'"\\"%x{\\\\":":"', b'"%x":{"a":"{"}'])
def test_names_of_an_object_are_counted_without_reading_it(item: bytes) -> None:
    body = b'{"a":[1,{"b":"}]{"},2],' + an_object(1_000, item)[1:]
    assert has_larger_object(body, 1_000)
    assert not has_larger_object(body, 1_001)
    assert not has_larger_object(b"[" + b",".join([body] * 5) + b"]", 1_001)


@pytest.mark.slow
def test_an_object_with_too_many_names_is_refused_before_it_is_read() -> None:
    names = an_object(MAX_NAMES, b'"%x":[]')
    body = b'{"metadata":[{"key":"k","value":' + names[:-1] + b',"one":1}}]}'
    assert body.count(b",") < MAX_VALUES
    with pytest.raises(TooMuchWork, match="objects and arrays"):
        read_submission(body)
    with pytest.raises(TooMuchWork, match="An object must have at most"):
        read_submission(body.replace(b"[]", b"1"))


@pytest.mark.parametrize(
    "text", ["\\u003a", "\\u003A:", "\\\\u003a", "\\\\\\u003a", "\\\\\\\\u003a\\u003a", "\\u0030\\u003b"]
)
def test_a_colon_that_is_sent_as_its_code_repeats_nothing(text: str) -> None:
    body = f'{{"{text}": ["{text}", {{"a": "{text}"}}]}}'.encode()
    assert not repeats_names(body, untyped(body))


def test_a_lost_value_is_refused_where_its_name_is_not_found_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the log was accepted, and is read as it was."""
    account = encoded(an_account())
    body = account[:-1] + b',"notes":[],"notes":[]}'
    monkeypatch.setattr(duplicate_names, "MAX_SCAN_S", -1.0)
    with pytest.raises(TooMuchWork):
        read_submission(body)
    assert read_submission(account).shape_errors == ()
    assert stored_submission(body).account.notes == ()


def test_names_are_remembered_while_their_object_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicate_names, "MAX_NAMES_IN_MEMORY", 3)
    body = b'{"a": [{"b": 1, "c": 2}, {"b": 1, "c": 2}, {"d": 1, "e": 2, "e": 3}]}'
    assert [problem.attr for problem in repeated_names(body)] == ["a.2.e"]
    assert repeated_names(body.replace(b'"d"', b'"d": 1, "f"')) == []


def test_a_name_that_is_not_remembered_is_lost_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicate_names, "MAX_NAMES_IN_MEMORY", 1)
    with pytest.raises(TooMuchWork):
        read_submission(encoded(an_account())[:-1] + b',"never":1,"never":2}')


@pytest.mark.parametrize("depth", [60, 64, 65, 2 * MAX_DEPTH, 980, 990, 1_000, 1_500, 3_000])
@pytest.mark.parametrize("level", [(b'{"x":', b"}"), (b"[", b"]")])
def test_a_lost_value_may_be_as_deep_as_any_other(depth: int, level: tuple[bytes, bytes]) -> None:
    """`depth` levels below the outermost object, whose name is repeated: reading keeps only the second value."""
    opening, closing = level
    body = b'{"a":' + opening * depth + b"1" + closing * depth + b',"a":1}'
    if depth <= 2 * MAX_DEPTH:
        assert Shape(Account).examine(body, STORED_BOUNDS)[1], "the log may have such bodies"
    if depth + 1 > MAX_DEPTH:
        with pytest.raises(NotJson) as refused:
            Shape(Account).examine(body)
        assert refused.value.detail == shape_errors.DEEP_BODY
    else:
        assert Problem("a", "repeated_field", shape_errors.REPEATED) in Shape(Account).examine(body)[1]


def test_the_scan_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the names that were found by then. The rest of the body is not read."""
    body = b'{"a":1,"a":2,' + b'"b":3,' * 10_000 + b'"c":4,"c":5}'
    assert [problem.attr for problem in repeated_names(body)] == ["a", "b", "c"]
    over = iter([False, True])
    monkeypatch.setattr(Work, "is_over", lambda self: next(over))
    assert [problem.attr for problem in repeated_names(body)] == ["a", "b"]
