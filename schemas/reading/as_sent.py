"""Wire shapes that distinguish sent fields from absent fields, to write a body with exactly the sent names.

Other shapes give an absent field a default that looks like a sent value. The shapes of this module use special empty
objects as defaults, and leave fields with these objects out when a value is written. The check of a submission
(`market.submission_check`) reads bodies as shapes of this module. Workers read bodies as the original shapes.
"""

import hashlib
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar, Union

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType

from schemas.base import Wire
from schemas.reading.decimals import Field, are_decimals_valid, derived, retyped, with_unchecked_decimals
from schemas.reading.nesting import is_read_shallow
from schemas.reading.shape import LARGE_BYTES, Shape, exact_number
from system.steps import Steps

T = TypeVar("T")


class _NoText(str):
    """Default of an absent text."""


class _NoItems(tuple[Any, ...]):
    """Default of an absent array."""


NO_TEXT, NO_ITEMS = _NoText(), _NoItems()


@cache
def as_sent(wire_type: type[T]) -> type[T]:
    """Return a subclass of `wire_type` whose fields, and fields of inner shapes, have special objects as defaults."""
    return derived(wire_type, _field, omits=True)


def _field(field: msgspec.structs.FieldInfo) -> Field:
    sent = retyped(field.type, _sent)
    match field.default:
        case default if default is NODEFAULT:
            return field.name, sent
        case "":
            return field.name, sent, NO_TEXT
        case ():
            return field.name, sent, NO_ITEMS
        case _:
            return field.name, Union[sent, UnsetType], UNSET  # noqa: UP007 - of types that are known at run time only


def _sent(hint: Any) -> Any:
    return as_sent(hint) if isinstance(hint, type) and issubclass(hint, Wire) else hint


class SentShape(Generic[T]):
    """Fast reader of bodies, which keeps exactly what was sent.

    It returns None for bodies of which it would lose a part, and which `Shape.examine` must read.
    """

    def __init__(self, wire_type: type[T]) -> None:
        self.shape: Shape[T] = Shape(as_sent(wire_type))  # type: ignore[arg-type]
        unchecked: type[T] = with_unchecked_decimals(self.shape.wire_type)  # type: ignore[arg-type]
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(unchecked, float_hook=exact_number).decode

    def decode_in_steps(self, body: bytes, *, with_digest: bool) -> Steps[tuple[T, bytes] | None]:
        """Return the value of the body and the SHA-256 of its canonical form (b"" if not `with_digest`).

        Return None if the body does not fit, or if `Shape.examine` must read it. Because a decoder drops all except the
        last value of a repeated name, the value is written again: if the written text has fewer quotes than the body, a
        name was dropped, or a number was sent as text. Bodies with quotes or null characters as Unicode escapes return
        None, since such escapes would change the count.
        """
        if len(body) > LARGE_BYTES or (b"\\" in body and _QUOTE_OR_NULL.search(body) is not None):
            return None
        try:
            sent = self._decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        yield
        if not (is_read_shallow(sent, self.shape.wire_type) and are_decimals_valid(sent, self.shape.wire_type)):
            return None
        yield
        written = _canonical.encode(sent)
        if written.count(b'"') != body.count(b'"'):
            return None
        return sent, hashlib.sha256(written).digest() if with_digest else b""


_QUOTE_OR_NULL = re.compile(rb"\\u00(?:22|00)")
_canonical = msgspec.json.Encoder(order="deterministic", decimal_format="number")
canonical_json: Callable[[Any], bytes] = _canonical.encode
"""Encode a value to the same bytes for the same content.

Documented names have the order of the shape, names in free content are sorted, numbers keep their scale, and absent
fields are left out.
"""
