"""JSON columns for lists and objects that have no table of their own, in the form of the wire.

Decimals keep the text that was sent. Datetimes become instants in UTC; without zone they are German market time.
Columns are JSONB, or JSON if their content is undocumented, so that it is stored as it was sent.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, inspect
from msgspec.structs import replace

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
"""Tables by name of the list whose items are their rows. Other lists are columns of their parent."""
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


def folded_type(node: inspect.StructType) -> str:
    """Return the SQL type of a column with a list of such objects."""
    return "json" if any(map(is_free, kinds_of(node))) else "jsonb"


def has_moments(node: inspect.StructType) -> bool:
    """Return whether such an object, or one inside it, has datetimes."""
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
JSONB = b"\x01"
"""Version byte before JSONB in binary COPY."""


def list_folding(node: inspect.StructType) -> Callable[[Any], bytes]:
    """Return the function that writes a list of such objects."""
    is_json = folded_type(node) == "json"
    stored, version, encode = _storing(node), b"" if is_json else JSONB, encode_json if is_json else msgspec.json.encode
    return lambda values: _sized(version + (encode([stored(value) for value in values]) if values else b"[]"))


def object_folding(node: inspect.StructType) -> Callable[[Any], bytes]:
    """Return the function that writes such an optional object.

    Its fields with any JSON (`is_free`) are left out: they have columns of their own.
    """
    stored = _storing(node, without=[field.name for field in node.fields if is_free(without_null(field.type))])
    return lambda value: NULL if value is UNSET or value is None else _sized(JSONB + msgspec.json.encode(stored(value)))


def _sized(content: bytes) -> bytes:
    return SIZE[len(content)] + content


def _storing(node: inspect.StructType, without: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Return a function that copies such an object without these fields, and with its datetimes in UTC."""
    changes: dict[str, Callable[[Any], Any]] = dict.fromkeys(without, lambda value: UNSET)
    for field in node.fields:
        match without_null(field.type):
            case inspect.DateTimeType():
                changes[field.name] = _in_utc
            case inspect.VarTupleType(item_type=inspect.StructType() as item) if has_moments(item):
                changes[field.name] = _each(_storing(item))
            case inspect.StructType() as inner if has_moments(inner):
                raise NotImplementedError("moments in an object inside another")
    return lambda value: replace(value, **{name: change(getattr(value, name)) for name, change in changes.items()})


def _each(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: tuple([change(value) for value in values])


@lru_cache(maxsize=20_000)
def _in_utc(sent: Any) -> Any:
    return instant(sent).astimezone(UTC) if isinstance(sent, datetime) else sent
