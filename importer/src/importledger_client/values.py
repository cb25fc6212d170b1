"""Conversion of cells to values of the API: dates, numbers and booleans in the forms of the mapping.

Raises ValueError for other cells.
"""

import contextlib
import functools
import re
from collections.abc import Collection
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from importledger_client.contract import MARKET_TIME
from importledger_client.language import _
from importledger_client.tables.table import Cell

NO_VALUE = re.compile(
    r"[(<[]?(NULL|null)[)>\]]?|\\N|None|<NA>|N/A|n/a|NaN|nan|NaT|-?(Infinity|inf)"
    r"|#(NV|N/A|LEER!|NULL!|WERT!|VALUE!|BEZUG!|REF!|DIV/0!|NAME\?|ZAHL!|NUM!|ÜBERLAUF!|SPILL!)"
)
"""Words that may mean "no value". A mapping must list each of these words in `empty` or `texts` before a push."""
ROUNDED = re.compile(r"-?[0-9][.,][0-9]+E\+[0-9]{2}")
"""Pattern of texts such as 5,12E+10, for which Excel has rounded a long number."""
DAMAGED = re.compile(
    "(?s)'[0-9+=@-].*|'[^']*'|.*(\ufffd|Ã[\x80-\xbf„–œŸ]|â[€‚]|&([AOUaou]uml|szlig|amp|lt|gt|quot|apos|nbsp|#x?[0-9A-Fa-f]+);).*"
    r"|[^/]*([A-Za-zÄÖÜäöüß]\?[a-zäöüß]|[A-ZÄÖÜ]\?[A-ZÄÖÜ])[^=]*"
)
"""Pattern of texts that an earlier program has changed, such as '0001, MÃ¼ller, M?ller and Kauf &amp; Bau."""
_AS_FORMULA = re.compile(r'="([^"]*)"\Z')
"""Pattern of texts that programs export in this form so that Excel does not read a number."""
_TOKENS = (("YYYY", "%Y"), ("YY", "%y"), ("DD", "%d"), ("MM", "%m"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))
_ADJACENT = re.compile("%[a-zA-Z]%")
"""Directives without a sign between them, whose numbers must have all their digits."""
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?\Z")
_FORM = re.compile(r"1(?P<group>[., '\u00a0\u202f])?234(?P<point>[.,])56\Z")
_MONEY = re.compile(r"(?:EUR|€)?\s*(.*?)\s*(?:EUR|€)?\Z", re.DOTALL)
_NO_DIGITS = re.compile("[^0-9]+")
_TRUE = frozenset({"ja", "j", "yes", "y", "true", "wahr", "x", "1"})
_FALSE = frozenset({"nein", "n", "no", "false", "falsch", "0"})
_LONGEST = 200
"""Most characters of a number. Longer cells are not numbers."""
_BIRTH = "date_of_birth"
_MOST_YEARS_AHEAD = 20
"""Years from this year on that a two-digit year may mean."""
_AS_TEXT = frozenset({"decimal", "date", "moment", "number", "day", "order"})
"""Kinds whose values the engine stores as texts. It stores values of other kinds as JSON."""
_OFTEN_EQUAL = frozenset({"date", "moment", "day", "order", "boolean"})
"""Kinds whose values many rows share, so that a cache saves time."""
_ENGINE_NUMBER = re.compile(r"-?[0-9]{1,28}(\.[0-9]{1,10})?\Z")
"""Numbers that DECIMAL(38, 10) holds exactly."""
_encode = msgspec.json.Encoder(decimal_format="number").encode


def clean(cell: Cell, empty: Collection[Cell]) -> str | None:
    """Return the cell as text without outer blanks; None for an empty cell and for a word in `empty`."""
    if not isinstance(cell, str):
        return None if cell is None or (_text(cell) if isinstance(cell, bool) else cell) in empty else _text(cell)
    text = cell.strip()
    if text.startswith("=") and (match := _AS_FORMULA.match(text)):
        text = match.group(1).strip()
    return None if not text or text in empty else text


def empty_cells(words: Collection[str], dates: str, decimals: str) -> frozenset[Cell]:
    """Return words that mean "no value", with the days and numbers that a workbook or Parquet file has for them."""
    cells: set[Cell] = {*words}
    for word in words:
        for form in (dates, "DD.MM.YYYY"):
            with contextlib.suppress(ValueError):
                cells.add(converted(word, "date", dates=form))
                break
        for form in (decimals, "1.234,56"):
            with contextlib.suppress(ValueError):
                cells.add(Decimal(converted(word, "decimal", decimals=form)))
                break
    return frozenset(cells)


class Conversion(NamedTuple):
    """A conversion of a table's column while it is read."""

    column: str
    kind: str
    """Kind of a field; `number` and `day` for expressions, and `order` for `first` and `last`."""
    dates: str = "YYYY-MM-DD"
    decimals: str = "1234.56"
    field: str = ""

    @property
    def rule(self) -> str:
        """The end of a sentence about a cell that cannot be converted: the form that the cell must have."""
        is_date = self.kind in ("date", "moment", "day")
        form = self.dates if is_date else _("ja or nein") if self.kind == "boolean" else self.decimals
        if is_date and "YYYY" not in form:
            return _(
                "must be written like {form}, and a birth date must have a year of four digits, as must a date that may"
                " be in another century.",
                form=form,
            )
        return _("must be written like {form}.", form=form)

    def stored(self, cell: Cell) -> str | None:
        """Return a cell without outer blanks as text for the engine; None if the cell does not have the form."""
        if cell is None:
            return None
        try:
            convert = _stored_again if isinstance(cell, str) and self.kind in _OFTEN_EQUAL else _stored
            return convert(cell, *self[1:])
        except (ValueError, ArithmeticError):
            return None

    def loaded(self, stored: str) -> Any:
        """Return the API's value for a text from `stored`."""
        return stored if self.kind in _AS_TEXT else msgspec.json.decode(stored)


