"""No body is nested deeper than the limit, whether it fits its shape or not, bare or wrapped."""

from typing import Any

import msgspec
import pytest

from schemas.base import AnyJson, Wire
from schemas.reading.nesting import is_read_shallow, is_shallow
from schemas.reading.shape import NotJson
from schemas.reading.shape_errors import DEEP_BODY, MAX_DEPTH
from schemas.submission import read_submission, sent_submission, stored_submission
from tests.support.make import an_account, changed, encoded

PARAMS = ("supply_addresses", 0, "supply_points", 0, "agreements", 0, "params")
PLACES: list[tuple[tuple[str | int, ...], int, bool]] = [
    (("metadata", 0, "value"), 3, False),
    (("metadata", 0, "value"), 3, True),
    ((*PARAMS, "network_charges"), 8, True),
]
"""Places for any JSON value, the levels around what stands there, and whether that is an object."""


def nested(levels: int, *, objects: bool = False) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if objects else [value, 1]
    return value


@pytest.mark.parametrize("shape_error", [{}, {"sales_channel": 5}, {"not_documented": 1}], ids=str)
@pytest.mark.parametrize(("path", "around", "objects"), PLACES)
def test_a_body_is_nested_so_deep_at_most(
    path: tuple[str | int, ...], around: int, objects: bool, shape_error: dict[str, Any]
) -> None:
    for wrapper, read in ((0, read_submission), (0, sent_submission), (1, read_submission), (1, sent_submission)):

        def body(levels: int, wrapper: int = wrapper) -> bytes:
            account = changed(an_account(), nested(levels - around - wrapper, objects=objects), *path) | shape_error
            return encoded({"payload": account} if wrapper else account)

        assert len(read(body(MAX_DEPTH)).shape_errors) == len(shape_error)
        with pytest.raises(NotJson) as refused:
            read(body(MAX_DEPTH + 1))
        assert refused.value.detail == DEEP_BODY
        assert len(stored_submission(body(MAX_DEPTH + 8)).shape_errors) == len(shape_error)


def test_depth_is_counted_in_objects_and_arrays() -> None:
    assert is_shallow(nested(MAX_DEPTH))
    assert not is_shallow(nested(MAX_DEPTH + 1))
    assert is_shallow({"a": 1}, 1)
    assert not is_shallow({"a": []}, 1)
    assert is_shallow({"a": []}, 2)
    assert is_shallow([[], {}], 2)
    assert not is_shallow([{"a": {}}], 2)
    assert is_shallow(1, 0)
    assert not is_shallow({}, 0)
    assert not is_shallow([], 0)
    assert not is_shallow({}, -1), "it stands deeper than is allowed already"


class Inner(Wire, frozen=True):
    any: AnyJson = None


class Outer(Wire, frozen=True):
    text: str = ""
    one: Inner | None = None
    many: tuple[Inner, ...] = ()
    values: tuple[AnyJson, ...] = ()


@pytest.mark.parametrize(
    ("sent", "levels"),
    [
        ({}, 1),
        ({"one": None}, 1),
        ({"one": {"any": "x"}}, 1),
        ({"one": {"any": [0]}}, 3),
        ({"one": {"any": {"a": {}}}}, 4),
        ({"many": [{"any": 1}, {"any": [[]]}]}, 5),
        ({"values": [1, [[]]]}, 4),
        ({"values": [[[]], 1], "one": {"any": [[[]]]}}, 5),
    ],
)
def test_what_was_read_has_the_levels_that_were_sent(sent: dict[str, Any], levels: int) -> None:
    """Levels of the shape itself count where something deep can stand below them."""
    read = msgspec.convert(sent, Outer)
    assert is_read_shallow(read, Outer, levels)
    if levels > 1:
        assert is_shallow(sent, levels)
        assert not is_shallow(sent, levels - 1)
        assert not is_read_shallow(read, Outer, levels - 1)
