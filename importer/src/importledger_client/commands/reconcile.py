"""`importbook reconcile`: compare a manifest with the platform, and write a certificate if both are equal."""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console

from importledger_client import notes
from importledger_client.answers import JobProgress
from importledger_client.certificate import pdf_of
from importledger_client.commands import INTERRUPTED, OK, SOMETHING_WRONG, common
from importledger_client.comparing import Comparison, compared
from importledger_client.differing import Differing, Found
from importledger_client.digest import BUCKETS
from importledger_client.display import Progress, amount, counted, duration, number
from importledger_client.errors import ImportLedgerError, NotAllowed, NotFound, Refused
from importledger_client.failures import private_file
from importledger_client.language import _, translatable
from importledger_client.manifest import FORMAT, SHOWN_COUNTS, sums_filled
from importledger_client.protocol import NOT_JSON, NOT_UNDERSTOOD
from importledger_client.sources import Unreadable
from importledger_client.unfinished import write_whole

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
    "platform": translatable("the platform has lost or altered it"),
    "source": translatable("the source has changed after the push"),
    "not_sent": translatable("the run does not have it"),
    "failed": translatable("its import has failed"),
    "waiting": translatable("its import has not ended"),
    "additional": translatable("the source does not have it"),
    "erased": translatable("the person was erased"),
    "unknown": translatable("not compared with the log"),
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
    _check_supplier(manifest, supplier, run)
    console = common.out()
    client = access.client(lambda sentence: common.print_line(common.err(), sentence))
    content = {name: value for name, value in manifest.items() if name not in LOCAL} | {"import_supplier": supplier}
    found: list[Found] = []
    try:
        record = client.run(supplier, run)
        if record.waiting:
            common.print_line(console, _("Still to end: {accounts}.", accounts=counted(record.waiting, "account")))
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


def _check_supplier(manifest: Mapping[str, Any], supplier: str, run: str) -> None:
    """Raise Stop for accounts of another supplier, unless `push` has replaced their supplier: all would be missing, and
    a push of the differences would create them under this supplier, too.
    """
    named, note = manifest.get("import_supplier"), notes.load_note(run, Path.cwd())
    if named and named != supplier and not (note and note.supplier == supplier):
        raise common.Stop(
            "The manifest has accounts of {named}, not of {supplier}. If {supplier} was the --supplier of the push,"
            " make the manifest with the same --supplier.",
            named=named,
            supplier=supplier,
        )


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
        raise ImportLedgerError(_(NOT_UNDERSTOOD))
    return certificate, totals


def _differing(console: Console, manifest: Mapping[str, Any], supplier: str) -> Differing | None:
    """Return the accounts of the manifest's source; None if its files are not on this machine."""
    files, mapping = manifest.get("files", []), manifest.get("mapping", "")
    given = manifest.get("for_supplier") or None
    try:
        if files:
            return Differing(common.sources_of(files, Path(mapping) if mapping else None, given), supplier, manifest)
        reason = _("The manifest was made from standard input.")
    except Unreadable as error:
        reason = str(error)
    common.print_line(console, _("Accounts differ, and are not named. {reason}", reason=reason))
    return None


@contextlib.contextmanager
def _shown(run: str) -> Iterator[Callable[[JobProgress], None]]:
    """Yield a function that shows the progress of the job. Raises Stop for Ctrl-C."""
    why = ""
    with Progress(common.err()) as progress:

        def show(job: JobProgress) -> None:
            nonlocal why
            share = job.accounts_done / job.accounts if job.accounts else 0.0
            progress.show(line_of(_("reconcile {run}", run=run), job), share, is_news=job.why != why)
            why = job.why

        try:
            yield show
        except KeyboardInterrupt:
            raise common.Stop(
                "Interrupted. The service continues for 15 minutes; the same command again resumes it.", INTERRUPTED
            ) from None


def line_of(title: str, job: JobProgress) -> str:
    """Return the progress of the job as a line."""
    done, accounts = number(job.accounts_done), counted(job.accounts, "account")
    parts = [title, _("{done} of {accounts} added up", done=done, accounts=accounts)]
    if job.eta_s is not None and job.accounts_done < job.accounts:
        parts.append(_("ETA {time}", time=duration(job.eta_s)))
    return " · ".join([*parts, job.why] if job.why else parts)


def _read(path: Path) -> dict[str, Any]:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except NOT_JSON:
        manifest = {}
    if manifest.get("format") != FORMAT or len(manifest.get("buckets", ())) != len(BUCKETS):
        command = common.command("manifest", _("FILE"), "-o", "NEW.manifest.json")
        raise common.Stop("{file} is no manifest. Make one with: {command}", file=path, command=command)
    return manifest


