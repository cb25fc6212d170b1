"""Lists and objects that are no rows of their own: JSON columns of their parent, in the form of the wire.

Exact decimals stay the text that was sent, datetimes become instants in UTC: without zone they are German market time.
The column is JSONB; it is JSON where an importer may say anything, so that this stays as it was sent.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, inspect

from eventstore.log.copy_format import NULL, SIZE
from schemas.base import instant

FOLDED_OBJECTS = ("params",)
"""Objects inside an object that are one column; of others each field is one."""

encode_json = msgspec.json.Encoder(decimal_format="number").encode
"""Numbers that nobody has described stay numbers."""
_VERSION = b"\x01"
"""Stands before JSONB."""


def without_null(node: inspect.Type) -> inspect.Type:
    if isinstance(node, inspect.UnionType):
        return next(member for member in node.types if not isinstance(member, inspect.NoneType))
    return node


def is_free(node: inspect.Type) -> bool:
    """Whether importers may say anything there."""
    return isinstance(node, inspect.AnyType | inspect.DictType) or (
        isinstance(node, inspect.VarTupleType) and isinstance(node.item_type, inspect.AnyType)
    )


def folded_type(node: inspect.StructType) -> str:
    """The SQL type of a column that holds a list of such objects."""
    return "json" if any(map(is_free, _kinds_of(node))) else "jsonb"


def list_folding(node: inspect.StructType) -> Callable[[Any], bytes]:
    """What writes a list of such objects as COPY takes it."""
    is_json = folded_type(node) == "json"
    version, encode = (b"", encode_json) if is_json else (_VERSION, msgspec.json.encode)
    moments = [field.name for field in node.fields if _is_moment(field)]
    if len(moments) != sum(isinstance(kind, inspect.DateTimeType) for kind in _kinds_of(node)):
        raise NotImplementedError("moments inside an object of a list's object")

    nothing = SIZE[len(version) + 2] + version + b"[]"
    at_instants = _at_instants(moments)

    def fold(items: Any) -> bytes:
        if not items:
            return nothing
        content = encode(at_instants(items) if moments else items)
        return SIZE[len(version) + len(content)] + version + content

    return fold


def object_folding(node: inspect.StructType) -> Callable[[Any], bytes]:
    """What writes such an object, which may be absent, but for what is free in it: that has columns of its own."""
    if any(isinstance(kind, inspect.DateTimeType) for kind in _kinds_of(node)):
        raise NotImplementedError("moments in an object that is one column")
    left_out: dict[str, UnsetType] = {field.name: UNSET for field in node.fields if is_free(without_null(field.type))}

    def fold(value: Any) -> bytes:
        if value is UNSET or value is None:
            return NULL
        content = msgspec.json.encode(msgspec.structs.replace(value, **left_out) if left_out else value)
        return SIZE[len(_VERSION) + len(content)] + _VERSION + content

    return fold


def _is_moment(field: inspect.Field) -> bool:
    return isinstance(without_null(field.type), inspect.DateTimeType)


def _at_instants(names: Sequence[str]) -> Callable[[Any], list[Any]]:
    """The same objects with these datetimes in UTC. Compiled from names of fields in `schemas/`."""
    changes = ", ".join(f"{name}=utc[v.{name}]" for name in names)
    source = f"lambda items: [replace(v, {changes}) for v in items]"
    compiled: Callable[[Any], list[Any]] = eval(source, {"replace": msgspec.structs.replace, "utc": _UTC})  # noqa: S307
    return compiled


def _kinds_of(node: inspect.StructType) -> Iterator[inspect.Type]:
    for field in node.fields:
        kind = without_null(field.type)
        yield kind
        inner = kind.item_type if isinstance(kind, inspect.VarTupleType) else kind
        if isinstance(inner, inspect.StructType):
            yield from _kinds_of(inner)


class _Instants(dict[Any, Any]):
    """Datetimes in UTC, by what was sent: those from which something is valid come again and again."""

    def __missing__(self, moment: Any) -> Any:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        in_utc = self[moment] = instant(moment).astimezone(UTC) if isinstance(moment, datetime) else moment
        return in_utc


_MOST_REMEMBERED = 20_000
_UTC = _Instants()