def _stored(cell: Cell, kind: str, dates: str, decimals: str, field: str) -> str:
    if kind == "order":
        return _order(cell, dates, decimals)
    value = converted(
        cell, {"day": "date", "number": "decimal"}.get(kind, kind), dates=dates, decimals=decimals, field=field
    )
    if kind == "number" and not _ENGINE_NUMBER.match(value):
        raise ValueError(cell)
    return value if kind in _AS_TEXT else _encode(value).decode()


_stored_again = functools.lru_cache(2**16)(_stored)


def _order(cell: Cell, dates: str, decimals: str) -> str:
    """Return a text whose first letter is the value's kind: a moment, a number, or else a text."""
    for kind in ("moment", "decimal"):
        try:
            return kind[0] + str(converted(cell, kind, dates=dates, decimals=decimals))
        except (ValueError, ArithmeticError):
            continue
    return f"t{cell}"


@functools.cache
def number_form(form: str) -> re.Pattern[str]:
    """Return the pattern of numbers like `1.234,56`: a group separator stands only before exactly three digits.

    Raises ValueError for an unknown form.
    """
    match = _FORM.match(form)
    if match is None or match["group"] == match["point"]:
        raise ValueError(form)
    grouped = rf"[1-9][0-9]{{0,2}}(?:{re.escape(match['group'])}[0-9]{{3}})+|" if match["group"] else ""
    return re.compile(rf"(?P<whole>{grouped}[0-9]+)(?:{re.escape(match['point'])}(?P<rest>[0-9]+))?\Z")


@functools.cache
def date_form(form: str) -> str:
    """Return the directives of a form such as DD.MM.YYYY. Raises ValueError unless it has year, month and day."""
    if not all(token in form for token in ("YY", "MM", "DD")) or "%" in form:
        raise ValueError(form)
    for token, directive in _TOKENS:
        form = form.replace(token, directive)
    return form


def converted(value: Any, kind: str, *, dates: str = "YYYY-MM-DD", decimals: str = "1234.56", field: str = "") -> Any:
    """Return a cell as a value of a kind in the API. Raises ValueError."""
    match kind:
        case "decimal":
            return _decimal(value, decimals)
        case "integer":
            number = Decimal(_decimal(value, decimals))
            if number != number.to_integral_value():
                raise ValueError(value)
            return int(number)
        case "date":
            return _day(_moment(str(value), dates, field)).isoformat()
        case "moment":
            return _moment(str(value), dates, field).isoformat()
        case "boolean":
            return _boolean(value)
        case "texts":
            return [_text(value)]
        case "json":
            return value
        case _:
            return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _decimal(value: Any, decimals: str) -> str:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return format(Decimal(value), "f")
    match = _MONEY.match(str(value)) if len(str(value)) <= _LONGEST else None
    text = match.group(1) if match else ""
    sign = ""
    if text.startswith(("+", "-")):
        sign, text = text[0], text[1:]
    elif text.endswith("-"):
        sign, text = "-", text[:-1]
    number = number_form(decimals).match(text)
    if number is None:
        raise ValueError(value)
    whole = _NO_DIGITS.sub("", number["whole"]).lstrip("0") or "0"
    return ("-" if sign == "-" else "") + whole + (f".{number['rest']}" if number["rest"] else "")


def _moment(text: str, form: str, field: str) -> datetime:
    """Parse a text in the given form, or in ISO 8601. With a form such as YYYY-DD-MM, ISO 8601 would be ambiguous."""
    try:
        directives = date_form(form)
        moment = datetime.strptime(text, directives)  # noqa: DTZ007 - local time of the German market
        if _ADJACENT.search(directives) and len(text) != len(form):  # 1022024 may be 1 or 10 February
            raise ValueError(text)
    except ValueError:
        if not _ISO.match(text) or "YYYY-DD" in form:
            raise
        return datetime.fromisoformat(text)
    return moment if "YYYY" in form else _of_century(moment, text, field)


def _of_century(moment: datetime, text: str, field: str) -> datetime:
    """Return a date with a two-digit year, a birth date in the last century.

    Raises ValueError for a birth date that may also be in this century. Another date more than 20 years ahead is also a
    ValueError, such as a contract's begin in 65.
    """
    this_year = date.today().year  # noqa: DTZ011 - one day more or less does not matter
    if field == _BIRTH and moment.year % 100 > this_year % 100:
        return moment.replace(year=1900 + moment.year % 100)
    if field == _BIRTH or moment.year > this_year + _MOST_YEARS_AHEAD:
        raise ValueError(text)
    return moment


def _day(moment: datetime) -> date:
    """Return the day in German market time."""
    return (moment if moment.tzinfo is None else moment.astimezone(MARKET_TIME)).date()


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(value)
