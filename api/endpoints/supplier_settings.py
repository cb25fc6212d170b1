"""Table of a supplier's settings for the command line and the console, derived from `SupplierSettings`."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from eventstore.aggregates.supplier import SupplierSettings

URL = re.compile(r"(s3|gs|az)://[^/\s]+(/\S*)?\Z|file:///\S*\Z|\Z")
URLS = "s3://BUCKET/…, gs://BUCKET/…, az://CONTAINER/… or file:///…"


class Setting(msgspec.Struct, frozen=True):
    """A supplier's setting: its field in the log, its default, and the value of each allowed word.

    A URL has no words.
    """

    field: str
    default: Any
    words: Mapping[str, Any]

    def shown(self, value: Any) -> Any:
        """Return the word for a value; the value itself if it has no word."""
        return next((word for word, meant in self.words.items() if meant == value), value)


def _setting(field: inspect.Field) -> tuple[str, Setting]:
    kind, title, names = field.type, field.name.replace("_", "-"), {"no": "no", "yes": "yes"}
    if isinstance(kind, inspect.Metadata):
        title, names = (kind.extra_json_schema or {}).get("title", title), kind.extra or names
        kind = kind.type
    words: dict[str, Any] = {}
    if isinstance(kind, inspect.BoolType):
        words = {names["yes"]: True, names["no"]: False}
    elif isinstance(kind, inspect.LiteralType):
        words = {str(value): value for value in kind.values}
    return title, Setting(field.name, field.default, words)


def _settings() -> dict[str, Setting]:
    settings = inspect.type_info(SupplierSettings)
    assert isinstance(settings, inspect.StructType)
    return dict(_setting(field) for field in settings.fields)


SUPPLIER_SETTINGS = _settings()
"""Settings by name on the command line."""
