"""Limit of the nesting of a body.

Shapes have few levels. Only fields for any JSON value can have more levels, so a body that was read as its shape is
checked only in these fields.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from msgspec import inspect

from schemas.reading.shape_errors import MAX_DEPTH

_HOLDING = frozenset({dict, list})


def is_shallow(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Return True if a value has at most this many levels. The walk goes level by level, to save the stack."""
    layer = [value] if type(value) in _HOLDING else []
    for _ in range(levels):
        if not layer:
            return True
        layer = [
            child
            for item in layer
            for child in (item.values() if isinstance(item, dict) else item)
            if type(child) is dict or type(child) is list
        ]
    return not layer


def is_read_shallow(value: Any, wire_type: type, levels: int = MAX_DEPTH) -> bool:
    """Return True if a value of a shape has at most a number of levels, including the levels of the shape."""
    return _are_shallow(value, holders_of(wire_type, (inspect.AnyType, inspect.DictType)), levels - 1)


def _are_shallow(value: Any, holders: tuple["Holder", ...], levels: int) -> bool:
    """Return True if the values in the fields `holders` have at most this many levels."""
    for name, many, below in holders:
        inner = getattr(value, name)
        for item in (inner or ()) if many else (inner,):
            if below:
                if item and not _are_shallow(item, below, levels - many - 1):
                    return False
            elif type(item) in _HOLDING and not is_shallow(item, levels - many):
                return False
    return True


class Holder(NamedTuple):
    """Field of a wanted type, or of an object with such fields (`below`).

    `many`: the field is an array of such values.
    """

    name: str
    many: bool
    below: tuple["Holder", ...]
    """Fields of the object with wanted types; empty for a value of a wanted type."""


@cache
def holders_of(wire_type: type, kinds: tuple[type[inspect.Type], ...]) -> tuple[Holder, ...]:
    """Return the fields of a shape with values of the wanted types."""
    node = inspect.type_info(wire_type)
    assert isinstance(node, inspect.StructType)
    return tuple(holder for field in node.fields for holder in _holders(field.type, field.name, kinds))


def _holders(
    node: inspect.Type, name: str, kinds: tuple[type[inspect.Type], ...], *, many: bool = False
) -> Iterator[Holder]:
    match node:
        case _ if isinstance(node, kinds):
            yield Holder(name, many, ())
        case inspect.UnionType(types=types):
            for member in types:
                yield from _holders(member, name, kinds)
        case inspect.VarTupleType(item_type=item):
            yield from _holders(item, name, kinds, many=True)
        case inspect.StructType(cls=cls):
            if below := holders_of(cls, kinds):
                yield Holder(name, many, below)
        case _:
            pass
