"""`importbook profile`: show statistics of a book, and what the service would refuse."""

import collections
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from importledger_client.answers import FieldError
from importledger_client.commands import NOTHING_DONE, OK, common
from importledger_client.display import Pace, Progress, number
from importledger_client.errors import ImportLedgerError
from importledger_client.failures import neutral, shown
from importledger_client.manifest import NoAccount
from importledger_client.profile import MOST_COUNTED, PathProfile, Profile
from importledger_client.sources import Source, account_in, for_supplier
from importledger_client.tally import Tally, kinds_of

LONGEST_SHOWN = 24


@click.command(epilog="Example: importbook profile book.ndjson")
@common.files_argument
@common.book_supplier_option
@common.mapping_option
@common.reaches_the_service
def profile(files: tuple[str, ...], supplier: str | None, mapping: Path | None, access: common.Access) -> int:
    """Show statistics of a book, and what would be refused.

    Prints for each path the share of accounts with a value, the number of values and of different ones, their length,
    range and most frequent ones. DUPLICATES counts values that several accounts share although they should not. The
    service checks the accounts, and stores nothing.
    """
    sources = common.sources_of(files, mapping, supplier)
    found, tally, warned, console = Profile(), Tally(), Tally(), common.out()
    lines = _lines(sources, supplier, found, tally)
    unchecked = _validate(lines, tally, warned, access)
    if not found.accounts and not tally.accounts:
        common.say(common.err(), "There was nothing to look at.")
        return NOTHING_DONE
    _show(console, found)
    for source in sources:
        for sentence in (*source.written(), *source.left_open()):
            common.say(console, sentence)
    if unchecked:
        common.say(console, f"The accounts were not checked by the service: {unchecked}")
    _show_problems(console, "would be refused", tally, found)
    _show_problems(console, "with warnings", warned, found)
    words = common.words_of(mapping=str(mapping or ""), supplier=supplier, mode="validate")
    common.next_step(console, "push", *files, *words, *access.words)
    return OK


def _lines(sources: Sequence[Source], supplier: str | None, found: Profile, tally: Tally) -> Iterator[bytes]:
    """Yield the accounts, and add them to the profile."""
    for source in sources:
        for line in source.lines():
            content = account_in(line.content)
            content = for_supplier(content, supplier) if supplier else content
            try:
                if line.errors:
                    raise NoAccount(line.errors[0].detail)
                found.add(content)
            except NoAccount as error:
                problem = FieldError("", "parse_error", f"Line {line.number} is no account: {error}.")
                tally.add(kinds_of(line.external, content, line.errors or [problem]))
            else:
                yield content


def _validate(lines: Iterator[bytes], tally: Tally, warned: Tally, access: common.Access) -> str:
    """Read all lines, and let the service check them. Returns the reason if it did not, or ""."""
    try:
        client = access.client()
        pace, done = Pace(), 0
        with Progress(common.err()) as progress:
            for batch in client.push_batches(lines, mode="validate"):
                done += len(batch.lines)
                for content, receipt in zip(batch.lines, batch.receipts, strict=True):
                    if receipt.is_refused:
                        errors = receipt.errors or (FieldError("", receipt.code or "refused", ""),)
                        tally.add(kinds_of(receipt.external_account_number, content, errors))
                    if receipt.warnings:
                        warned.add(kinds_of(receipt.external_account_number, content, receipt.warnings))
                progress.show(pace.line("profile", done, tally.accounts, None))
    except ImportLedgerError as error:
        collections.deque(lines, maxlen=0)
        return str(error)
    return ""


def _show(console: Console, found: Profile) -> None:
    common.say(console, f"{number(found.accounts)} accounts · {number(len(found.paths))} paths")
    for path in sorted(found.paths):
        common.say(console, _line(found.paths[path], found.accounts))


def _line(path: PathProfile, accounts: int) -> str:
    parts = [
        f"{path.path:<60}",
        f"filled {100 * path.accounts / accounts:5.1f} %",
        f"values {number(path.filled)}",
        f"distinct over {number(MOST_COUNTED)}" if path.has_more else f"distinct {number(len(path.distinct))}",
        f"length {path.shortest}–{path.longest}",
    ]
    if path.least is not None:
        parts.append(f"from {path.least} to {path.greatest}")
    if top := path.top():
        parts.append("top " + ", ".join(f"{_short(text)} ({number(times)})" for text, times in top))
    if duplicates := path.duplicates:
        parts.append(f"DUPLICATES {number(duplicates)}")
    return "  ".join(parts)


def _short(text: str) -> str:
    plain = " ".join(neutral(shown(text)).split())
    return plain if len(plain) <= LONGEST_SHOWN else plain[: LONGEST_SHOWN - 1] + "…"


def _show_problems(console: Console, title: str, tally: Tally, found: Profile) -> None:
    if not tally.accounts:
        return
    share = 100 * tally.accounts / max(found.accounts, tally.accounts)
    common.say(console, f"{title}: {number(tally.accounts)} accounts ({share:.1f} %)")
    for kind in tally.most():
        sample = tally.samples[kind]
        common.say(console, f"{number(tally.numbers[kind]):>9}  {kind[0]}  {kind[1]}  {sample.number}".rstrip())
