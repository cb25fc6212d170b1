"""How far a push or a run is: drawn in a terminal, plain lines anywhere else."""

import time
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from importledger_client.visible import visible

EVERY_S = 5.0
"""Between two plain lines."""


def number(value: float) -> str:
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """1h02m, 3m07s, 12s."""
    whole = int(seconds + 0.5)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"


class Progress(Protocol):
    """What a push tells of itself."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def show(self, done: int, refused: int, share: float | None) -> None: ...
    def say(self, sentence: str) -> None: ...


class Pace:
    """Rate and time left, from what has been done since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._began, 1e-3)

    def rate(self, done: int) -> float:
        return done / self.seconds

    def left(self, share: float | None) -> str:
        if not share or self.seconds < 1:
            return "–"
        return duration(self.seconds * (1 - share) / share)


class PlainProgress:
    """One line now and then."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title, self._pace = console, title, Pace()
        self._next = time.monotonic() + EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, done: int, refused: int, share: float | None) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            self.say(_line(self._title, done, refused, share, self._pace))

    def say(self, sentence: str) -> None:
        self._console.print(visible(sentence), soft_wrap=True)


class DrawnProgress:
    """A bar that is drawn again several times a second, as wide as there is room."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title, self._pace = console, title, Pace()
        self._live = Live(console=console, refresh_per_second=8, transient=False)
        self._said = (0, 0, 0.0)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()
        self._live.stop()

    def show(self, done: int, refused: int, share: float | None) -> None:
        self._said = (done, refused, share or 0.0)
        self._draw()

    def say(self, sentence: str) -> None:
        self._live.console.print(visible(sentence), soft_wrap=True)

    def _draw(self) -> None:
        done, refused, share = self._said
        text = _line(self._title, done, refused, share, self._pace)
        width = self._console.width
        if width < len(text) + 14:
            self._live.update(Text(text[: max(width - 1, 1)], no_wrap=True))
            return
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=1.0, completed=share, width=min(30, width - len(text) - 2)), Text(text))
        self._live.update(row)


def _line(title: str, done: int, refused: int, share: float | None, pace: Pace) -> str:
    parts = [title, number(done)]
    if share:
        parts.append(f"{100 * share:.0f} %")
    parts.append(f"{number(pace.rate(done))}/s")
    if refused:
        parts.append(f"refused {number(refused)}")
    if share and share < 1:
        parts.append(f"ETA {pace.left(share)}")
    return " · ".join(parts)


def progress(console: Console, title: str) -> Progress:
    """Drawn where there is a terminal that can, else plain."""
    can_draw = console.is_terminal and not console.is_dumb_terminal
    return DrawnProgress(console, title) if can_draw else PlainProgress(console, title)
