"""Submitted data in an answer, with decimals as exact text in the scale that was sent."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec

from schemas.base import Wire

_encoder = msgspec.json.Encoder(decimal_format="number")


def echo(submitted: Any, typed: Wire) -> bytes:
    """Return the submitted data as JSON, with decimals of documented fields as in `typed` and other values unchanged.

    Fields that `typed` does not have are left out.
    """
    return _encoder.encode(_echoed(submitted, msgspec.to_builtins(typed, builtin_types=(date, datetime, Decimal))))


def _echoed(submitted: Any, typed: Any) -> Any:
    match submitted, typed:
        case dict(), dict():
            return {name: _echoed(value, typed[name]) for name, value in submitted.items() if name in typed}
        case list(), list() | tuple():
            return [_echoed(value, shaped) for value, shaped in zip(submitted, typed, strict=True)]
        case _, str() | int():
            return typed
        case _:
            return submitted
