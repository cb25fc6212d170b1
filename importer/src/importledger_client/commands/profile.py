"""`importbook profile`: show statistics of a book, without the service."""

from pathlib import Path

import click
from rich.console import Console

from importledger_client.commands import NOTHING_DONE, OK, SOMETHING_WRONG, common
from importledger_client.display import number
from importledger_client.failures import neutral, shown
from importledger_client.manifest import NoAccount
from importledger_client.profile import MOST_COUNTED, PathProfile, Profile
from importledger_client.sources import account_in

LONGEST_SHOWN = 24


@click.command(epilog="Example: importbook profile book.ndjson")
@common.files_argument
@common.book_supplier_option
@common.mapping_option
def profile(files: tuple[str, ...], supplier: str | None, mapping: Path | None) -> int:
    """Show statistics of a book, without the service.

    Prints for each path the share of accounts with a value, the number of values and of different ones, their length,
    range and most frequent ones. DUPLICATES counts values that several accounts share although they should not. Exit
    code 1 if a line is no account.
    """
    found, bad, console = Profile(), 0, common.out()
    sources = common.sources_of(files, mapping, supplier)
    for source in sources:
        for line in source.lines():
            try:
                if line.errors:
                    raise NoAccount(line.errors[0].detail)
                found.add(account_in(line.content))
            except NoAccount as error:
                bad += 1
                common.say(common.err(), f"{source.name}, line {line.number} is no account: {error}")
    if not found.accounts and not bad:
        common.say(common.err(), "There was nothing to look at.")
        return NOTHING_DONE
    _show(console, found)
    for source in sources:
        for sentence in (*source.written(), *source.left_open()):
            common.say(console, sentence)
    words = common.words_of(mapping=str(mapping or ""), supplier=supplier, mode="validate")
    common.next_step(console, "push", *files, *words)
    return SOMETHING_WRONG if bad else OK


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