def _show(console: Console, manifest: Mapping[str, Any], totals: Mapping[str, Any], comparison: Comparison) -> None:
    rows = [(common.label(name), manifest.get(name, 0), totals.get(name, 0)) for name in ("accounts", *SHOWN_COUNTS)]
    sums, platform = manifest["sums"], totals.get("sums", {})
    rows += [
        (_("sum of {name}", name=common.label(name)), sums.get(name), platform.get(name))
        for name in sums_filled(manifest, totals)
    ]
    for code, ledger in manifest.get("by_ledger", {}).items():
        platform = totals.get("by_ledger", {}).get(code, {})
        rows.append((_("ledger {code}", code=code), ledger.get("balance_sum"), platform.get("balance_sum", "–")))
    common.print_line(console, f"{'':<22}{_('source'):>20}{_('platform'):>20}")
    for name, ours, theirs in rows:
        mark = "" if ours == theirs else "   <-- " + _("differs")
        common.print_line(console, f"{name:<22}{_cell(ours):>20}{_cell(theirs):>20}{mark}")
    for path in comparison.dropped:
        common.print_line(console, f"  {path}: " + _("dropped by the supplier's setting unknown_fields=ignore"))


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int) else amount(str(value))


def _show_differences(console: Console, comparison: Comparison) -> None:
    if comparison.differences:
        common.print_line(console, _("Differences in counts and sums: {number}", number=len(comparison.differences)))
    for found in comparison.differences:
        note = f" ({found.note})" if found.note else ""
        sides = _("source {source}, platform {platform}", source=found.source, platform=found.platform)
        common.print_line(console, f"  {found.name}: {sides}{note}")


def _show_accounts(console: Console, found: Sequence[Found]) -> None:
    if found:
        common.print_line(console, _("Accounts that differ: {number}", number=number(len(found))))
    for account in found[:_MOST_NAMED]:
        common.print_line(console, f"  {account.number}: {_(account.difference.kind)}, {_(_CAUSES[account.side])}")
        for field in account.fields:
            stored = f" ({field.stored})" if field.stored else ""
            source, platform = (
                ", ".join(values[:_MOST_VALUES]) or _("nothing") for values in (field.source, field.platform)
            )
            sides = _("source {source}, platform {platform}", source=source, platform=platform)
            common.print_line(console, f"    {field.path}: {sides}{stored}")
    if len(found) > _MOST_NAMED:
        common.print_line(console, "  " + _("and {more}", more=counted(len(found) - _MOST_NAMED, "more account")))


def _show_refusal(console: Console, refused: Refused) -> None:
    common.print_line(console, _("The service issues no certificate: {code}", code=refused.code))
    for error in refused.errors:
        common.print_line(console, f"  {error.attr}: {error.detail}".replace("  : ", "  "))


def _write_differences(console: Console, differing: Differing, found: Sequence[Found], run: str) -> None:
    """Write the accounts that can be pushed, for the user's eyes only."""
    pushed = [account.number for account in found if account.side in _PUSHED]
    path = Path(f"{run}.differences.ndjson")
    path.unlink(missing_ok=True)
    if pushed:
        with private_file(path) as file:
            file.writelines(line + b"\n" for line in differing.lines(pushed))
        accounts = counted(len(pushed), "account")
        common.print_line(console, _("{accounts} of the source to push, in {file}.", accounts=accounts, file=path))


def _show_commands(
    console: Console, found: Sequence[Found], run: str, supplier: str, waiting: int, access: common.Access
) -> None:
    """Print a command for each side that differs, and the operator's commands as a proposal."""
    numbers = {side: [account.number for account in found if account.side == side] for side in _CAUSES}
    healed = numbers["platform"]
    if len(healed) > _MOST_HEALED:
        words = "importledger projections rebuild platform"
        common.print_line(console, _("The operator restores the platform: {command}", command=words))
    for external in healed if len(healed) <= _MOST_HEALED else ():
        words = shlex.join(["importledger", "projections", "heal", supplier, external])
        common.print_line(console, _("The operator restores the account: {command}", command=words))
    if changed := numbers["source"]:
        words = shlex.join(["importledger", "revert", supplier, *changed[:1]])
        sentence = _("Before changed accounts are pushed, the operator reverts each: {command}", command=words)
        common.print_line(console, sentence)
    words_after = ["--supplier", supplier, *access.words]
    if any(account.side in _PUSHED for account in found):
        common.next_step(console, "push", f"{run}.differences.ndjson", "--run", run, *words_after)
    elif waiting:
        common.next_step(console, "watch", run, *words_after)
    else:
        common.next_step(console, "errors", run, *words_after)


def _repair(console: Console, client: "Client", supplier: str, found: Sequence[Found]) -> None:
    """Try failed imports again, and heal accounts that the platform has altered. Both are safe to repeat."""
    for side, action, sentence in (
        ("failed", client.retry, translatable("Repair: try again {accounts}: {numbers}")),
        ("platform", client.heal, translatable("Repair: heal {accounts}: {numbers}")),
    ):
        numbers = [account.number for account in found if account.side == side]
        if numbers:
            accounts = counted(len(numbers), "account")
            common.print_line(console, _(sentence, accounts=accounts, numbers=", ".join(numbers)))
        for external in numbers:
            try:
                action(supplier, external)
            except (Refused, NotAllowed) as error:
                common.print_line(console, f"  {external}: " + _("not repaired: {error}", error=error))


def _write(console: Console, certificate: Mapping[str, Any], manifest: Mapping[str, Any], run: str) -> None:
    as_json, as_page = Path(f"{run}.certificate.json"), Path(f"{run}.certificate.pdf")
    write_whole(as_json, msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n")
    write_whole(as_page, pdf_of(certificate, manifest))
    sentence = _("The signed certificate is {file}; {page} is for reading.", file=as_json, page=as_page)
    common.print_line(console, f"BALANCED. {sentence}")
