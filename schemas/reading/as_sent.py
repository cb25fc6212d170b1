"""Wire shapes that tell what was sent from what is absent, so that what was read can be written as it was sent.

A shape gives an absent field its default, and what was sent then looks the same. The shapes made here put something in
its place that is as empty, and still another object: written without such defaults, a value has the names that were
sent and no others. They are made for judging; what is created is read as the shapes themselves.
"""

import hashlib
import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType

from schemas.base import Wire
from schemas.reading.nesting import is_read_shallow
from schemas.reading.shape import LARGE_BYTES, Shape, exact_number
from system.steps import Steps, to_the_end

T = TypeVar("T")


class _NoText(str):
    """An absent text."""


class _NoItems(tuple[Any, ...]):
    """An absent array."""


NO_TEXT, NO_ITEMS = _NoText(), _NoItems()


Field = tuple[str, Any] | tuple[str, Any, Any]
"""Name and type of a field, and its default where it has one."""


@cache
def as_sent(wire_type: type[T]) -> type[T]:
    """Return the shape below `wire_type`, and so of its fields, in which what is absent is an object of its own."""
    return msgspec.defstruct(  # type: ignore[return-value]
        wire_type.__name__,
        [_field(field) for field in msgspec.structs.fields(wire_type)],  # type: ignore[arg-type]
        bases=(wire_type,),
        module=wire_type.__module__,
        frozen=True,
        kw_only=True,
        gc=False,
        forbid_unknown_fields=True,
        omit_defaults=True,
    )


def _field(field: msgspec.structs.FieldInfo) -> Field:
    sent = _retyped(field.type)
    match field.default:
        case default if default is NODEFAULT:
            return field.name, sent
        case "":
            return field.name, sent, NO_TEXT
        case ():
            return field.name, sent, NO_ITEMS
        case _:
            return field.name, Union[sent, UnsetType], UNSET  # noqa: UP007 - of types that are known at run time only


def _retyped(hint: Any) -> Any:
    """The type with the shapes in it replaced."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Wire):
        return as_sent(hint)
    if origin is Annotated:
        return Annotated[(_retyped(arguments[0]), *arguments[1:])]
    if origin is tuple:
        return tuple.__class_getitem__((_retyped(arguments[0]), ...))
    if type(None) in arguments or UnsetType in arguments:
        return Union[tuple(map(_retyped, arguments))]  # noqa: UP007 - of types known at run time only
    return hint


class SentShape(Generic[T]):
    """Reads a body at once as what was sent, where it can be told that nothing of it was lost."""

    def __init__(self, wire_type: type[T]) -> None:
        self.shape: Shape[T] = Shape(as_sent(wire_type))  # type: ignore[arg-type]
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(self.shape.wire_type, float_hook=exact_number).decode

    def at_once(self, body: bytes) -> T | None:
        """`at_once_in_steps`, to the end, without a digest."""
        read = to_the_end(self.at_once_in_steps(body))
        return read[0] if read is not None else None

    def at_once_in_steps(self, body: bytes, *, with_digest: bool = False) -> Steps[tuple[T, bytes] | None]:
        """What the body says, and the SHA-256 of its canonical form, b"" where that is not asked for.

        None where reading it takes the exact way, or where it does not fit.

        A name that an object repeats is lost in reading, with its value and its quotes, so quotes are counted. Only one
        other thing makes their number smaller, a number that was sent as text, and one makes it larger: a quote that
        was sent as its code. A null character, which is refused, can be sent in no other way.
        """
        if len(body) > LARGE_BYTES or (b"\\" in body and _QUOTE_OR_NULL.search(body) is not None):
            return None
        try:
            sent = self._decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        yield
        if not is_read_shallow(sent, self.shape.wire_type):
            return None
        yield
        written = _canonical.encode(sent)
        if written.count(b'"') != body.count(b'"'):
            return None
        return sent, hashlib.sha256(written).digest() if with_digest else b""


_QUOTE_OR_NULL = re.compile(rb"\\u00(?:22|00)")
_canonical = msgspec.json.Encoder(order="deterministic", decimal_format="number")
canonical_json: Callable[[Any], bytes] = _canonical.encode
"""The same bytes for the same content, however it was spelt: names in the order of the shape, and those of the
importer's own objects sorted; numbers in their scale; nothing that is absent."""
