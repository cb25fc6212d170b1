"""`importbook errors`: show the errors and warnings of a run, in the order in which to fix them."""

import itertools
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from importledger_client.answers import FieldError
from importledger_client.commands import OK, common
from importledger_client.display import counted, number
from importledger_client.error_counts import MOST_KINDS, ErrorCounts, Kind, Sample, kind_of, kinds_of, masked
from importledger_client.errors import ImportLedgerError, Misconfigured, NotFound
from importledger_client.failures import csv_path, ndjson_path, read_failures, read_warnings
from importledger_client.failures_workbook import workbook_path, write_workbook
from importledger_client.language import _, translatable
from importledger_client.notes import Note, load_note
from importledger_client.sources import STDIN, number_of

ENDED_BADLY = ("ERRORED", "DRY_RUN_ERRORED")


class Found(msgspec.Struct):
    """Errors or warnings of a run: from the files in this folder, and the service's counts for other accounts."""

    error_counts: ErrorCounts
    of_service: dict[Kind, int] = {}
    accounts_of_service: int = 0
    failed: dict[str, tuple[FieldError, ...]] = {}
    """Errors of each account, by its number; "" for all accounts without one."""

    def add(self, external: str | None, content: bytes, errors: tuple[FieldError, ...]) -> None:
        """Add an account that was refused or has failed."""
        self.error_counts.add(kinds_of(external, content, errors))
        known = self.failed.get(external or "", ())
        self.failed[external or ""] = (*known, *(error for error in errors if error not in known))

    def numbers(self) -> dict[Kind, int]:
        return self.of_service | dict(self.error_counts.numbers)

    def show(self, console: Console, run: str, title: str, *, clears: bool) -> None:
        """Print the errors or warnings; with `clears`, also the share of accounts that have no other error."""
        numbers = self.numbers()
        accounts = self.error_counts.accounts or self.accounts_of_service or sum(numbers.values())
        common.print_line(console, _(title, run=run, accounts=counted(accounts, "account")))
        for cause in self.error_counts.causes():
            share = "  " + _("fixing it clears {share} %", share=_percent(cause.clears)) if clears else ""
            if len(cause.kinds) > 1:
                fields = _("in {number} fields", number=len(cause.kinds))
                common.print_line(console, f"{number(cause.accounts):>9}  {cause.code}  {fields}{share}")
            for kind in cause.kinds:
                self._show_kind(console, kind, share if len(cause.kinds) == 1 else "")
        for kind in sorted(self.of_service.keys() - self.error_counts.numbers.keys()):
            self._show_kind(console, kind)

    def _show_kind(self, console: Console, kind: Kind, share: str = "") -> None:
        common.print_line(console, f"{number(self.numbers()[kind]):>9}  {kind[0]}  {kind[1]}".rstrip() + share)
        if sample := self.error_counts.samples.get(kind):
            value = f" {sample.value}" if sample.value else ""
            common.print_line(console, f"           {sample.number}:{value}  {sample.detail}".replace(":  ", ": "))

    def record(self) -> dict[str, Any]:
        """Return the numbers by cause, for JSON. Values of samples are masked; `clears` is a percentage."""
        causes = [
            {
                "code": cause.code,
                "accounts": cause.accounts,
                "clears": round(cause.clears, 1),
                "paths": [self._record_of(kind) for kind in cause.kinds],
            }
            for cause in self.error_counts.causes()
        ]
        further = self.of_service.keys() - self.error_counts.numbers.keys()
        return {
            "accounts": self.error_counts.accounts or self.accounts_of_service,
            "causes": causes,
            "of_service": [
                {"code": code, "path": path, "submissions": self.of_service[code, path]}
                for code, path in sorted(further)
            ],
        }

    def _record_of(self, kind: Kind) -> dict[str, Any]:
        sample = self.error_counts.samples[kind]
        example = {"external_account_number": sample.number, "value": sample.value, "sentence": sample.detail}
        return {"path": kind[1], "accounts": self.error_counts.numbers[kind], "example": example}


@click.command(epilog="Example: importbook errors reh-2 --since reh-1")
@click.argument("run", callback=common.run_name)
@click.option("--since", callback=common.run_name, metavar="RUN", help="Earlier run to compare with.")
@click.option("--json", "is_json", is_flag=True, help="JSON on standard output, and nothing else.")
@click.option("--excel", is_flag=True, help="RUN.failures.xlsx to correct, with the rows of these accounts.")
@common.run_supplier_option
@common.service_options
def errors(run: str, since: str | None, is_json: bool, excel: bool, supplier: str | None, access: common.Access) -> int:
    """Show the errors of a run, and which to fix first.

    Counts errors by code and path, each with an example whose value is masked. Reads refused accounts from
    RUN.failures.ndjson in this folder, warnings from RUN.failures.csv, and accounts that failed later from the service.
    --excel also writes the rows of these accounts as they are in the book, wrong cells marked, for `push`.
    """
    console = common.err() if is_json else common.out()
    found, warned = _found(run, supplier, access, console)
    if is_json:
        record = {"run": run, "errors": found.record(), "warnings": warned.record()}
        if since:
            record["since"] = {"run": since, "errors": _found(since, supplier, access, console)[0].record()}
        click.echo(msgspec.json.encode(record).decode())
    else:
        _show(console, run, since, found, warned, supplier, access)
    if excel and found.failed:
        name, sentences = write_workbook(run, Path.cwd(), found.failed)
        sentence = _("Correct the marked cells in {file}, save it, and send it.", file=name)
        common.print_line(console, *sentences, sentence)
    if not is_json and found.numbers() and (words := _corrected(run)):
        common.next_step(console, *words, access=access)
    return OK


