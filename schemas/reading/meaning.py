"""Meaning of a wire object, the same for different spelling: `1.0` equals `1.00`, and a moment is the same in every
zone.
"""

from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any

from msgspec import UNSET, inspect

from schemas.base import DECIMAL_PATTERN, Wire, instant


def meaning(value: Wire) -> dict[str, Any]:
    """Return the fields by name, as values that are equal if their meaning is the same.

    Absent and null fields are None.
    """
    return {field.name: _comparable(getattr(value, field.name), field.type) for field in _fields(type(value))}


def _comparable(value: Any, node: inspect.Type) -> Any:
    if value is None or value is UNSET:
        return None
    match node:
        case inspect.UnionType(types=types):
            return _comparable(value, next(member for member in types if not isinstance(member, inspect.NoneType)))
        case inspect.StructType():
            return meaning(value)
        case inspect.VarTupleType(item_type=item):
            return [_comparable(element, item) for element in value]
        case inspect.StrType(pattern=pattern) if pattern == DECIMAL_PATTERN:
            return Decimal(value) if value else None
        case inspect.DateTimeType():
            assert isinstance(value, datetime)
            return instant(value)
        case inspect.AnyType() | inspect.DictType():
            return _json(value)
        case _:
            return value


def _json(value: Any) -> Any:
    """Return any JSON value in a form in which true is not equal to 1."""
    match value:
        case bool():
            return ("boolean", value)
        case dict():
            return {name: _json(child) for name, child in value.items()}
        case list():
            return [_json(child) for child in value]
        case _:
            return value


@cache
def _fields(wire_type: type[Wire]) -> tuple[inspect.Field, ...]:
    node = inspect.type_info(wire_type)
    assert isinstance(node, inspect.StructType)
    return node.fields
