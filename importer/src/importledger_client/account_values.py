"""Values of one account by path, to compare it with the platform field by field."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from importledger_client.contract import ACCOUNT, Field, comparable, is_filled

_SEPARATOR = "\x1f"
_MODULUS = 2**64
_NOT_COMPARED = frozenset({"import_supplier"})
"""Paths that are left out, such as the supplier, which is a member of the manifest."""


class Value(msgspec.Struct, frozen=True):
    """A value: the ordinals of its row and of the row's parent, and its text, which is the same for equal values."""

    ordinal: int
    parent: int
    text: str


Values = dict[str, list[Value]]
"""Values by path. A row is a value of its list, with an empty text."""


def values_of(account: Mapping[str, Any]) -> Values:
    """Return the filled values of an account by path."""
    walk = _Walk()
    walk.object(account, ACCOUNT, "", 0, 0)
    return walk.values


def path_digest(external: str, values: list[Value]) -> str:
    """Return the digest of the values of a path, which does not depend on their order in the list."""
    total = 0
    for value in values:
        text = f"{external}{_SEPARATOR}{value.ordinal}{_SEPARATOR}{value.parent}{_SEPARATOR}{value.text}"
        total += int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return f"{total % _MODULUS:016x}"


class _Walk:
    """Walk through one account."""

    def __init__(self) -> None:
        self.values: Values = {}
        self._rows: dict[str, int] = {}

    def object(
        self, value: Mapping[str, Any], fields: Mapping[str, Field], before: str, ordinal: int, parent: int
    ) -> None:
        """Add the values of an object: a row, or part of one. `ordinal` and `parent` number the row and its parent."""
        for name, inner in value.items():
            if not is_filled(inner):
                continue
            path, field = before + name, fields.get(name)
            kind = field.kind if field is not None else "json"
            if field is not None and kind == "list" and isinstance(inner, list):
                for item in inner:
                    self._row(item, field, path, ordinal)
            elif field is not None and kind == "object" and isinstance(inner, dict):
                self.object(inner, field.fields, f"{path}.", ordinal, parent)
            elif path not in _NOT_COMPARED and (inner is not False or path != "unknown_occupier"):
                text = inner if kind == "text" and isinstance(inner, str) else comparable(kind, inner)
                self._note(path, Value(ordinal, parent, text))

    def _row(self, item: Any, field: Field, path: str, parent: int) -> None:
        ordinal = self._rows[path] = self._rows.get(path, 0) + 1
        self._note(path, Value(ordinal, parent, ""))
        if isinstance(item, dict):
            self.object(item, field.fields, f"{path}.", ordinal, parent)

    def _note(self, path: str, value: Value) -> None:
        self.values.setdefault(path, []).append(value)
