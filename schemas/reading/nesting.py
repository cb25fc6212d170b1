"""How deeply is a body nested? Counted without recursion, and in a body that fits its shape only where it may be deep.

What the shape describes has a few levels. Only its places for any JSON value can hold more, so a body that was read
is looked at there alone, which costs next to nothing.
"""

from collections.abc import Callable, Iterator
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
    return _looking(wire_type)(value, levels)


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


@cache
def _looking(wire_type: type) -> Callable[[Any, int], bool]:
    """A function that looks at the places for any value, as source: of the names of fields in `schemas/` alone."""
    places, names = holders_of(wire_type, (inspect.AnyType, inspect.DictType)), {"is_shallow": is_shallow}
    lines = ["def look(v1, levels):", *_lines(places, 1, around=1), "    return True"]
    exec("\n".join(lines), names)  # noqa: S102 - see above
    look: Callable[[Any, int], bool] = names["look"]
    return look


def _lines(places: tuple[Holder, ...], depth: int, *, around: int) -> Iterator[str]:
    """What looks at these places of the variable of this depth, which stands in so many levels, its own among them.

    Most metadata are texts; what is absent is false.
    """
    inner = f"v{depth + 1}"
    for name, many, below in places:
        indent, place = "    " * depth, f"v{depth}.{name}"
        yield f"{indent}for {inner} in {place} or ():" if many else f"{indent}if {inner} := {place}:"
        if below:
            yield from _lines(below, depth + 1, around=around + many + 1)
        else:
            yield f"{indent}    if type({inner}) is not str and not is_shallow({inner}, levels - {around + many}):"
            yield f"{indent}        return False"
