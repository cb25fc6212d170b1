"""The verbs `revert` and `release`."""

from pathlib import Path

import click

from cli.known import require_known
from cli.language import N_, _, counted
from cli.operator import caused_by, open_ledger, reason_option
from cli.output import json_option, print_result, progress_bar
from cli.proposing import KEPT, is_listed, is_proposed
from projections.retention.reverting import Reverted, Selection, preview, releasable, release, revert
from workers.operations import packed

_yes = click.option("--yes", "is_confirmed", is_flag=True, help="Execution; without --yes, the numbers are only shown.")


@click.command("revert")
@click.argument("supplier")
@click.argument("external", required=False)
@click.option("--run", default="", help="All accounts that this run has sent.")
@click.option(
    "--file", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with external account numbers, one a line.",
)  # fmt: skip
@reason_option
@_yes
@json_option
def revert_accounts(
    supplier: str, external: str | None, run: str, file: Path | None, reason: str, is_confirmed: bool, as_json: bool
) -> None:
    """Revert accounts that were not released.

    Without --yes, shows how many accounts of SUPPLIER can be reverted, how many cannot, with the reasons, and how many
    imports have failed. EXTERNAL is an external account number; instead of EXTERNAL, choose accounts with --run or
    --file.

    A revert removes the account from the platform, retires its number, and cancels e-mails that were not sent. Payload,
    history and proofs stay. The importer can send the account again. If `revert` is killed, run the same command again.
    """
    if sum((external is not None, bool(run), file is not None)) != 1:
        raise click.UsageError(_("Name one EXTERNAL, or give --run or --file."))
    _require_reason(is_confirmed, reason)
    with open_ledger() as ledger:
        require_known(ledger, supplier, external, run)
        externals = (external,) if external is not None else _numbers_in(file) if file is not None else ()
        if is_confirmed:
            named = {"run": run} if run else {"accounts": packed(externals) if is_listed("revert") else ""}
            arguments = {"supplier": supplier} | named
            if is_proposed(ledger, "revert", arguments, reason, by=caused_by(), as_json=as_json):
                return
        selection = Selection(supplier=supplier, run=run, externals=externals)
        with progress_bar("accounts", title=_("revert") if is_confirmed else _("preview")) as progress:
            if is_confirmed:
                result = revert(ledger, selection, reason, by=caused_by(), progress=progress)
            else:
                result = preview(ledger, selection, progress=progress)
    _print(result, is_confirmed=is_confirmed, as_json=as_json)


@click.command("release")
@click.argument("supplier")
@click.option("--run", default="", help="Only the accounts of this run.")
@reason_option
@_yes
@json_option
def release_accounts(supplier: str, run: str, reason: str, is_confirmed: bool, as_json: bool) -> None:
    """Release accounts, so that they can never be reverted.

    Releases the accounts of SUPPLIER that are now processed; the platform owns released accounts. Without --yes, shows
    the number of accounts. Setting a supplier to complete also releases its accounts.
    """
    _require_reason(is_confirmed, reason)
    with open_ledger() as ledger:
        require_known(ledger, supplier, run=run)
        with ledger.connection() as connection:
            number = releasable(connection, supplier, run)
        arguments = {"supplier": supplier} | ({"run": run} if run else {})
        if is_confirmed and is_proposed(ledger, "release", arguments, reason, by=caused_by(), as_json=as_json):
            return
        done = is_confirmed and release(ledger, supplier, run, reason, by=caused_by())
    accounts = counted(number, "account")
    if is_confirmed:
        sentence = _("{accounts} released.", accounts=accounts)
    else:
        sentence = f"{_('{accounts} to release.', accounts=accounts)} {_next()}"
    print_result(sentence, {"accounts": number, "is_released": done}, as_json=as_json)


def _require_reason(is_confirmed: bool, reason: str) -> None:
    if is_confirmed and not reason.strip():
        raise click.UsageError(_("A reason must be given with --reason, such as a number of your change request."))


def _next() -> str:
    return _("Nothing was changed. Give --yes and --reason to do it.")


def _numbers_in(file: Path) -> tuple[str, ...]:
    """Return the lines of a file, without empty lines. Raises ClickException if all lines are empty."""
    numbers = tuple(line for line in file.read_text("utf-8").splitlines() if line)
    if not numbers:
        raise click.ClickException(_("{file} must have at least one external account number.", file=file))
    return numbers


def _print(result: Reverted, *, is_confirmed: bool, as_json: bool) -> None:
    total = sum(result.kept.values())
    reasons = ", ".join(counted(number, KEPT[name], KEPT[name]) for name, number in result.kept.items())
    done = N_("reverted") if is_confirmed else N_("revertible")
    numbers = f"{counted(result.reverted, done, done)}, {counted(total, 'kept', 'kept')}"
    sentence = f"{numbers}{f' ({reasons})' if reasons else ''}, {counted(result.failed, 'failed', 'failed')}."
    shown = {done: result.reverted, "kept": total, "failed": result.failed, "kept_by_reason": dict(result.kept)}
    print_result(sentence if is_confirmed else f"{sentence} {_next()}", shown, as_json=as_json)
