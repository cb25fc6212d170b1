"""The contract's paths: what each field is, which have to be given, and how its values are written to be compared."""

import functools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import inspect

from importledger_client import wire

MARKET_TIME = ZoneInfo("Europe/Berlin")
"""A datetime without zone is local time of the German market."""

EXACT = Context(prec=200)
MOST_PLACES = 90
"""Before the point, and after it: far more than any amount of the contract has, and what `EXACT` adds exactly."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder(decimal_format="number").encode


class Field(msgspec.Struct, frozen=True):
    """A field: its kind (text, decimal, number, integer, boolean, date, moment, texts, json, object, list), what is in
    an object or a list of objects, and whether the object that it is in needs it."""

    name: str
    kind: str
    fields: "dict[str, Field]"
    is_required: bool


def _fields(node: inspect.StructType) -> dict[str, Field]:
    return {field.name: _field(field) for field in node.fields}


def _field(field: inspect.Field) -> Field:
    kind, inner = _kind(field.type)
    return Field(field.name, kind, _fields(inner) if inner is not None else {}, field.required)


def _kind(node: inspect.Type) -> tuple[str, inspect.StructType | None]:
    match node:
        case inspect.UnionType(types=types):
            return _kind(next(member for member in types if not isinstance(member, inspect.NoneType)))
        case inspect.Metadata(extra={"decimal": True}):
            return "decimal", None
        case inspect.Metadata(type=inner):
            return _kind(inner)
        case inspect.VarTupleType(item_type=inspect.StructType() as item):
            return "list", item
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return "texts", None
        case inspect.StructType():
            return "object", node
        case _:
            return _KINDS.get(type(node), "json"), None


_KINDS: dict[type[inspect.Type], str] = {
    inspect.StrType: "text",
    inspect.DecimalType: "decimal",
    inspect.IntType: "integer",
    inspect.BoolType: "boolean",
    inspect.DateType: "date",
    inspect.DateTimeType: "moment",
}

_root = inspect.type_info(wire.Account)
assert isinstance(_root, inspect.StructType)
ACCOUNT = _fields(_root)
"""The fields of an account by name."""


def paths(fields: dict[str, Field] = ACCOUNT, before: str = "") -> Iterator[tuple[str, Field]]:
    """Every path of the contract, dotted, without places in lists."""
    for field in fields.values():
        yield f"{before}{field.name}", field
        yield from paths(field.fields, f"{before}{field.name}.")


def is_filled(value: Any) -> bool:
    """Whether something is said: neither null nor an empty text, list or object."""
    return bool(value) or value is False or (value is not None and value not in ("", [], {}))


def comparable(kind: str, value: Any) -> str:
    """A value as text that is the same for equal values of its kind. What is not of the kind is its JSON."""
    write = _WRITTEN.get(kind)
    try:
        return write(value) if write is not None else _encode(value).decode()
    except (ValueError, TypeError, ArithmeticError):
        return _encode(value).decode()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def exact(value: Any) -> Decimal:
    """A number or its text. Raises ValueError or ArithmeticError for what is no number, or has too many places."""
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite() or number.adjusted() > MOST_PLACES or int(number.as_tuple().exponent) < -MOST_PLACES:
        raise ValueError
    return number


@functools.lru_cache(20_000)
def _decimal(value: Any) -> str:
    plain = format(exact(value).normalize(EXACT), "f")
    return "0" if plain == "-0" else plain


def _boolean(value: Any) -> str:
    return {True: "true", False: "false"}[bool(value)] if isinstance(value, bool) else _text(value)


@functools.lru_cache(20_000)
def _moment(value: str) -> str:
    moment = datetime.fromisoformat(value)
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=MARKET_TIME)
    since = zoned.astimezone(UTC) - _EPOCH
    return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


_WRITTEN: dict[str, Callable[[Any], str]] = {
    "text": _text,
    "decimal": _decimal,
    "integer": lambda value: str(int(value)),
    "boolean": _boolean,
    "date": _text,
    "moment": _moment,
    "texts": lambda value: "\x1f".join(map(_text, value)),
}
