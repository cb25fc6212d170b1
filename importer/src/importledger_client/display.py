"""Output for people: progress as a bar in a terminal or as lines in a log, numbers, durations and foreign text."""

import time
import unicodedata
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from importledger_client.language import _, is_german

EVERY_S = 5.0
"""Interval of progress lines in a log [seconds]."""
BAR_WIDTH = 30
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control characters, bidirectional and zero-width marks, line and paragraph separators."""
_GERMAN_SIGNS = str.maketrans(",.", ".,")


def number(value: float, digits: int = 0) -> str:
    """Return a number with separators of thousands: 1,234.5, or 1.234,5 in German."""
    text = f"{value:,.{digits}f}"
    return text.translate(_GERMAN_SIGNS) if is_german() else text


def amount(text: str) -> str:
    """Return a decimal number, given as text, with the decimal sign of the user's language."""
    return text.translate(_GERMAN_SIGNS) if is_german() else text


def counted(value: float, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 line", "2 lines". `plural` is the plural unless it is the noun with an s."""
    return f"{number(value)} {_(singular if value == 1 else plural or singular + 's')}"


def duration(seconds: float) -> str:
    """Return 1h02m, 3m07s or 12s."""
    seconds_in_all = int(seconds + 0.5)
    if seconds_in_all >= 3600:
        return f"{seconds_in_all // 3600}h{seconds_in_all % 3600 // 60:02d}m"
    return f"{seconds_in_all // 60}m{seconds_in_all % 60:02d}s" if seconds_in_all >= 60 else f"{seconds_in_all}s"


def visible(text: str) -> str:
    r"""Return the text with an escape such as \x1b for each character that is invisible or controls a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if c not in "\n\t" and unicodedata.category(c) in _HIDDEN else c
        for c in text
    )


class Pace:
    """Rate and remaining time since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._began, 1e-3)

    def rate(self, done: int) -> float:
        return done / self.seconds

    def line(self, title: str, done: int, refused: int, share: float | None) -> str:
        """Return the progress as a line. `share` is the part of the work that is done, 0 to 1."""
        parts = [title, number(done)]
        if share:
            parts.append(f"{100 * share:.0f} %")
        parts.append(f"{number(self.rate(done))}/s")
        if refused:
            parts.append(f"{_('refused')} {number(refused)}")
        if share and share < 1:
            parts.append(
                _("ETA {time}", time=duration(self.seconds * (1 - share) / share) if self.seconds >= 1 else "–")
            )
        return " · ".join(parts)


class Progress:
    """Shows progress: a bar with a line in a terminal, a line every few seconds elsewhere."""

    def __init__(self, console: Console, *, first_after_s: float = 0.0) -> None:
        self._console = console
        can_draw = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, refresh_per_second=8, transient=True) if can_draw else None
        self._next = time.monotonic() + first_after_s

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, text: str, share: float | None = None, *, is_news: bool = False) -> None:
        """Show the line. With `is_news`, print the line in a log immediately."""
        if self._live is not None:
            self._live.update(self._drawn(visible(text), share or 0.0))
        elif is_news or time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            self.print_line(text)

    def print_line(self, sentence: str) -> None:
        """Print a sentence that stays on the screen."""
        self._console.print(visible(sentence), soft_wrap=True)

    def _drawn(self, text: str, share: float) -> Table | Text:
        width = self._console.width
        if width < len(text) + 14:
            return Text(text[: max(width - 1, 1)], no_wrap=True)
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=1.0, completed=share, width=min(BAR_WIDTH, width - len(text) - 2)), Text(text))
        return row
