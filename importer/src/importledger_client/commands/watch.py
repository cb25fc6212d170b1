"""`importbook watch`: a run, until everything in it has ended."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from importledger_client.answers import Run
from importledger_client.commands.common import (
    Access,
    err,
    next_step,
    no_such_run,
    out,
    reaches_the_service,
    run_name,
    say,
    supplier_of,
)
from importledger_client.commands.exit_codes import OK, SOMETHING_WRONG
from importledger_client.display import EVERY_S, duration, number
from importledger_client.errors import NotFound
from importledger_client.notes import recall
from importledger_client.sources import STDIN
from importledger_client.visible import visible

if TYPE_CHECKING:
    from importledger_client.client import Client

PAUSE_S = 0.5
SETTLED = 3
"""The counts may be a second late: what looks ended is looked at so many times."""
LATE_S = 15.0
"""How long a run that was just pushed may be unknown, or smaller than it is."""


@click.command()
@click.argument("run", callback=run_name)
@click.option("--supplier", help="The run's supplier; else what `push` has noted here.")
@reaches_the_service
def watch(run: str, supplier: str | None, access: Access) -> int:
    """Show a run until everything in it has ended. Exit code 1 when anything has ended in ERRORED."""
    console = out()
    code, words = watch_runs(access.client(), run, [supplier_of(run, supplier)], err(), console)
    if words:
        next_step(console, *words, *access.words)
    return code


def watch_runs(
    client: "Client", run: str, suppliers: Sequence[str], console: Console, out: Console, expected: int = 0
) -> tuple[int, list[str]]:
    """Watch a run with each of its suppliers, one after the other; it has so many accounts at least, or soon will.

    Gives the exit code and the words of the next command.
    """
    code, words = OK, list[str]()
    for supplier in suppliers:
        try:
            ended = _watched(client, run, supplier, console, expected)
        except NotFound as error:
            no_such_run(run, supplier, error)
        counts = " · ".join(f"{status} {number(count)}" for status, count in sorted(ended.by_status.items()))
        warned = f" · with warnings {number(ended.warned)}" if ended.warned else ""
        say(
            out, f"run {run} · {supplier} · {number(ended.total)} accounts · {counts or 'nothing was taken in'}{warned}"
        )
        if ended.failed and code == OK:
            code, words = SOMETHING_WRONG, ["errors", run, "--supplier", supplier]
        elif ended.by_status.get("PROCESSED") and not words:
            words = _is_everything_there(run, supplier)
    return code, words


def _is_everything_there(run: str, supplier: str) -> list[str]:
    """The command that counts the source, or the one that compares where that has been done."""
    note, manifest = recall(run, Path.cwd()), f"{run}.manifest.json"
    if note is None or STDIN in note.files or Path(manifest).exists():
        return ["reconcile", run, "--supplier", supplier, "--manifest", manifest]
    mapped = ["--mapping", note.mapping] if note.mapping else []
    of_supplier = ["--supplier", note.supplier] if note.supplier else []
    return ["manifest", *note.files, *mapped, *of_supplier, "-o", manifest]


def _watched(client: "Client", run: str, supplier: str, console: Console, expected: int) -> Run:
    settled, late = 0, time.monotonic() + LATE_S
    with _showing(console) as show:
        while True:
            is_late = expected and time.monotonic() < late
            try:
                now = client.run(supplier, run)
            except NotFound:
                if not is_late:
                    raise
            else:
                show(now)
                is_settled = not now.waiting and (now.total >= expected or not is_late)
                settled = settled + 1 if is_settled else 0
                if settled >= (1 if expected else SETTLED):
                    return now
            time.sleep(PAUSE_S)


@contextlib.contextmanager
def _showing(console: Console) -> Iterator[Callable[[Run], None]]:
    if console.is_terminal and not console.is_dumb_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda run: live.update(_table(run))
    else:
        said = [0.0]

        def show(run: Run) -> None:
            if time.monotonic() - said[0] >= EVERY_S:
                said[0] = time.monotonic()
                say(console, _line(run))

        yield show


def _line(run: Run) -> str:
    parts = [run.run, *(f"{status} {number(count)}" for status, count in sorted(run.by_status.items()))]
    if run.processed_per_s:
        parts.append(f"{run.processed_per_s:,.1f}/s")
    if run.eta_s and run.waiting:
        parts.append(f"ETA {duration(run.eta_s)}")
    return " · ".join(parts)


def _table(run: Run) -> Table:
    table = Table(title=visible(f"run {run.run} · {run.import_supplier}"))
    table.add_column("status")
    table.add_column("accounts", justify="right")
    for status, count in sorted(run.by_status.items()):
        table.add_row(visible(status), number(count))
    if run.refused:
        table.add_row("refused", number(run.refused))
    pace = f"{run.processed_per_s:,.1f}/s" if run.processed_per_s else ""
    left = f"ETA {duration(run.eta_s)}" if run.eta_s and run.waiting else ""
    table.caption = " · ".join(part for part in (pace, left) if part) or None
    return table
