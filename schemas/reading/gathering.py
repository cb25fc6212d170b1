"""Texts of one kind in a value that fits its shape, listed by functions that are compiled from the shape.

To look at each text while it is read takes as long as to read all the rest; listed, all are looked at together.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import inspect

IsWanted = Callable[[inspect.Type], bool]
"""Whether a field of this type is looked for. What it has in the value is a text, or nothing."""


def gathering(wire_type: type, is_wanted: IsWanted) -> Callable[[Any], list[str]]:
    """A function that lists these texts of a value, "" where one is absent, as source: of the names of fields in
    `schemas/` alone."""
    node, names = inspect.type_info(wire_type), dict[str, Any]()
    assert isinstance(node, inspect.StructType)
    lines = ["def gather(v1):", "    texts = []", *_reading(node, is_wanted, 1), "    return texts"]
    exec("\n".join(lines), names)  # noqa: S102 - see above
    gather: Callable[[Any], list[str]] = names["gather"]
    return gather


def _reading(node: inspect.StructType, is_wanted: IsWanted, depth: int) -> Iterator[str]:
    """What reads the texts of the variable of this depth, and those below it."""
    indent, here, inner = "    " * depth, f"v{depth}", f"v{depth + 1}"
    if own := "".join(_read(here, field, is_wanted) for field in node.fields):
        yield f"{indent}texts += ({own})"
    for field in node.fields:
        place = f"{here}.{field.name}"
        for kind in _kinds(field):
            match kind:
                case inspect.VarTupleType(item_type=item) if is_wanted(item):
                    yield f"{indent}texts += {place}"
                case inspect.StructType() if below := list(_reading(kind, is_wanted, depth + 1)):
                    yield from (f"{indent}if {inner} := {place}:", *below)
                case inspect.VarTupleType(item_type=inspect.StructType() as item) if below := list(
                    _reading(item, is_wanted, depth + 1)
                ):
                    yield from (f"{indent}for {inner} in {place}:", *below)
                case _:
                    pass


def _read(here: str, field: inspect.Field, is_wanted: IsWanted) -> str:
    """An item of a tuple, if the field is wanted: its text, empty where it is absent or null."""
    if not any(map(is_wanted, _kinds(field))):
        return ""
    is_text = isinstance(field.type, inspect.StrType) and (field.required or isinstance(field.default, str))
    return f"{here}.{field.name}, " if is_text else f"{here}.{field.name} or '', "


def _kinds(field: inspect.Field) -> tuple[inspect.Type, ...]:
    return field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
