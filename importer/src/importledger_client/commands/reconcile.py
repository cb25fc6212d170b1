"""`importbook reconcile`: compare a manifest with the platform, and write a certificate if both are equal."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from importledger_client.answers import JobProgress
from importledger_client.certificate import pdf_of
from importledger_client.commands import INTERRUPTED, OK, SOMETHING_WRONG, common
from importledger_client.comparing import Comparison, compared
from importledger_client.display import Progress, counted, duration, number
from importledger_client.errors import ImportLedgerError, NotFound, Refused
from importledger_client.manifest import COUNTS, sums_filled
from importledger_client.protocol import NOT_UNDERSTOOD


@click.command(epilog="Example: importbook reconcile go-live --manifest go-live.manifest.json")
@click.argument("run", callback=common.run_name)
@click.option(
    "--manifest",
    "path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Manifest of the source, from `manifest`.",
)
@click.option(
    "--supplier", metavar="CODE", help="Supplier of the run. [default: as noted by `push` or in the manifest]"
)
@common.service_options
def reconcile(run: str, path: Path, supplier: str | None, access: common.Access) -> int:
    """Compare a manifest with the platform, and certify it.

    If both are equal, prints BALANCED and writes RUN.certificate.json and RUN.certificate.pdf. Otherwise prints every
    difference, with exit code 1.
    """
    manifest = _read(path)
    supplier = common.supplier_of(run, supplier, manifest.get("import_supplier"))
    console = common.out()
    client = access.client(lambda sentence: common.print_line(common.err(), sentence))
    refused: Refused | None = None
    try:
        record = client.run(supplier, run)
        if record.waiting:
            common.print_line(console, f"Still to end: {counted(record.waiting, 'account')}.")
        # The certificate first: a run that balances is then added up once.
        with _shown(run) as progress:
            try:
                content = {**manifest, "import_supplier": supplier}
                certificate = client.certificate(supplier, run, content, on_progress=progress)
                totals = certificate.get("totals")
            except Refused as error:
                refused, totals = error, client.totals(supplier, run, on_progress=progress)
    except NotFound as error:
        common.no_such_run(run, supplier, error)
    if not isinstance(totals, dict):
        raise ImportLedgerError(NOT_UNDERSTOOD)
    comparison = compared(manifest, totals)
    _show(console, manifest, totals, comparison)
    if not comparison.is_balanced:
        _show_differences(console, comparison)
        common.next_step(console, "watch" if record.waiting else "errors", run, "--supplier", supplier, *access.words)
        return SOMETHING_WRONG
    if refused is not None:
        _show_refusal(console, refused)
        return SOMETHING_WRONG
    _write(console, certificate, manifest, comparison, run)
    return OK


@contextlib.contextmanager
def _shown(run: str) -> Iterator[Callable[[JobProgress], None]]:
    """Yield a function that shows the progress of the job. Raises Stop for Ctrl-C."""
    why = ""
    with Progress(common.err()) as progress:

        def show(job: JobProgress) -> None:
            nonlocal why
            share = job.accounts_done / job.accounts if job.accounts else 0.0
            progress.show(line_of(f"reconcile {run}", job), share, is_news=job.why != why)
            why = job.why

        try:
            yield show
        except KeyboardInterrupt:
            sentence = "Interrupted. The service continues for 15 minutes; the same command again resumes it."
            raise common.Stop(sentence, INTERRUPTED) from None


def line_of(title: str, job: JobProgress) -> str:
    """Return the progress of the job as a line."""
    parts = [title, f"{number(job.accounts_done)} of {counted(job.accounts, 'account')} added up"]
    if job.eta_s is not None and job.accounts_done < job.accounts:
        parts.append(f"ETA {duration(job.eta_s)}")
    return " · ".join([*parts, job.why] if job.why else parts)


def _read(path: Path) -> dict[str, Any]:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        manifest = {}
    if "accounts" not in manifest or "paths" not in manifest:
        raise common.Stop(
            f"{path} is no manifest. Make one with: {common.command('manifest', 'FILE', '-o', 'NEW.manifest.json')}"
        )
    return manifest


def _show(console: Console, manifest: Mapping[str, Any], totals: Mapping[str, Any], comparison: Comparison) -> None:
    rows = [(name, manifest.get(name, 0), totals.get(name, 0)) for name in ("accounts", *COUNTS)]
    sums, platform = manifest["sums"], totals.get("sums", {})
    rows += [(f"sum of {name}", sums.get(name), platform.get(name)) for name in sums_filled(manifest, totals)]
    for code, ledger in manifest.get("by_ledger", {}).items():
        platform = totals.get("by_ledger", {}).get(code, {})
        rows.append((f"ledger {code}", ledger.get("balance_sum"), platform.get("balance_sum", "–")))
    common.print_line(console, f"{'':<22}{'source':>20}{'platform':>20}")
    for name, ours, theirs in rows:
        mark = "" if ours == theirs else "   <-- differs"
        common.print_line(console, f"{name.replace('_', ' '):<22}{_cell(ours):>20}{_cell(theirs):>20}{mark}")
    paths = len(manifest["paths"])
    unaccounted = paths - comparison.stored - len(comparison.dropped)
    common.print_line(
        console,
        f"payload paths {paths} · stored {comparison.stored} · dropped by a rule {len(comparison.dropped)}"
        f" · unaccounted {unaccounted}",
    )
    for path in comparison.dropped:
        common.print_line(console, f"  {path}: dropped by the supplier's setting unknown_fields=ignore")


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int) else str(value)


def _show_differences(console: Console, comparison: Comparison) -> None:
    common.print_line(console, f"Differences: {len(comparison.differences)}")
    for found in comparison.differences:
        note = f" ({found.note})" if found.note else ""
        common.print_line(console, f"  {found.name}: source {found.source}, platform {found.platform}{note}")


def _show_refusal(console: Console, refused: Refused) -> None:
    common.print_line(console, f"The service issues no certificate: {refused.code}")
    for error in refused.errors:
        common.print_line(console, f"  {error.attr}: {error.detail}".replace("  : ", "  "))


def _write(
    console: Console, certificate: Mapping[str, Any], manifest: Mapping[str, Any], comparison: Comparison, run: str
) -> None:
    as_json, as_page = Path(f"{run}.certificate.json"), Path(f"{run}.certificate.pdf")
    as_json.write_bytes(msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n")
    as_page.write_bytes(pdf_of(certificate, manifest, comparison.stored))
    common.print_line(console, f"BALANCED. The signed certificate is {as_json}; {as_page} is for reading.")
