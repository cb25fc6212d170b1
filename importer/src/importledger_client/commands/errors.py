"""`importbook errors`: what accounts of a run are refused for or have failed with, and what to mend first."""

import itertools
from pathlib import Path

import click
import msgspec
from rich.console import Console

from importledger_client.answers import FieldError, Run
from importledger_client.commands.common import (
    Access,
    Stop,
    next_step,
    no_such_run,
    out,
    reaches_the_service,
    run_name,
    say,
    supplier_of,
)
from importledger_client.commands.exit_codes import OK
from importledger_client.display import number
from importledger_client.errors import ImportLedgerError, Misconfigured, NotFound
from importledger_client.failures import csv_path, ndjson_path, read_failures, read_warnings, value_at
from importledger_client.notes import Note, recall
from importledger_client.pushing import kinds_of
from importledger_client.sources import STDIN
from importledger_client.tally import MOST_KINDS, Kind, Sample, Tally, kind_of, masked

ENDED_BADLY = ("ERRORED", "DRY_RUN_ERRORED")


class Found(msgspec.Struct):
    """The errors and warnings of a run. `of_service` and `warned_of_service` are counts that the service keeps, for
    kinds of which this folder has no account."""

    tally: Tally
    of_service: dict[Kind, int]
    warned: Tally
    warned_of_service: dict[Kind, int]
    warned_accounts: int = 0
    """As the service counts them."""

    def numbers(self) -> dict[Kind, int]:
        return self.of_service | dict(self.tally.numbers)

    def warnings(self) -> dict[Kind, int]:
        return self.warned_of_service | dict(self.warned.numbers)


@click.command()
@click.argument("run", callback=run_name)
@click.option("--since", callback=run_name, metavar="RUN", help="Say what is new, and what is gone, since that run.")
@click.option("--supplier", help="The run's supplier; else what `push` has noted here.")
@reaches_the_service
def errors(run: str, since: str | None, supplier: str | None, access: Access) -> int:
    """Show the errors of a run by code and path: how many accounts, and a sample with its value masked.

    Refused accounts are in RUN.failures.ndjson in this folder, warnings in RUN.failures.csv. Accounts that failed later
    are read from the service.
    """
    console = out()
    found = _found(run, supplier, access)
    numbers = found.numbers()
    if not numbers:
        say(console, f"run {run}: nothing was refused, and nothing has failed.")
    else:
        say(console, f"run {run}: {number(found.tally.accounts or sum(numbers.values()))} accounts with errors")
        _show_kinds(console, numbers, found.tally)
        _show_best(console, found.tally)
    if warnings := found.warnings():
        say(console, f"run {run}: {number(found.warned.accounts or found.warned_accounts)} accounts with warnings")
        _show_kinds(console, warnings, found.warned)
    if since:
        _compare(console, numbers, since, _found(since, supplier, access).numbers())
    if numbers and (words := _mended(run)):
        next_step(console, *words, *access.words)
    return OK


def _mended(run: str) -> list[str]:
    """The command that sends what was mended: the file of failures, or the whole book again."""
    note, failures = recall(run, Path.cwd()), ndjson_path(run, Path())
    note = note or Note(run)
    of_supplier = ["--supplier", note.supplier] if note.supplier else []
    in_mode = [] if note.mode == "create" else ["--mode", note.mode]
    if failures.exists():
        return ["push", failures.name, *of_supplier, *in_mode, "--run", run]
    mapped = ["--mapping", note.mapping] if note.mapping else []
    files = [file for file in note.files if file != STDIN]
    return ["push", *files, *mapped, *of_supplier, *in_mode, "--run", run] if files else []


def _found(run: str, supplier: str | None, access: Access) -> Found:
    found = Found(Tally(), {}, Tally(), {})
    has_file = ndjson_path(run, Path.cwd()).exists()
    for failed in read_failures(run, Path.cwd()):
        payload = bytes(failed.payload)
        external = _external(payload)
        found.tally.add(kinds_of(external, payload, failed.errors))
    for _, rows in itertools.groupby(read_warnings(run, Path.cwd()), key=lambda row: row["line"]):
        found.warned.add(map(_warning, rows))
    try:
        _ask_service(found, run, supplier, access, has_file=has_file)
    except (Stop, ImportLedgerError) as error:
        if not has_file and recall(run, Path.cwd()) is None:
            raise
        if not isinstance(error, Misconfigured):
            say(out(), f"Errors and warnings that only the service knows are missing: {error}")
    return found


def _ask_service(found: Found, run: str, supplier: str | None, access: Access, *, has_file: bool) -> None:
    supplier = supplier_of(run, supplier)
    client = access.client()
    try:
        record: Run = client.run(supplier, run)
    except NotFound as error:
        if has_file or recall(run, Path.cwd()):
            return
        no_such_run(run, supplier, error)
    for status in ENDED_BADLY:
        if record.by_status.get(status):
            for failure in client.failures(supplier, run, status=status):
                external = failure.external_account_number
                found.tally.add(kinds_of(external, b"", failure.errors or (FieldError("", status, ""),)))
    if not has_file and record.refused:
        found.of_service |= {(error.code, error.path): error.number for error in record.errors}
    if not csv_path(run, Path.cwd()).exists():
        found.warned_accounts = record.warned
        found.warned_of_service |= {(one.code, one.path): one.number for one in record.warnings}


def _warning(row: dict[str, str]) -> tuple[Kind, Sample]:
    """A row of the table of failures, its value masked."""
    kind = kind_of(FieldError(row["path"], row["code"]))
    return kind, Sample(row["number"], masked(row["value"].removeprefix("'")), row["sentence"])


def _external(payload: bytes) -> str | None:
    try:
        said = value_at(msgspec.json.decode(payload), "external_account_number")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return said if isinstance(said, str) else None


def _show_kinds(console: Console, numbers: dict[Kind, int], tally: Tally) -> None:
    for kind in sorted(numbers, key=lambda k: (-numbers[k], k)):
        code, path = kind
        say(console, f"{number(numbers[kind]):>9}  {code}  {path}".rstrip())
        if sample := tally.samples.get(kind):
            value = f" {sample.value}" if sample.value else ""
            say(console, f"           {sample.number}:{value}  {sample.detail}".replace(":  ", ": "))


def _show_best(console: Console, tally: Tally) -> None:
    best = tally.best(MOST_KINDS)
    if best:
        which = "this 1" if len(best) == 1 else f"these {len(best)}"
        say(console, f"Mending {which} clears {_percent(tally.clears(best))} %:")
        for code, path in best:
            say(console, f"  {code}  {path}".rstrip())


def _percent(share: float) -> str:
    """Never 100 before it is all."""
    return f"{share:.0f}" if share == 100 or share < 99.5 else "99"


def _compare(console: Console, now: dict[Kind, int], since: str, before: dict[Kind, int]) -> None:
    new, gone = sorted(now.keys() - before.keys()), sorted(before.keys() - now.keys())
    say(console, f"since {since}: {number(sum(before.values()))} → {number(sum(now.values()))}")
    for word, kinds, numbers in (("new", new, now), ("gone", gone, before)):
        for code, path in kinds:
            say(console, f"  {word:<5}{number(numbers[code, path]):>9}  {code}  {path}".rstrip())
    for kind in sorted(now.keys() & before.keys()):
        if now[kind] != before[kind]:
            say(
                console, f"  {'was':<5}{number(before[kind]):>9}, is {number(now[kind])}  {kind[0]}  {kind[1]}".rstrip()
            )
