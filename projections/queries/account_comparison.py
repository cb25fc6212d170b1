"""Values of an account as it was sent and on the platform, field by field.

The values of the source are read from the payload, and independently the values of the platform from its tables.
"""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import msgspec

from eventstore.aggregates.import_process import ImportStaged, stream_of
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of
from projections.platform.json_columns import encode_json
from projections.platform.paths import PATH_COLUMNS, PathColumn, Value, Values, account_values
from redaction.masking import is_harmless, masked_leaf
from schemas.base import instant


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """An account with its status, its payload (None if it was erased or archived), and its values on both sides."""

    status: str
    account_number: str | None
    body: bytes | None
    values: "tuple[ComparedValue, ...]"


class ComparedValue(msgspec.Struct, frozen=True):
    """Value of a path: the ordinal of its row, and the texts in the source and on the platform; None without a value.

    `is_documented` is False if the path is not a field of the contract.
    """

    path: str
    row: int
    source: str | None
    platform: str | None
    is_documented: bool = True


_SELECT_STATUS = """
SELECT status, account_number FROM import_status WHERE supplier = %s AND external_account_number = %s
"""


def compared_account(ledger: Ledger, supplier: str, external: str, position: int) -> Comparison:
    """Return the content that was staged at a position beside the platform's rows."""
    stream = stream_of(supplier, external)
    events = (recorded.event for recorded in ledger.history(stream) if recorded.position == position)
    staged = next((event for event in events if isinstance(event, ImportStaged)), None)
    body = ledger.payloads({stream: staged.payload_sha256}).get(stream) if staged else None
    with ledger.connection() as connection:
        [(status, number)] = rows_of(connection, _SELECT_STATUS, supplier, external) or [("-", None)]
        platform = account_values(connection, number) if number is not None else {}
    values = tuple(_side_by_side(source_values(body) if body is not None else {}, platform))
    return Comparison(status=status, account_number=number, body=body, values=values)


def _side_by_side(source: Values, platform: Values) -> Iterator[ComparedValue]:
    """Yield the values of both sides in the order of the contract. Rows without own values are left out."""
    order = {path: number for number, path in enumerate(_COLUMNS)}
    for path in sorted({*source, *platform}, key=lambda path: (order.get(path, len(order)), path)):
        sent, stored = (
            {(value.ordinal, value.parent): value.text for value in side.get(path, ())} for side in (source, platform)
        )
        for place in sorted({*sent, *stored}):
            if sent.get(place) or stored.get(place) or (place in sent) != (place in stored):
                yield ComparedValue(path, place[0], sent.get(place), stored.get(place), path in _COLUMNS)


_COLUMNS: Mapping[str, PathColumn] = {column.path: column for column in PATH_COLUMNS}
_OBJECTS = {path.rpartition(".")[0] for path in _COLUMNS} - {""}
"""Paths of objects and of lists of objects."""
_NOT_COMPARED = frozenset({"import_supplier"})
_EXACT = Context(prec=200)
_MOST_PLACES = 90
"""Digits before or after the decimal point. Longer numbers, and numbers that are not finite, are compared as texts."""
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def source_values(body: bytes) -> Values:
    """Return the filled values of an account as it was sent, by path, as texts that are the same for equal values."""
    walk = _Walk()
    walk.add_object(_decode(body), "", 0, 0)
    return walk.values


class _Walk:
    """Walk through one account."""

    def __init__(self) -> None:
        self.values: Values = {}
        self._rows: dict[str, int] = {}

    def add_object(self, members: Mapping[str, Any], before: str, ordinal: int, parent: int) -> None:
        """Add the members of an object: a row, or part of one. `ordinal` and `parent` number the row and its parent."""
        for name, value in members.items():
            path = before + name
            column = _COLUMNS.get(path)
            if value is None or value in ("", [], {}) or path in _NOT_COMPARED or _is_default(column, value):
                continue
            if path in _OBJECTS and isinstance(value, dict):
                self.add_object(value, f"{path}.", ordinal, parent)
            elif path in _OBJECTS and isinstance(value, list):
                self._add_rows(value, path, ordinal)
            else:
                self._add(path, Value(ordinal, parent, _text_of(column.sql_type if column else "json", value)))

    def _add_rows(self, items: list[Any], path: str, parent: int) -> None:
        for item in items:
            ordinal = self._rows[path] = self._rows.get(path, 0) + 1
            self._add(path, Value(ordinal, parent, ""))
            if isinstance(item, dict):
                self.add_object(item, f"{path}.", ordinal, parent)

    def _add(self, path: str, value: Value) -> None:
        self.values.setdefault(path, []).append(value)


def _is_default(column: PathColumn | None, value: Any) -> bool:
    """Return whether the value is the field's default, which the platform's values leave out."""
    return column is not None and column.sql_type in ("text", "boolean", "bigint") and value == column.default


def _text_of(sql_type: str, value: Any) -> str:
    """Return the text of a value in a column of this type; for a value of another type, its JSON."""
    with contextlib.suppress(ValueError, ArithmeticError):
        match sql_type, value:
            case "numeric", int() | Decimal() | str() if _is_exact(number := Decimal(str(value))):
                plain = format(number.normalize(_EXACT), "f")
                return "0" if plain == "-0" else plain
            case "timestamptz", str():
                since = instant(datetime.fromisoformat(value)).astimezone(UTC) - _EPOCH
                return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
            case "text[]", [*texts] if all(isinstance(text, str) for text in texts):
                return "\x1f".join(texts)
            case (("text" | "date" | "bigint"), str()):
                return value
    return encode_json(value).decode()


def _is_exact(number: Decimal) -> bool:
    """Return whether a number is finite and has few enough digits on both sides of its decimal point."""
    return number.is_finite() and number.adjusted() <= _MOST_PLACES and int(number.as_tuple().exponent) >= -_MOST_PLACES


def shown_text(path: str, text: str | None, *, is_masked: bool) -> str:
    """Return a value for people, masked if it may describe a person; "" without a value."""
    if text is None:
        return ""
    column, steps = _COLUMNS.get(path), path.split(".")
    if column is not None and column.sql_type == "timestamptz" and text.lstrip("-").isdecimal():
        text = (_EPOCH + timedelta(microseconds=int(text))).isoformat()
    shown = masked_leaf(steps, text) if is_masked and not is_harmless(steps) else text
    return shown.replace("\x1f", ", ")