def _show(
    console: Console,
    run: str,
    since: str | None,
    found: Found,
    warned: Found,
    supplier: str | None,
    access: common.Access,
) -> None:
    """Print the errors and warnings, those to fix first, and what has changed since another run."""
    numbers = found.numbers()
    if not numbers:
        common.print_line(console, _("run {run}: nothing was refused, and nothing has failed.", run=run))
    else:
        found.show(console, run, translatable("run {run}: {accounts} with errors"), clears=True)
        _show_best(console, found.error_counts)
    if warned.numbers():
        warned.show(console, run, translatable("run {run}: {accounts} with warnings"), clears=False)
    if since:
        _compare(console, numbers, since, _found(since, supplier, access, console)[0].numbers())


def _corrected(run: str) -> list[str]:
    """Return the command that sends the corrected accounts: the file of failures, or the whole book."""
    note, failures = load_note(run, Path.cwd()) or Note(run), ndjson_path(run, Path())
    if (workbook := workbook_path(run, Path())).exists() and _is_newer(workbook, failures):
        words = common.words_of(mapping=note.mapping, supplier=note.supplier, mode=note.mode)
        return ["push", workbook.name, *words, "--run", run]
    if failures.exists():
        return ["push", failures.name, *common.words_of(supplier=note.supplier, mode=note.mode), "--run", run]
    files = [file for file in note.files if file != STDIN]
    words = common.words_of(mapping=note.mapping, supplier=note.supplier, mode=note.mode)
    return ["push", *files, *words, "--run", run] if files else []


def _is_newer(path: Path, other: Path) -> bool:
    return not other.exists() or path.stat().st_mtime >= other.stat().st_mtime


def _found(run: str, supplier: str | None, access: common.Access, console: Console) -> tuple[Found, Found]:
    """Return the errors and the warnings of a run."""
    found, warned = Found(ErrorCounts()), Found(ErrorCounts())
    for failed in read_failures(run, Path.cwd()):
        payload = bytes(failed.payload)
        found.add(number_of(payload), payload, failed.errors)
    for __, rows in itertools.groupby(read_warnings(run, Path.cwd()), key=lambda row: row["line"]):
        warned.error_counts.add(map(_warning, rows))
    note = load_note(run, Path.cwd())
    is_known = ndjson_path(run, Path.cwd()).exists() or note is not None
    if note is not None and not note.suppliers and not supplier:  # no line had a supplier, so the service has none
        return found, warned
    try:
        _ask_service(found, warned, run, common.supplier_of(run, supplier), access, is_known=is_known)
    except (common.Stop, ImportLedgerError) as error:
        if not is_known:
            raise
        if not isinstance(error, Misconfigured):
            sentence = _("Errors and warnings that only the service has are missing: {error}", error=error)
            common.print_line(console, sentence)
    return found, warned


def _ask_service(
    found: Found, warned: Found, run: str, supplier: str, access: common.Access, *, is_known: bool
) -> None:
    client = access.client()
    try:
        record = client.run(supplier, run)
    except NotFound as error:
        if is_known:
            return
        common.no_such_run(run, supplier, error)
    for status in ENDED_BADLY:
        if record.by_status.get(status):
            for failure in client.failures(supplier, run, status=status):
                external = failure.external_account_number
                found.add(external, b"", failure.errors or (FieldError("", status, ""),))
    if not ndjson_path(run, Path.cwd()).exists() and record.refused:
        found.of_service = {(error.code, error.path): error.number for error in record.errors}
    if not csv_path(run, Path.cwd()).exists():
        warned.of_service = {(warning.code, warning.path): warning.number for warning in record.warnings}
        warned.accounts_of_service = record.warned


def _warning(row: dict[str, str]) -> tuple[Kind, Sample]:
    """Return the kind and the sample of a row in the CSV of failures, with a masked value."""
    kind = kind_of(FieldError(row["path"], row["code"]))
    return kind, Sample(row["number"], masked(row["value"].removeprefix("'")), row["sentence"])


def _percent(share: float) -> str:
    return f"{share:.0f}" if share == 100 or share < 99.5 else "99"  # 100 only if all errors are fixed


def _show_best(console: Console, error_counts: ErrorCounts) -> None:
    best = error_counts.best(MOST_KINDS)
    if best:
        share = _percent(error_counts.clears(best))
        singular = translatable("Fixing this {number} clears {share} %:")
        sentence = singular if len(best) == 1 else translatable("Fixing these {number} clears {share} %:")
        common.print_line(console, _(sentence, number=len(best), share=share))
        for code, path in best:
            common.print_line(console, f"  {code}  {path}".rstrip())


def _compare(console: Console, now: dict[Kind, int], since: str, before: dict[Kind, int]) -> None:
    new, solved = sorted(now.keys() - before.keys()), sorted(before.keys() - now.keys())
    title = _("since {run}:", run=since)
    common.print_line(console, f"{title} {number(sum(before.values()))} → {number(sum(now.values()))}")
    for word, kinds, numbers in ((_("new"), new, now), (_("gone"), solved, before)):
        for code, path in kinds:
            common.print_line(console, f"  {word:<5}{number(numbers[code, path]):>9}  {code}  {path}".rstrip())
    for kind in sorted(now.keys() & before.keys()):
        if now[kind] != before[kind]:
            line = f"  {_('was'):<5}{number(before[kind]):>9}, {_('is')} {number(now[kind])}  {kind[0]}  {kind[1]}"
            common.print_line(console, line.rstrip())
