"""`importbook watch`: show a run until all of its accounts have ended."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from rich.console import Console

from importledger_client.answers import Run
from importledger_client.commands import OK, SOMETHING_WRONG, common
from importledger_client.display import Progress, counted, duration, number
from importledger_client.errors import NotFound
from importledger_client.language import _
from importledger_client.notes import load_note
from importledger_client.sources import STDIN

if TYPE_CHECKING:
    from importledger_client.client import Client

PAUSE_S = 0.5
SETTLED = 3
"""Number of successive answers that must show the run as ended, since counts may be a second late."""
LATE_S = 15.0
"""Time after a push in which the run may lack replayed accounts, or show accounts as cancelled [seconds]."""


class Expected(NamedTuple):
    """Accounts that a push has sent to a run. The service always adds accepted accounts, but maybe later."""

    accepted: int = 0
    replayed: int = 0
    """With lines that occur twice, which the run has once."""


@click.command(epilog="Example: importbook watch go-live")
@click.argument("run", callback=common.run_name)
@common.run_supplier_option
@common.service_options
def watch(run: str, supplier: str | None, access: common.Access) -> int:
    """Show a run until all of its accounts have ended.

    Exit code 1 if an account has ended in ERRORED or DRY_RUN_ERRORED.
    """
    console = common.out()
    suppliers = {common.supplier_of(run, supplier): Expected()}
    code, words = watch_runs(access.client(), run, suppliers, common.err(), console)
    if words:
        common.next_step(console, *words, access=access)
    return code


def watch_runs(
    client: "Client", run: str, suppliers: Mapping[str, Expected], console: Console, out: Console
) -> tuple[int, list[str]]:
    """Watch a run of each supplier until it has the expected accounts, and none of its accounts waits.

    Returns the exit code and the words of the next command.
    """
    code, words = OK, list[str]()
    for supplier, expected in suppliers.items():
        try:
            ended = _watched(client, run, supplier, console, expected)
        except NotFound as error:
            common.no_such_run(run, supplier, error)
        counts = " · ".join(_counts(ended)) or _("nothing was accepted")
        warned = f" · {_('with warnings')} {number(ended.warned)}" if ended.warned else ""
        common.print_line(out, f"{_('run')} {run} · {supplier} · {_total(ended)} · {counts}{warned}")
        if ended.failed and code == OK:
            code, words = SOMETHING_WRONG, ["errors", run, "--supplier", supplier]
        elif ended.by_status.get("PROCESSED") and not words:
            words = _next_proof(run, supplier)
    return code, words


def _next_proof(run: str, supplier: str) -> list[str]:
    """Return the command that counts the source, or if the manifest exists, the command that compares it."""
    note, manifest = load_note(run, Path.cwd()), f"{run}.manifest.json"
    if note is None or STDIN in note.files or Path(manifest).exists():
        return ["reconcile", run, "--supplier", supplier, "--manifest", manifest]
    return ["manifest", *note.files, *common.words_of(mapping=note.mapping, supplier=note.supplier), "-o", manifest]


def _watched(client: "Client", run: str, supplier: str, console: Console, expected: Expected) -> Run:
    settled, late = 0, time.monotonic() + LATE_S
    with Progress(console) as display:
        while True:
            is_late = sum(expected) > 0 and time.monotonic() < late
            try:
                now = client.run(supplier, run)
            except NotFound:
                if not (is_late or expected.accepted):
                    raise
                now = Run(run=run, import_supplier=supplier)
            listed = now.total - now.by_status.get("VALID", 0)  # validations are not stored
            display.show(_line(now, expected.accepted - listed), 1 - now.waiting / now.total if now.total else 0.0)
            ended = listed - now.by_status.get("CANCELLED", 0)  # cancelled accounts have just been sent again
            is_complete = listed >= expected.accepted and (ended >= sum(expected) or not is_late)
            settled = settled + 1 if is_complete and not now.waiting else 0
            if settled >= (1 if sum(expected) else SETTLED):
                return now
            time.sleep(PAUSE_S)


def _counts(run: Run) -> list[str]:
    return [f"{status} {number(count)}" for status, count in sorted(run.by_status.items())]


def _total(run: Run) -> str:
    """Return the number of accounts and validations. The service records no accounts of validations."""
    validated = run.by_status.get("VALID", 0)
    accounts = counted(run.total - validated, "account")
    return f"{accounts} · {counted(validated, 'validation')}" if validated else accounts


def _line(run: Run, missing: int) -> str:
    parts = [run.run, *_counts(run)]
    if missing > 0:
        parts.append(_("accepted, not listed yet: {number}", number=number(missing)))
    if run.refused:
        parts.append(f"{_('refused attempts')} {number(run.refused)}")
    if run.processed_per_s:
        parts.append(f"{number(run.processed_per_s, 1)}/s")
    if run.eta_s and run.waiting:
        parts.append(_("ETA {time}", time=duration(run.eta_s)))
    return " · ".join(parts)
