"""What verbs with `--spread` have in common: the option, and how far the job is, in the terminal and elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from cli.progress import progress_bar
from cli.say import say
from projections.spreading.asking import Tell
from schemas.job_progress import JobProgress

SAY_EVERY_S = 5.0

spread_option = click.option(
    "--spread", "is_spread", is_flag=True,
    help="Let the worker processes of all machines do it, in parts; intake and imports go first.",
)  # fmt: skip


@contextmanager
def spread_progress(name: str, *, as_json: bool) -> Iterator[Tell]:
    """Give what tells how far it is, on standard error: a bar in a terminal, otherwise a line every few seconds.

    An interrupt leaves the job to the workers, and says how it is taken up.
    """
    teller = _Teller(name, as_json=as_json)
    try:
        with progress_bar("events", title=name, total=None) as bar:

            def tell(told: JobProgress) -> None:
                bar(told.events_done, told.events, f"{name}, {_workers(told)}")
                teller.look(told)

            yield tell
    except KeyboardInterrupt:
        raise click.ClickException(
            "Interrupted. The workers go on for now; type the same again to take the job up where it is."
        ) from None


class _Teller:
    """Says how far it is: when a part is done, not more often than every few seconds, and why nothing goes on."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._said_at = float("-inf")
        self._said: tuple[int, str] = (-1, "")

    def look(self, told: JobProgress) -> None:
        is_end = told.parts_done == told.parts
        now = time.monotonic()
        if (told.parts_done, told.why) == self._said:
            return
        if told.why == self._said[1] and (sys.stderr.isatty() or (not is_end and now - self._said_at < SAY_EVERY_S)):
            return
        self._said_at, self._said = now, (told.parts_done, told.why)
        say(msgspec.json.encode(told, enc_hook=str) if self._as_json else line_of(self._name, told), err=True)


def line_of(name: str, told: JobProgress) -> str:
    """How far a job is, as a line. Pure."""
    share = f"{told.parts_done:,} of {told.parts:,} parts, {told.events_done:,} of {told.events:,} events"
    left = "" if told.eta_s is None or told.parts_done == told.parts else f", {duration(told.eta_s)} left"
    why = f". {told.why}" if told.why else ""
    return f"{name}: {share}, {_workers(told)}{left}{why}"


def duration(seconds: float) -> str:
    """An estimate in words, no finer than it is."""
    if seconds < 1:
        return "less than a second"
    if seconds < 120:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"


def _workers(told: JobProgress) -> str:
    return f"{told.workers} worker{'' if told.workers == 1 else 's'}"
