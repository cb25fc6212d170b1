"""Lists and objects that are no rows of their own: JSON columns of their parent, in the form of the wire.

Exact decimals stay the text that was sent, datetimes become instants in UTC: without zone they are German market time.
The column is JSONB; it is JSON where an importer may say anything, so that this stays as it was sent.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, inspect

from eventstore.log.copy_format import NULL, SIZE
from projections.platform.storage import folded_type, has_moments, is_free, place_of_member, without_null
from schemas.base import instant

encode_json = msgspec.json.Encoder(decimal_format="number").encode
"""Numbers that nobody has described stay numbers."""
JSONB = b"\x01"
"""Stands before JSONB: its version."""

_Ordered = Callable[[Iterable[inspect.Field]], list[inspect.Field]]
"""Puts the fields of an object in order."""


def list_encoding(node: inspect.StructType) -> Callable[[Any], bytes]:
    """What encodes a list of such objects."""
    is_json = folded_type(node) == "json"
    encode = encode_json if is_json else msgspec.json.encode
    return _compiled("v", "encode([{} for w in v])", node.fields, list if is_json else _in_order, encode)


def object_folding(node: inspect.StructType) -> Callable[[Any], bytes]:
    """What writes such an object, which may be absent, but for what is free in it: that has columns of its own."""
    fields = [field for field in node.fields if not is_free(without_null(field.type))]
    encoded = _compiled("w", "encode({})", fields, _in_order, msgspec.json.encode)

    def fold(value: Any) -> bytes:
        if value is UNSET or value is None:
            return NULL
        content = encoded(value)
        return SIZE[len(JSONB) + len(content)] + JSONB + content

    return fold


def _in_order(fields: Iterable[inspect.Field]) -> list[inspect.Field]:
    """The fields in the order in which Postgres keeps the members of JSONB, which saves it a third of reading them."""
    return sorted(fields, key=lambda field: place_of_member(field.name))


def _compiled(
    name: str, frame: str, fields: Iterable[inspect.Field], ordered: _Ordered, encode: Callable[[Any], bytes]
) -> Callable[[Any], bytes]:
    """A function of `name`, whose value is the frame, which calls `encode`, around the written form of the object `w`.

    Compiled from names of fields in `schemas/`.
    """
    kinds: dict[str, Any] = {"utc": _UTC, "encode": encode}
    source = f"lambda {name}: " + frame.format(_written("w", fields, ordered, kinds))
    compiled: Callable[[Any], bytes] = eval(source, kinds)  # noqa: S307 - see above
    return compiled


def _written(place: str, fields: Iterable[inspect.Field], ordered: _Ordered, kinds: dict[str, Any]) -> str:
    """The expression that makes an object of these fields of the one at this place, datetimes in UTC."""
    kind, written = f"kind{len(kinds)}", ordered(fields)
    kinds[kind] = msgspec.defstruct("Written", [(field.name, Any) for field in written], module=__name__, gc=False)
    return f"{kind}({', '.join(_value(f'{place}.{field.name}', field.type, ordered, kinds) for field in written)})"


def _value(place: str, node: inspect.Type, ordered: _Ordered, kinds: dict[str, Any]) -> str:
    match without_null(node):
        case inspect.DateTimeType():
            return f"utc[{place}]"
        case inspect.VarTupleType(item_type=inspect.StructType() as item):
            inner = f"w{len(kinds)}"
            return f"[{_written(inner, item.fields, ordered, kinds)} for {inner} in {place}]"
        case inspect.StructType() as item if has_moments(item):
            raise NotImplementedError("moments in an object inside another")
        case _:
            return place


class _Instants(dict[Any, Any]):
    """Datetimes in UTC, by what was sent: those from which something is valid come again and again."""

    def __missing__(self, sent: Any) -> Any:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        in_utc = self[sent] = instant(sent).astimezone(UTC) if isinstance(sent, datetime) else sent
        return in_utc


_MOST_REMEMBERED = 20_000
_UTC = _Instants()
