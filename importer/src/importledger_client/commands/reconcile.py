"""`importbook reconcile`: is everything that was in the source on the platform? Then a certificate says so."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console

from importledger_client.adding_up import shown_job
from importledger_client.certificate import pdf_of
from importledger_client.commands.common import (
    Access,
    Stop,
    command,
    err,
    next_step,
    no_such_run,
    out,
    reaches_the_service,
    run_name,
    say,
    supplier_of,
)
from importledger_client.commands.exit_codes import INTERRUPTED, OK, SOMETHING_WRONG
from importledger_client.comparing import Comparison, compared
from importledger_client.display import number
from importledger_client.errors import ImportLedgerError, NotFound, Refused
from importledger_client.incoming import NOT_UNDERSTOOD
from importledger_client.manifest import COUNTS, sums_filled

if TYPE_CHECKING:
    from importledger_client.client import Client


@click.command()
@click.argument("run", callback=run_name)
@click.option("--manifest", "path", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True)
@click.option("--supplier", help="The run's supplier; else what `push` has noted here, or the manifest says.")
@reaches_the_service
def reconcile(run: str, path: Path, supplier: str | None, access: Access) -> int:
    """Compare a manifest with what the platform's tables hold, and have it certified.

    Balanced: prints BALANCED, and writes RUN.certificate.json and RUN.certificate.pdf. Else every difference is named,
    and the exit code is 1.
    """
    manifest = _read(path)
    supplier = supplier_of(run, supplier, manifest.get("import_supplier"))
    console = out()
    client = access.client(_teller(err()))
    try:
        record = client.run(supplier, run)
        if record.waiting:
            say(console, f"{number(record.waiting)} accounts have not ended yet.")
        reconciled = _reconciled(client, supplier, run, {**manifest, "import_supplier": supplier})
    except NotFound as error:
        no_such_run(run, supplier, error)
    comparison = compared(manifest, reconciled.totals)
    _show(console, manifest, reconciled.totals, comparison)
    if not comparison.is_balanced:
        return _differs(console, comparison, run, supplier, access, is_waiting=bool(record.waiting))
    if reconciled.certificate is None:
        return _not_certified(console, reconciled.refused)
    return _write(console, reconciled.certificate, manifest, comparison, run)


class Reconciled(msgspec.Struct, frozen=True):
    """What the service says of a run: what it adds up to, and its certificate or why there is none."""

    totals: Mapping[str, Any]
    certificate: Mapping[str, Any] | None = None
    refused: Refused | None = None


def _reconciled(client: "Client", supplier: str, run: str, manifest: Mapping[str, Any]) -> Reconciled:
    """Ask for the certificate first, so that a run that balances is added up once."""
    with _continued_later(), shown_job(err(), f"reconcile {run}") as tell:
        try:
            certificate = client.certificate(supplier, run, manifest, on_progress=tell)
        except Refused as refused:
            return Reconciled(client.totals(supplier, run, on_progress=tell), refused=refused)
    if not isinstance(totals := certificate.get("totals"), dict):
        raise ImportLedgerError(NOT_UNDERSTOOD)
    return Reconciled(totals, certificate)


@contextlib.contextmanager
def _continued_later() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        sentence = "Interrupted. The service goes on for 15 minutes: type the same again to continue."
        raise Stop(sentence, INTERRUPTED) from None


def _teller(console: Console) -> Callable[[str, float], None]:
    """Says why the service cannot be used just now, once for each reason."""
    told = ""

    def tell(why: str, seconds: float) -> None:
        nonlocal told
        if why != told:
            told = why
            say(console, f"The service cannot be used just now, trying again: {why}")

    return tell


def _read(path: Path) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = {}
    if "accounts" not in said or "paths" not in said:
        raise Stop(f"{path} is no manifest. Make one with: {command('manifest', 'FILE', '-o', 'NEW.manifest.json')}")
    return said


def _show(console: Console, manifest: Mapping[str, Any], totals: Mapping[str, Any], comparison: Comparison) -> None:
    rows = [(name, manifest.get(name, 0), totals.get(name, 0)) for name in ("accounts", *COUNTS)]
    sums, held = manifest["sums"], totals.get("sums", {})
    rows += [(f"sum of {name}", sums.get(name), held.get(name)) for name in sums_filled(manifest, totals)]
    for code, said in manifest.get("by_ledger", {}).items():
        held = totals.get("by_ledger", {}).get(code, {})
        rows.append((f"ledger {code}", said.get("balance_sum"), held.get("balance_sum", "–")))
    say(console, f"{'':<22}{'source':>20}{'platform':>20}")
    for name, ours, theirs in rows:
        mark = "" if ours == theirs else "   <-- differs"
        say(console, f"{name.replace('_', ' '):<22}{_cell(ours):>20}{_cell(theirs):>20}{mark}")
    paths = len(manifest["paths"])
    unaccounted = paths - comparison.stored - len(comparison.dropped)
    say(
        console,
        f"payload paths {paths} · stored {comparison.stored} · dropped by a rule {len(comparison.dropped)}"
        f" · unaccounted {unaccounted}",
    )
    for path in comparison.dropped:
        say(console, f"  {path}: dropped by the supplier's setting unknown_fields=ignore")


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int) else str(value)


def _differs(
    console: Console, comparison: Comparison, run: str, supplier: str, access: Access, *, is_waiting: bool
) -> int:
    say(console, f"Differences: {len(comparison.differences)}")
    for found in comparison.differences:
        note = f" ({found.note})" if found.note else ""
        say(console, f"  {found.name}: source {found.source}, platform {found.platform}{note}")
    next_step(console, "watch" if is_waiting else "errors", run, "--supplier", supplier, *access.words)
    return SOMETHING_WRONG


def _not_certified(console: Console, refused: Refused | None) -> int:
    say(console, f"The service does not certify it: {refused.code if refused else ''}")
    for error in refused.errors if refused else ():
        say(console, f"  {error.attr}: {error.detail}".replace("  : ", "  "))
    return SOMETHING_WRONG


def _write(
    console: Console, certificate: Mapping[str, Any], manifest: Mapping[str, Any], comparison: Comparison, run: str
) -> int:
    as_json, as_page = Path(f"{run}.certificate.json"), Path(f"{run}.certificate.pdf")
    as_json.write_bytes(msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n")
    as_page.write_bytes(pdf_of(certificate, manifest, comparison.stored))
    say(console, f"BALANCED. {as_json} and {as_page} say so, signed.")
    return OK
