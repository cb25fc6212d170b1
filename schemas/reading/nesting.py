"""How deeply is a body nested? Counted without recursion, and in a body that fits its shape only where it may be deep.

What the shape describes has a few levels. Only its places for any JSON value can hold more, so a body that was read
is looked at there alone, which costs next to nothing.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from msgspec import inspect

from schemas.reading.misfits import MAX_DEPTH

_HOLDING = frozenset({dict, list})


def is_shallow(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Walks level by level, so that no input can exhaust the stack."""
    if levels > 0 and type(value) is dict and _HOLDING.isdisjoint(map(type, value.values())):
        return True  # as most are
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
    """The same of a body that was read as its shape: true when it has so many levels at most, its own among them."""
    return _are_shallow(value, holders_of(wire_type, (inspect.AnyType, inspect.DictType)), levels - 1)


def _are_shallow(value: Any, places: tuple["Holder", ...], levels: int) -> bool:
    """The same of what stands at these places of a value. Most metadata are texts; what is absent is false."""
    for name, many, below in places:
        inner = getattr(value, name)
        for item in (inner or ()) if many else (inner,):
            if below:
                if item and not _are_shallow(item, below, levels - many - 1):
                    return False
            elif type(item) in _HOLDING and not is_shallow(item, levels - many):
                return False
    return True


class Holder(NamedTuple):
    """A field that holds a value of the kinds that are looked for, or something that does; `many`: an array of such."""

    name: str
    many: bool
    below: tuple["Holder", ...]
    """Empty where such a value stands."""


@cache
def holders_of(wire_type: type, kinds: tuple[type[inspect.Type], ...]) -> tuple[Holder, ...]:
    """Where values of these kinds stand in a shape."""
    node = inspect.type_info(wire_type)
    assert isinstance(node, inspect.StructType)
    return tuple(place for field in node.fields for place in _places(field.type, field.name, kinds))


def _places(
    node: inspect.Type, name: str, kinds: tuple[type[inspect.Type], ...], *, many: bool = False
) -> Iterator[Holder]:
    match node:
        case _ if isinstance(node, kinds):
            yield Holder(name, many, ())
        case inspect.UnionType(types=types):
            for member in types:
                yield from _places(member, name, kinds)
        case inspect.VarTupleType(item_type=item):
            yield from _places(item, name, kinds, many=True)
        case inspect.StructType(cls=cls):
            if below := holders_of(cls, kinds):
                yield Holder(name, many, below)
        case _:
            pass
