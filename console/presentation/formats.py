"""Times and numbers in the format of a language. Times are in the time zone of the German market. Pure."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from babel import Locale
from babel.dates import format_date, format_timedelta
from babel.numbers import format_decimal, format_percent
from markupsafe import Markup

from api.http.languages import Language
from eventstore.clock import now
from schemas.account import Account
from schemas.base import MARKET_TIME
from schemas.reading.field_names import field_label
from schemas.sentence import german_of

_LOCALES: dict[Language, Locale] = {"de": Locale("de", "DE"), "en": Locale("en", "GB")}
_DAYS: dict[Language, str] = {"de": "dd.MM.yyyy", "en": "d MMM yyyy"}
_ZONES: dict[Language, tuple[str, str]] = {"de": ("MEZ", "MESZ"), "en": ("CET", "CEST")}
NOTHING = "–"
"""Text for a missing value."""


class Formats:
    """Template filters for one language. Each shows None as a dash."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._locale = _LOCALES[language]

    def filters(self) -> dict[str, Any]:
        """Return the filters by their names in templates."""
        names = ("moment", "day", "ago", "when", "since", "number", "percent", "size", "duration", "sentence", "label")
        return {name: getattr(self, name) for name in names}

    def moment(self, at: datetime | None, *, seconds: bool = True) -> str:
        """Return a time such as `22.11.2026, 14:03:07 MEZ`, in German market time."""
        if at is None:
            return NOTHING
        local = in_market_time(at)
        time = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
        zone = _ZONES[self._language][bool(local.dst())] if local.tzinfo is MARKET_TIME else local.tzname()
        return f"{self.day(local.date())}, {time} {zone}"

    def day(self, on: date | datetime | None) -> str:
        """Return a day such as `22.11.2026`. A time is converted to its day in German market time."""
        if on is None:
            return NOTHING
        day = in_market_time(on).date() if isinstance(on, datetime) else on
        return format_date(day, _DAYS[self._language], locale=self._locale)

    def ago(self, at: datetime | None) -> str:
        """Return the distance of a time from now, such as `vor 3 Minuten` or `in 2 Stunden`."""
        if at is None:
            return NOTHING
        return format_timedelta(at - now(), add_direction=True, locale=self._locale)

    def when(self, at: datetime | None) -> str:
        """Return the distance of a time from now as an element that shows the exact time on hover."""
        return NOTHING if at is None else self._timed(at, self.ago(at))

    def since(self, at: datetime | None) -> str:
        """Return how long ago a time was, such as `3 Minuten`, as an element that shows the exact time on hover."""
        return NOTHING if at is None else self._timed(at, self.duration(max(1.0, (now() - at).total_seconds())))

    def _timed(self, at: datetime, text: str) -> str:
        return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), self.moment(at), text)

    def duration(self, seconds: float | None) -> str:
        """Return a duration such as `3 Minuten`."""
        if seconds is None:
            return NOTHING
        if seconds < 1:
            return f"{self.number(round(seconds * 1000))} ms"
        return format_timedelta(timedelta(seconds=seconds), threshold=1.5, locale=self._locale)

    def number(self, value: float | Decimal | None, decimals: int = 0) -> str:
        """Return a number such as `1.234.567`."""
        if value is None:
            return NOTHING
        return format_decimal(value, _pattern(decimals), locale=self._locale)

    def percent(self, share: float | None, decimals: int = 1) -> str:
        """Return a share between 0 and 1 as `12,3 %`."""
        if share is None:
            return NOTHING
        pattern = _pattern(decimals) + ("\N{NO-BREAK SPACE}%" if self._language == "de" else "%")
        return format_percent(share, pattern, locale=self._locale)

    def size(self, count: float | None) -> str:
        """Return a number of bytes such as `1,4 GB`."""
        if count is None:
            return NOTHING
        units = ["B", "kB", "MB", "GB", "TB"]
        while abs(count) >= 1000 and len(units) > 1:
            count /= 1000
            units.pop(0)
        return f"{self.number(count, 0 if units[0] == 'B' or count >= 100 else 1)}\N{NO-BREAK SPACE}{units[0]}"

    def sentence(self, value: Any) -> str:
        """Return a `Sentence` of the API in this language; any other text unchanged."""
        return NOTHING if value is None else str(german_of(value) if self._language == "de" else value)

    def label(self, path: str) -> str:
        """Return the German term for the field at a dotted path; "" in English, whose terms are the field names of the
        API.
        """
        steps = path.replace("[]", ".0").split(".")
        return _german_label(tuple("0" if step.isdigit() else step for step in steps)) if self._language == "de" else ""


@lru_cache(maxsize=10_000)
def _german_label(steps: tuple[str, ...]) -> str:
    label = field_label(Account, steps)
    return label.german if label else ""


def _pattern(decimals: int) -> str:
    return "#,##0" + ("." + "0" * decimals if decimals else "")


def in_market_time(at: datetime) -> datetime:
    """Return the moment in German time; unchanged at the ends of the calendar, where a conversion would overflow."""
    try:
        return at.astimezone(MARKET_TIME)
    except OverflowError:
        return at
