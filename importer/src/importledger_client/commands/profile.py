"""`importbook profile`: show statistics of a book, and the errors and warnings of the service."""

import collections
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from importledger_client.answers import FieldError
from importledger_client.commands import NOTHING_DONE, OK, SOMETHING_WRONG, common
from importledger_client.display import amount, counted, number
from importledger_client.error_counts import ErrorCounts, kinds_of
from importledger_client.errors import ImportLedgerError
from importledger_client.failures import neutral, shown
from importledger_client.language import _
from importledger_client.manifest import NoAccount
from importledger_client.profile import MOST_COUNTED, PathProfile, Profile
from importledger_client.sources import Source, account_in, for_supplier

LONGEST_SHOWN = 24


@click.command(epilog="Example: importbook profile book.ndjson")
@common.files_argument
@common.book_supplier_option
@common.mapping_option
@common.service_options
def profile(files: tuple[str, ...], supplier: str | None, mapping: Path | None, access: common.Access) -> int:
    """Show statistics of a book, its refusals and warnings.

    Prints for each path the share of accounts with a value, the number of values and of different values, their length,
    range and most frequent values. DUPLICATES counts values that several accounts have but should not share. The
    service checks the accounts and stores none. Exit code 1 if a line is not an account.
    """
    found, console = Profile(), common.out()
    sources = common.sources_of(files, mapping, supplier)
    lines = _lines(sources, supplier, found)
    refused, warned = ErrorCounts(), ErrorCounts()
    unchecked = _check(lines, access, refused, warned)
    if not found.accounts and not found.bad_lines:
        common.print_line(common.err(), _("The files must have at least one account."))
        return NOTHING_DONE
    _show(console, found)
    for source in sources:
        common.print_line(console, *source.written(), *source.open_points())
    if unchecked:
        common.print_line(console, _("The service has not checked the accounts: {reason}", reason=unchecked))
    title = _("{accounts} would be refused:", accounts=counted(refused.accounts, "account"))
    common.report_kinds(console, title, refused)
    title = _("{accounts} with warnings:", accounts=counted(warned.accounts, "account"))
    common.report_kinds(console, title, warned)
    words = common.words_of(mapping=str(mapping or ""), supplier=supplier, mode="validate")
    common.next_step(console, "push", *files, *words, access=access)
    return SOMETHING_WRONG if found.bad_lines else OK


def _lines(sources: Sequence[Source], supplier: str | None, found: Profile) -> Iterator[bytes]:
    """Yield the accounts, and add them to the statistics. Print the lines that are not accounts."""
    for source in sources:
        for line in source.lines():
            content = account_in(line.content)
            try:
                if line.errors:
                    raise NoAccount(line.errors[0].detail)
                found.add(content)
            except NoAccount as error:
                found.bad_lines += 1
                name, place = source.name, line.number
                sentence = _("{file}, line {line} is no account: {error}", file=name, line=place, error=error)
                common.print_line(common.err(), sentence)
            else:
                yield for_supplier(content, supplier) if supplier else content


def _check(lines: Iterator[bytes], access: common.Access, refused: ErrorCounts, warned: ErrorCounts) -> str:
    """Read all lines, and send them to the service for a check. Return the reason if it fails, or ""."""
    try:
        for batch in access.client().push_batches(lines, mode="validate"):
            for content, receipt in zip(batch.lines, batch.receipts, strict=True):
                if receipt.is_refused:
                    errors = receipt.errors or (FieldError("", receipt.code or "refused"),)
                    refused.add(kinds_of(receipt.external_account_number, content, errors))
                if receipt.warnings:
                    warned.add(kinds_of(receipt.external_account_number, content, receipt.warnings))
    except ImportLedgerError as error:
        collections.deque(lines, maxlen=0)
        return str(error)
    return ""


def _show(console: Console, found: Profile) -> None:
    common.print_line(console, f"{counted(found.accounts, 'account')} · {counted(len(found.paths), 'path')}")
    common.print_line(console, *(_line(found.paths[path], found.accounts) for path in sorted(found.paths)))


def _line(path: PathProfile, accounts: int) -> str:
    several = _("distinct over") if path.has_more else _("distinct")
    parts = [
        f"{path.path:<60}",
        f"{_('filled')} {amount(f'{100 * path.accounts / accounts:5.1f}')} %",
        f"{_('values')} {number(path.filled)}",
        f"{several} {number(MOST_COUNTED if path.has_more else len(path.distinct))}",
        f"{_('length')} {path.shortest}–{path.longest}",
    ]
    if path.least is not None:
        least, greatest = amount(str(path.least)), amount(str(path.greatest))
        parts.append(_("from {least} to {greatest}", least=least, greatest=greatest))
    if top := path.top():
        parts.append(_("top") + " " + ", ".join(f"{_short(text)} ({number(times)})" for text, times in top))
    if duplicates := path.duplicates:
        parts.append(f"{_('DUPLICATES')} {number(duplicates)}")
    return "  ".join(parts)


def _short(text: str) -> str:
    plain = " ".join(neutral(shown(text)).split())
    return plain if len(plain) <= LONGEST_SHOWN else plain[: LONGEST_SHOWN - 1] + "…"
