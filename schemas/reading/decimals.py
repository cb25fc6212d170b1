"""Numbers of a body, with all their digits; and decimal texts, looked at together once it is read.

To look at each while it is read takes as long as to read all the rest: the decoder asks for a pattern's method by its
name each time.
"""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, inspect

from schemas.base import DECIMAL, DECIMAL_PATTERN, DecimalText
from schemas.reading.derived import Field, derived, is_shape, retyped
from schemas.reading.gathering import gathering
from schemas.reading.nesting import Holder, holders_of

T = TypeVar("T")

_FOR_GOOD = DECIMAL.replace("?", "?+").replace("}", "}+").replace("(", "(?:")
"""DECIMAL without ever going back, which finds the same: no character can stand in two places of a decimal."""
_lines = re.compile(rf"(?:(?:{_FOR_GOOD})?+\n)*+\Z").match
SomeText = Annotated[str, Meta(min_length=1)]
"""A text of any form, which is not empty: that would be taken for one that is absent."""


def exact_number(text: str) -> Decimal:
    """A JSON number with a fraction or an exponent, as decoders ask for it; what they raise is their own.

    Raises ValueError for an exponent that no Decimal can have.
    """
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError("Number out of range") from None


def number_texts(value: dict[str, Any], wire_type: type) -> Iterator[str]:
    """The texts that a body, read without its shape, gives where the shape asks for numbers; it fits the shape.

    They have to be looked at: the library takes `1_0`, `sNaN`, blanks around a number and digits of all scripts.
    """
    return _texts_at(value, holders_of(wire_type, (inspect.DecimalType,)))


def _texts_at(value: dict[str, Any], places: tuple[Holder, ...]) -> Iterator[str]:
    for name, many, below in places:
        inner = value.get(name)
        for item in inner or () if many else (inner,):
            if type(item) is str:
                yield item
            elif item is not None:
                yield from _texts_at(item, below)


@cache
def without_form(wire_type: type[T]) -> type[T]:
    """The shape below `wire_type`, and so of its fields, in which a decimal text is any text that is not empty."""
    omits_defaults: bool = wire_type.__struct_config__.omit_defaults  # type: ignore[attr-defined]
    return derived(wire_type, _field, omits_defaults=omits_defaults)


def _field(field: msgspec.structs.FieldInfo) -> Field:
    return field.name, retyped(field.type, _without_form), field.default


def _without_form(hint: Any) -> Any:
    if hint == DecimalText:
        return SomeText
    return without_form(hint) if is_shape(hint) else hint


def decimals_hold(value: Any, wire_type: type) -> bool:
    """Whether every decimal text has the form that this shape asks for, in a value that was read `without_form`.

    What is empty in it is absent.
    """
    texts = _gathering(wire_type)(value)
    texts.append("")  # the last line ends, too
    lines = "\n".join(texts)
    return lines.count("\n") == len(texts) - 1 and _lines(lines) is not None


@cache
def _gathering(wire_type: type) -> Callable[[Any], list[str]]:
    return gathering(wire_type, _is_decimal)


def _is_decimal(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StrType) and kind.pattern == DECIMAL_PATTERN
