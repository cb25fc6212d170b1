"""Base of every wire shape: the Struct options, the scalar types, and `Problem`.

In all shapes, an absent string, decimal or array is empty (`""`, `()`). Any other absent field is `None` if null is
allowed, else `UNSET`.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

MARKET_TIME = ZoneInfo("Europe/Berlin")
"""Time zone of the German market, for datetimes without zone."""

MAX_ITEMS = 10_000
"""Most items of one array. Larger arrays are a problem."""

DECIMAL_PATTERN = r"^-?[0-9]{1,18}(?:\.[0-9]{1,10})?\Z"
"""A decimal on the wire: 18 digits before the point, 10 after it, no exponent."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base class of all request and response types: frozen, keyword-only, without undocumented fields."""


class Problem(msgspec.Struct, frozen=True):
    """Shape error or broken rule: its dotted path ("" for the whole), permanent code and sentence."""

    attr: str
    """Dotted path of the field, indexes from 0 (Feld)."""
    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    detail: str
    """The sentence for people (Meldung); may change."""


class Suggestion(msgspec.Struct, frozen=True):
    """Value that corrects a problem: the name of the correction, the value, and a sentence about it."""

    name: str
    """Kind of correction (Art der Korrektur): phone, iban, postcode, malo, melo, date or blanks."""
    value: str
    """The correct value (Vorschlag)."""
    sentence: str
    """The correction for people (Beschreibung)."""


class SuggestedProblem(Problem, frozen=True, kw_only=True):
    """Problem with a safe correction. Answers have them only with `suggest=1`."""

    suggestion: Suggestion


def problem_name(code: str, path: str) -> str:
    """Return code@path: the form in which the log and counts name a problem, without values."""
    return f"{code}@{path}"


def code_and_path(name: str) -> tuple[str, str]:
    """Return code and path of a name from `problem_name`. The path is "" for a code alone."""
    code, _, path = name.partition("@")
    return code, path


Required32 = Annotated[str, Meta(min_length=1, max_length=32)]
Required = Annotated[str, Meta(min_length=1, max_length=512)]
Text = Annotated[str, Meta(max_length=512)]
"""Text with a limit of length.

The specification has no limits; this limit is longer than any text in old systems and EDIFACT messages.
"""
Prose = Annotated[str, Meta(max_length=65_536)]
LongText = Annotated[str, Meta(min_length=1, max_length=65_536)]
DecimalText = Annotated[str, Meta(pattern=DECIMAL_PATTERN)]
"""An exact decimal, kept as the text that was submitted, so that its scale survives."""

DOT_SEGMENTS = (".", "..")
"""Names that no path can contain:

HTTP clients remove these names from an address before they send it, percent-encoded or not (RFC 3986, 5.2.4 and
6.2.2.2).
"""
ExternalNumber = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^(?!\.{1,2}\Z)\S(?s:.*\S)?\Z")]
"""The account's identifier in the old system: byte for byte, without outer blanks, and no dot segment."""

Moment = Annotated[datetime, Meta(tz=True)]
"""Datetime with a zone. A datetime without zone gets the zone of the German market."""

LocalMoment = datetime
"""A datetime that importers usually send without zone; see `instant`."""

WholeNumber = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""An integer so small that every JSON reader reads it exactly."""

SupplyType = Literal["GAS", "ELECTRICITY"]

AnyJson = Any
"""Any JSON value, unchanged; numbers with a fraction are `Decimal`."""


def instant(moment: datetime) -> datetime:
    """Return the moment with a zone. A moment without zone is German market time, and is returned in UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=MARKET_TIME).astimezone(UTC)
