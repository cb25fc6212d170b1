"""JSON columns for lists and objects without a separate table, in the form of the API.

Decimals keep the text that was sent. Datetimes become instants in UTC; without zone they are German market time.
Columns are JSON, not JSONB: undocumented content is stored as it was sent, and Postgres need not convert it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, inspect

from eventstore.log.copy_format import NULL, SIZE
from schemas.base import instant

TABLE_OF_FIELD = {
    "customers": "customer",
    "supply_addresses": "supply_address",
    "supply_points": "supply_point",
    "agreements": "agreement",
    "melos": "melo",
    "meters": "meter",
    "registers": "register",
    "readings": "reading",
    "statements": "statement",
    "ledgers": "ledger",
    "payment_instructions": "payment_instruction",
    "payment_schedules": "payment_schedule",
    "amounts": "delivery_note_amount",
    "line_items": "market_participant_invoice_line_item",
    "tax_amounts": "market_participant_invoice_tax_amount",
    "contact_details": "market_participant_contact",
    "article_prices": "price_sheet_article_price",
}
"""Tables by the name of the list whose items are the table's rows. Other lists are columns of their parent."""
FOLDED_OBJECTS = ("params",)
"""Inner objects that are one column. Each field of other inner objects is a column."""


def without_null(node: inspect.Type) -> inspect.Type:
    if isinstance(node, inspect.UnionType):
        return next(member for member in node.types if not isinstance(member, inspect.NoneType))
    return node


def is_free(node: inspect.Type) -> bool:
    """Return whether a field of this type may hold any JSON."""
    return isinstance(node, inspect.AnyType | inspect.DictType) or (
        isinstance(node, inspect.VarTupleType) and isinstance(node.item_type, inspect.AnyType)
    )


def has_moments(node: inspect.StructType) -> bool:
    """Return whether an object of this type, or an object inside it, has datetimes."""
    return any(isinstance(kind, inspect.DateTimeType) for kind in kinds_of(node))


def kinds_of(node: inspect.StructType) -> Iterator[inspect.Type]:
    """Yield the types of an object's fields and of the fields of objects inside it."""
    for field in node.fields:
        kind = without_null(field.type)
        yield kind
        inner = kind.item_type if isinstance(kind, inspect.VarTupleType) else kind
        if isinstance(inner, inspect.StructType):
            yield from kinds_of(inner)


encode_json = msgspec.json.Encoder(decimal_format="number").encode
"""Encoder that writes undocumented numbers as numbers."""


def list_encoding(node: inspect.StructType) -> Callable[[Any], bytes]:
    """Return the encoder of a list of objects of this type as JSON."""
    encode = encode_json if any(map(is_free, kinds_of(node))) else msgspec.json.encode
    return _compiled("v", "encode([{} for w in v])", node.fields, encode)


def object_folding(node: inspect.StructType) -> Callable[[Any], bytes]:
    """Return the encoder of an optional object of this type.

    Fields that accept any JSON are left out, because they have separate columns.
    """
    fields = [field for field in node.fields if not is_free(without_null(field.type))]
    encoded = _compiled("w", "encode({})", fields, msgspec.json.encode)

    def fold(value: Any) -> bytes:
        if value is UNSET or value is None:
            return NULL
        content = encoded(value)
        return SIZE[len(content)] + content

    return fold


def _compiled(
    name: str, frame: str, fields: Sequence[inspect.Field], encode: Callable[[Any], bytes]
) -> Callable[[Any], bytes]:
    """Compile `lambda name: frame`. `{}` in the frame is replaced by the expression that copies the object `w`.

    The copy has datetimes in UTC. The frame passes it to `encode`. The source
    consists of names of fields in `schemas/` only.
    """
    kinds: dict[str, Any] = {"utc": _UTC, "encode": encode}
    source = f"lambda {name}: " + frame.format(_written("w", fields, kinds))
    compiled: Callable[[Any], bytes] = eval(source, kinds)  # noqa: S307 - see above
    return compiled


def _written(source: str, fields: Sequence[inspect.Field], kinds: dict[str, Any]) -> str:
    """Return the expression that copies fields of the object `source` into a new object, with datetimes in UTC."""
    kind = f"kind{len(kinds)}"
    kinds[kind] = msgspec.defstruct("Written", [(field.name, Any) for field in fields], module=__name__, gc=False)
    return f"{kind}({', '.join(_value(f'{source}.{field.name}', field.type, kinds) for field in fields)})"


def _value(source: str, node: inspect.Type, kinds: dict[str, Any]) -> str:
    match without_null(node):
        case inspect.DateTimeType():
            return f"utc[{source}]"
        case inspect.VarTupleType(item_type=inspect.StructType() as item):
            inner = f"w{len(kinds)}"
            return f"[{_written(inner, item.fields, kinds)} for {inner} in {source}]"
        case inspect.StructType() as item if has_moments(item):
            raise NotImplementedError("moments in an object inside another")
        case _:
            return source


class _Instants(dict[Any, Any]):
    """Cache that converts datetimes to UTC, since the same dates are often repeated. Other values stay unchanged."""

    def __missing__(self, sent: Any) -> Any:
        if len(self) >= _MAX_CACHED:
            self.clear()
        in_utc = self[sent] = instant(sent).astimezone(UTC) if isinstance(sent, datetime) else sent
        return in_utc


_MAX_CACHED = 20_000
_UTC = _Instants()
