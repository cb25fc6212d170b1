"""Progress of a worker that adds up a run: a bar in a terminal, plain lines anywhere else."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from importledger_client.answers import JobProgress
from importledger_client.display import EVERY_S, duration, number
from importledger_client.visible import visible

Tell = Callable[[JobProgress], None]
BAR_WIDTH = 30


@contextlib.contextmanager
def shown_job(console: Console, title: str) -> Iterator[Tell]:
    """Gives what tells how far it is."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield _lines(console, title)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda told: live.update(_drawn(console, title, told))


def line_of(title: str, told: JobProgress) -> str:
    """How far it is, as a line. Pure."""
    parts = [
        title,
        f"{number(told.accounts_done)} of {number(told.accounts)} accounts added up",
    ]
    if told.eta_s is not None and told.accounts_done < told.accounts:
        parts.append(f"ETA {duration(told.eta_s)}")
    return " · ".join([*parts, told.why] if told.why else parts)


def _lines(console: Console, title: str) -> Tell:
    """A line at first, then now and then, and whenever something else is said of why nothing goes on."""
    said_at, why = float("-inf"), ""

    def tell(told: JobProgress) -> None:
        nonlocal said_at, why
        if time.monotonic() - said_at >= EVERY_S or told.why != why:
            said_at, why = time.monotonic(), told.why
            console.print(visible(line_of(title, told)), soft_wrap=True)

    return tell


def _drawn(console: Console, title: str, told: JobProgress) -> Table | Text:
    text, width = visible(line_of(title, told)), console.width
    if width < len(text) + 14:
        return Text(text[: max(width - 1, 1)], no_wrap=True)
    row = Table.grid(padding=(0, 1))
    share = told.accounts_done / told.accounts if told.accounts else 0.0
    row.add_row(ProgressBar(total=1.0, completed=share, width=min(BAR_WIDTH, width - len(text) - 2)), Text(text))
    return row
