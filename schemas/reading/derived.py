"""Shapes that are derived from shapes: the same names, other types or other defaults."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

from schemas.base import Wire

T = TypeVar("T")
Field = tuple[str, Any] | tuple[str, Any, Any]
"""Name and type of a field, and its default where it has one."""


def derived(
    wire_type: type[T], field: Callable[[msgspec.structs.FieldInfo], Field], *, omits_defaults: bool = False
) -> type[T]:
    """A shape below `wire_type` whose fields are what `field` makes of each."""
    fields = msgspec.structs.fields(wire_type)  # type: ignore[arg-type]
    return msgspec.defstruct(  # type: ignore[return-value]
        wire_type.__name__,
        [field(one) for one in fields],
        bases=(wire_type,),
        module=wire_type.__module__,
        frozen=True,
        kw_only=True,
        gc=False,
        forbid_unknown_fields=True,
        omit_defaults=omits_defaults,
    )


def retyped(hint: Any, change: Callable[[Any], Any]) -> Any:
    """The type with every part replaced for which `change` gives another one."""
    if (changed := change(hint)) is not hint:
        return changed
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(retyped(arguments[0], change), *arguments[1:])]
    if origin is tuple:
        return tuple.__class_getitem__((retyped(arguments[0], change), ...))
    if type(None) in arguments or UnsetType in arguments:
        return Union[tuple(retyped(one, change) for one in arguments)]  # noqa: UP007 - of types known at run time only
    return hint


def is_shape(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Wire)
