"""Check of all decimal texts of a value with one match.

A decoder that checks each text while it reads is slower, because it looks up the method of the pattern for every text.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, UnsetType, inspect

from schemas.base import DECIMAL_PATTERN, DecimalText, Wire

T = TypeVar("T")
Field = tuple[str, Any] | tuple[str, Any, Any]
"""Name and type of a field, and its default if it has one."""
_SomeText = Annotated[str, Meta(min_length=1)]
"""Type of a decimal text that is checked later.

The text must not be empty, since an empty text would look like an absent text.
"""

_LINES = re.compile(r"(?:(?:-?+[0-9]{1,18}+(?:\.[0-9]{1,10}+)?+)?+\n)*+\Z")
"""Pattern of lines that are empty or a decimal of `DECIMAL_PATTERN`. A match never backtracks."""


@cache
def with_unchecked_decimals(wire_type: type[T]) -> type[T]:
    """Return a subclass of `wire_type` in which a decimal text, also in inner shapes, is any text that is not empty.

    A value that was read as this type must be checked with `are_decimals_valid`.
    """
    omits: bool = wire_type.__struct_config__.omit_defaults  # type: ignore[attr-defined]
    return derived(wire_type, lambda field: (field.name, retyped(field.type, _unchecked), field.default), omits=omits)


def derived(wire_type: type[T], change: Callable[[msgspec.structs.FieldInfo], Field], *, omits: bool) -> type[T]:
    """Return a subclass of `wire_type` with the fields that `change` returns; `omits` is `omit_defaults`."""
    return msgspec.defstruct(  # type: ignore[return-value]
        wire_type.__name__,
        [change(field) for field in msgspec.structs.fields(wire_type)],  # type: ignore[arg-type]
        bases=(wire_type,),
        frozen=True,
        kw_only=True,
        omit_defaults=omits,
    )


def _unchecked(hint: Any) -> Any:
    if hint == DecimalText:
        return _SomeText
    return with_unchecked_decimals(hint) if isinstance(hint, type) and issubclass(hint, Wire) else hint


def retyped(hint: Any, change: Callable[[Any], Any]) -> Any:
    """Return a type in which each part is replaced by the result of `change`."""
    if (changed := change(hint)) is not hint:
        return changed
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(retyped(arguments[0], change), *hint.__metadata__)]
    if origin is tuple:
        return tuple.__class_getitem__((retyped(arguments[0], change), ...))
    if type(None) in arguments or UnsetType in arguments:
        return Union[tuple(retyped(argument, change) for argument in arguments)]  # noqa: UP007 - of types known at run time only
    return hint


def are_decimals_valid(value: Any, wire_type: type) -> bool:
    """Return whether every decimal text in a value of this shape has the form of a decimal. Empty texts are absent."""
    texts = [*_gathering(wire_type)(value), ""]  # the last line also needs a line end
    lines = "\n".join(texts)
    return lines.count("\n") == len(texts) - 1 and _LINES.match(lines) is not None


@cache
def _gathering(wire_type: type) -> Callable[[Any], list[str]]:
    """Compile a function that lists the decimal texts of a value, "" for absent texts, from the shape's field names."""
    node, names = inspect.type_info(wire_type), dict[str, Any]()
    assert isinstance(node, inspect.StructType)
    lines = ["def gather(v1):", "    texts = []", *_reading(node, 1), "    return texts"]
    exec("\n".join(lines), names)  # noqa: S102 - source of names of fields in `schemas/` alone
    gather: Callable[[Any], list[str]] = names["gather"]
    return gather


def _reading(node: inspect.StructType, depth: int) -> Iterator[str]:
    """Yield the source lines that read the texts of the variable at a depth, and of the variables below it."""
    indent, here, inner = "    " * depth, f"v{depth}", f"v{depth + 1}"
    if own := "".join(f"{here}.{field.name} or '', " for field in node.fields if any(map(_is_decimal, _kinds(field)))):
        yield f"{indent}texts += ({own})"
    for field in node.fields:
        expression = f"{here}.{field.name}"
        for kind in _kinds(field):
            match kind:
                case inspect.VarTupleType(item_type=item) if _is_decimal(item):
                    yield f"{indent}texts += {expression}"
                case inspect.StructType() if below := list(_reading(kind, depth + 1)):
                    yield from (f"{indent}if {inner} := {expression}:", *below)
                case inspect.VarTupleType(item_type=inspect.StructType() as item) if below := list(
                    _reading(item, depth + 1)
                ):
                    yield from (f"{indent}for {inner} in {expression}:", *below)
                case _:
                    pass


def _kinds(field: inspect.Field) -> tuple[inspect.Type, ...]:
    return field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)


def _is_decimal(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StrType) and kind.pattern == DECIMAL_PATTERN
