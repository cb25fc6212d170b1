"""Fields of an account: kind, whether the field is required, and the comparison of its values.

`contract.json` has the fields of accounts by dotted path, without list indexes, and `records.json` the fields of
records that come after the import. The kinds are text, decimal, integer, boolean, date, moment, texts, json, object and
list (of objects). After the kind, `required` and `nullable` may follow. A list that is a table of the platform has
`table` and a name; an object that is one column has `column`.
"""

import functools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

MARKET_TIME = ZoneInfo("Europe/Berlin")
"""Time zone of datetimes without zone."""

EXACT = Context(prec=200)
MOST_PLACES = 90
"""Digits before or after the decimal point. Longer numbers are not added up, because `EXACT` could round them."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder(decimal_format="number").encode


class Field(msgspec.Struct, frozen=True):
    """A field: its name, its kind, the fields of its object or objects, and the words that follow its kind."""

    name: str
    kind: str
    fields: "dict[str, Field]"
    words: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        return "required" in self.words

    @property
    def is_nullable(self) -> bool:
        return "nullable" in self.words

    @property
    def table(self) -> str:
        """Name of the platform's table whose rows are the objects of this list; "" for a list that is a JSON column."""
        return next((word.removeprefix("table ") for word in self.words if word.startswith("table ")), "")

    @property
    def is_column(self) -> bool:
        """True for an object that is one JSON column of the platform. Fields of other objects are columns."""
        return "column" in self.words


def _fields(content: bytes) -> dict[str, Field]:
    root: dict[str, Field] = {}
    for path, words in msgspec.json.decode(content, type=dict[str, str]).items():
        *parents, name = path.split(".")
        fields = root
        for parent in parents:
            fields = fields[parent].fields
        kind, *words_after = words.split(", ")
        fields[name] = Field(name, kind, {}, tuple(words_after))
    return root


ACCOUNT = _fields(Path(__file__).with_name("contract.json").read_bytes())
"""The fields of an account by name."""
_RECORDS = Path(__file__).with_name("records.json").read_bytes()
RECORDS = {kind: field.fields for kind, field in _fields(_RECORDS).items()}
"""The fields of records by kind."""


def paths(fields: dict[str, Field] = ACCOUNT, before: str = "") -> Iterator[tuple[str, Field]]:
    """Yield each field with its dotted path, without list indexes."""
    for field in fields.values():
        yield f"{before}{field.name}", field
        yield from paths(field.fields, f"{before}{field.name}.")


def is_filled(value: Any) -> bool:
    """Return False for null and for an empty text, list or object."""
    return bool(value) or value is False or (value is not None and value not in ("", [], {}))


def comparable(kind: str, value: Any) -> str:
    """Return a text that is the same for equal values of a kind; for a value of another kind, its JSON."""
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
    """Return a number, or the number in a text. Raises ValueError or ArithmeticError for any other value."""
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite() or number.adjusted() > MOST_PLACES or int(number.as_tuple().exponent) < -MOST_PLACES:
        raise ValueError
    return number


@functools.lru_cache(20_000)
def _decimal(value: Any) -> str:
    plain = format(exact(value).normalize(EXACT), "f")
    return "0" if plain == "-0" else plain


def in_utc(value: str) -> datetime:
    """Return a datetime in UTC. Raises ValueError or TypeError for any other value."""
    moment = datetime.fromisoformat(value)
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=MARKET_TIME)
    return zoned.astimezone(UTC)


@functools.lru_cache(20_000)
def _moment(value: str) -> str:
    since = in_utc(value) - _EPOCH
    return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


_WRITTEN: dict[str, Callable[[Any], str]] = {
    "text": _text,
    "decimal": _decimal,
    "integer": lambda value: str(int(value)),
    "boolean": lambda value: str(value).lower() if isinstance(value, bool) else _text(value),
    "date": _text,
    "moment": _moment,
    "texts": lambda value: "\x1f".join(map(_text, value)),
}
