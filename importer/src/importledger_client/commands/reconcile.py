"""`importbook reconcile`: compare a manifest with the platform, and write a certificate if both are equal."""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console

from importledger_client.answers import JobProgress
from importledger_client.certificate import pdf_of
from importledger_client.commands import INTERRUPTED, OK, SOMETHING_WRONG, common
from importledger_client.comparing import Comparison, compared
from importledger_client.differing import Differing, Found
from importledger_client.digest import BUCKETS
from importledger_client.display import Progress, counted, duration, number
from importledger_client.errors import ImportLedgerError, NotAllowed, NotFound, Refused
from importledger_client.manifest import FORMAT, SHOWN_COUNTS, sums_filled
from importledger_client.protocol import NOT_UNDERSTOOD
from importledger_client.sources import Unreadable

if TYPE_CHECKING:
    from importledger_client.client import Client

_MOST_NAMED, _MOST_VALUES = 1_000, 3
"""Most accounts that are listed, and most values of a field.

The file of differences has all accounts that can be pushed.
"""
_MOST_HEALED = 20
"""Commands to heal single accounts. For more accounts, a rebuild of the platform's tables is proposed."""
LOCAL = ("files", "mapping", "for_supplier")
"""Members of a manifest with the location of the source on this machine, which are not sent to the service."""
_CAUSES = {
    "platform": "the platform has lost or altered it",
    "source": "the source has changed after the push",
    "not_sent": "the run does not have it",
    "failed": "its import has failed",
    "waiting": "its import has not ended",
    "additional": "the source does not have it",
    "erased": "the person was erased",
    "unknown": "not compared with the log",
}
"""Sentences by the side of a difference."""
_PUSHED = frozenset({"source", "not_sent"})
"""Sides whose accounts can be pushed."""


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
@click.option("--show", "shows", is_flag=True, help="Clear values, for keys that may read histories. [default: masked]")
@click.option(
    "--repair",
    "repairs",
    is_flag=True,
    help="Repair of what is safe: failed imports are tried again, altered accounts healed.",
)
@common.service_options
def reconcile(run: str, path: Path, supplier: str | None, shows: bool, repairs: bool, access: common.Access) -> int:
    """Compare a manifest with the platform, and certify it.

    If manifest and platform are equal, prints BALANCED and writes RUN.certificate.json and RUN.certificate.pdf.
    Otherwise exits with 1, prints counts and accounts that differ, and for each account its fields, the side that has
    changed, and the command to run. RUN.differences.ndjson has the accounts to push again.
    """
    manifest = _read(path)
    supplier = common.supplier_of(run, supplier, manifest.get("import_supplier"))
    console = common.out()
    client = access.client(lambda sentence: common.print_line(common.err(), sentence))
    content = {name: value for name, value in manifest.items() if name not in LOCAL} | {"import_supplier": supplier}
    found: list[Found] = []
    try:
        record = client.run(supplier, run)
        if record.waiting:
            common.print_line(console, f"Still to end: {counted(record.waiting, 'account')}.")
        certificate, totals = _certified(client, supplier, run, content)
        comparison = compared(content, totals)
        _show(console, manifest, totals, comparison)
        differing = _differing(console, manifest, supplier) if comparison.buckets else None
        if differing is not None:
            found = differing.find(client, run, comparison.buckets, shows=shows)
            # these accounts differ only in spelling, for instance 0.5 and 0.50
            if not found and not comparison.differences:
                content["buckets"] = differing.balanced_buckets()
                certificate, totals = _certified(client, supplier, run, content)
                comparison = compared(content, totals)
    except NotFound as error:
        common.no_such_run(run, supplier, error)
    with contextlib.suppress(NotFound):
        client.cancel_totals(supplier, run)  # the next comparison reads the platform again
    if not isinstance(certificate, Refused) and comparison.is_balanced:
        _write(console, certificate, manifest, run)
        return OK
    _show_differences(console, comparison)
    _show_accounts(console, found)
    if isinstance(certificate, Refused) and not (found or comparison.differences):
        _show_refusal(console, certificate)
    if differing is not None:
        _write_differences(console, differing, found, run)
    if repairs:
        _repair(console, client, supplier, found)
    _show_commands(console, found, run, supplier, record.waiting, access)
    return SOMETHING_WRONG


def _certified(
    client: "Client", supplier: str, run: str, content: Mapping[str, Any]
) -> tuple[dict[str, Any] | Refused, dict[str, Any]]:
    """Return the certificate, or its refusal, and the totals of the run.

    The certificate is requested before the totals, so that a run that balances is added up only once.
    """
    with _shown(run) as progress:
        try:
            certificate: dict[str, Any] | Refused = client.certificate(supplier, run, content, on_progress=progress)
        except Refused as error:
            certificate = error
        if isinstance(certificate, Refused):
            return certificate, client.totals(supplier, run, on_progress=progress)
    totals = certificate.get("totals")
    if not isinstance(totals, dict):
        raise ImportLedgerError(NOT_UNDERSTOOD)
    return certificate, totals


def _differing(console: Console, manifest: Mapping[str, Any], supplier: str) -> Differing | None:
    """Return the accounts of the manifest's source; None if its files are not on this machine."""
    files, mapping = manifest.get("files", []), manifest.get("mapping", "")
    given = manifest.get("for_supplier") or None
    try:
        if files:
            return Differing(common.sources_of(files, Path(mapping) if mapping else None, given), supplier, manifest)
        reason = "The manifest was made from standard input."
    except Unreadable as error:
        reason = str(error)
    common.print_line(console, f"Accounts differ, and are not named. {reason}")
    return None


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
    if manifest.get("format") != FORMAT or len(manifest.get("buckets", ())) != len(BUCKETS):
        raise common.Stop(
            f"{path} is no manifest. Make one with: {common.command('manifest', 'FILE', '-o', 'NEW.manifest.json')}"
        )
    return manifest


