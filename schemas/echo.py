"""The validated data as an answer gives it back: what was submitted, with decimals as exact text in their scale."""

from datetime import date, datetime
from typing import Any

import msgspec

from schemas.base import Wire

_encoder = msgspec.json.Encoder(decimal_format="number")


def echo(submitted: Any, typed: Wire) -> bytes:
    """The submitted body as JSON, decimals in the form that `typed` gives them, datetimes as they came."""
    return _encoder.encode(_echoed(submitted, msgspec.to_builtins(typed, builtin_types=(date, datetime))))


def _echoed(submitted: Any, typed: Any) -> Any:
    match submitted, typed:
        case dict(), dict():
            return {name: _echoed(value, typed.get(name)) for name, value in submitted.items()}
        case list(), list() | tuple():
            return [_echoed(value, shaped) for value, shaped in zip(submitted, typed, strict=True)]
        case _, str():
            return typed
        case _:
            return submitted