def _show(console: Console, manifest: Mapping[str, Any], totals: Mapping[str, Any], comparison: Comparison) -> None:
    rows = [(name, manifest.get(name, 0), totals.get(name, 0)) for name in ("accounts", *SHOWN_COUNTS)]
    sums, platform = manifest["sums"], totals.get("sums", {})
    rows += [(f"sum of {name}", sums.get(name), platform.get(name)) for name in sums_filled(manifest, totals)]
    for code, ledger in manifest.get("by_ledger", {}).items():
        platform = totals.get("by_ledger", {}).get(code, {})
        rows.append((f"ledger {code}", ledger.get("balance_sum"), platform.get("balance_sum", "–")))
    common.print_line(console, f"{'':<22}{'source':>20}{'platform':>20}")
    for name, ours, theirs in rows:
        mark = "" if ours == theirs else "   <-- differs"
        common.print_line(console, f"{name.replace('_', ' '):<22}{_cell(ours):>20}{_cell(theirs):>20}{mark}")
    for path in comparison.dropped:
        common.print_line(console, f"  {path}: dropped by the supplier's setting unknown_fields=ignore")


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int) else str(value)


def _show_differences(console: Console, comparison: Comparison) -> None:
    if comparison.differences:
        common.print_line(console, f"Differences in counts and sums: {len(comparison.differences)}")
    for found in comparison.differences:
        note = f" ({found.note})" if found.note else ""
        common.print_line(console, f"  {found.name}: source {found.source}, platform {found.platform}{note}")


def _show_accounts(console: Console, found: Sequence[Found]) -> None:
    if found:
        common.print_line(console, f"Accounts that differ: {number(len(found))}")
    for account in found[:_MOST_NAMED]:
        common.print_line(console, f"  {account.number}: {account.difference.kind}, {_CAUSES[account.side]}")
        for field in account.fields:
            stored = f" ({field.stored})" if field.stored else ""
            sides = (", ".join(values[:_MOST_VALUES]) or "nothing" for values in (field.source, field.platform))
            common.print_line(console, "    {}: source {}, platform {}".format(field.path, *sides) + stored)
    if len(found) > _MOST_NAMED:
        common.print_line(console, f"  and {counted(len(found) - _MOST_NAMED, 'more account')}")


def _show_refusal(console: Console, refused: Refused) -> None:
    common.print_line(console, f"The service issues no certificate: {refused.code}")
    for error in refused.errors:
        common.print_line(console, f"  {error.attr}: {error.detail}".replace("  : ", "  "))


def _write_differences(console: Console, differing: Differing, found: Sequence[Found], run: str) -> None:
    """Write the accounts that can be pushed, for the user's eyes only."""
    pushed = [account.number for account in found if account.side in _PUSHED]
    path = Path(f"{run}.differences.ndjson")
    path.unlink(missing_ok=True)
    if pushed:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(line + b"\n" for line in differing.lines(pushed))
        common.print_line(console, f"{counted(len(pushed), 'account')} of the source to push, in {path}.")


def _show_commands(
    console: Console, found: Sequence[Found], run: str, supplier: str, waiting: int, access: common.Access
) -> None:
    """Print a command for each side that differs, and the operator's commands as a proposal."""
    numbers = {side: [account.number for account in found if account.side == side] for side in _CAUSES}
    healed = numbers["platform"]
    if len(healed) > _MOST_HEALED:
        common.print_line(console, "The operator restores the platform: importledger projections rebuild platform")
    for external in healed if len(healed) <= _MOST_HEALED else ():
        words = shlex.join(["importledger", "projections", "heal", supplier, external])
        common.print_line(console, f"The operator restores the account: {words}")
    if changed := numbers["source"]:
        words = shlex.join(["importledger", "revert", supplier, *changed[:1]])
        common.print_line(console, f"Before changed accounts are pushed, the operator reverts each: {words}")
    words_after = ["--supplier", supplier, *access.words]
    if any(account.side in _PUSHED for account in found):
        common.next_step(console, "push", f"{run}.differences.ndjson", "--run", run, *words_after)
    elif waiting:
        common.next_step(console, "watch", run, *words_after)
    else:
        common.next_step(console, "errors", run, *words_after)


def _repair(console: Console, client: "Client", supplier: str, found: Sequence[Found]) -> None:
    """Try failed imports again, and heal accounts that the platform has altered. Both are safe to repeat."""
    for side, action, noun in (("failed", client.retry, "try again"), ("platform", client.heal, "heal")):
        numbers = [account.number for account in found if account.side == side]
        if numbers:
            common.print_line(console, f"Repair: {noun} {counted(len(numbers), 'account')}: {', '.join(numbers)}")
        for external in numbers:
            try:
                action(supplier, external)
            except (Refused, NotAllowed) as error:
                common.print_line(console, f"  {external}: not repaired: {error}")


def _write(console: Console, certificate: Mapping[str, Any], manifest: Mapping[str, Any], run: str) -> None:
    as_json, as_page = Path(f"{run}.certificate.json"), Path(f"{run}.certificate.pdf")
    as_json.write_bytes(msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n")
    as_page.write_bytes(pdf_of(certificate, manifest))
    common.print_line(console, f"BALANCED. The signed certificate is {as_json}; {as_page} is for reading.")
