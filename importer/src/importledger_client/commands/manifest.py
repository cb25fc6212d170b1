"""`importbook manifest`: counts and exact sums of a book, from its source."""

import hashlib
from pathlib import Path
from typing import Any

import click
import msgspec

from importledger_client.commands.common import Stop, err, next_step, out, say
from importledger_client.commands.exit_codes import NOTHING_DONE, OK, SOMETHING_WRONG
from importledger_client.commands.inputs import mapping_option, sources_of
from importledger_client.display import number
from importledger_client.manifest import FORMAT, Counting, NoAccount, Recount, sums_filled
from importledger_client.mapped_source import MappedSource
from importledger_client.notes import run_named_after, run_of_files
from importledger_client.sources import STDIN, Source, account_in

_MOST_NAMED = 1000
"""Lines that are no accounts, in a manifest. One of them is enough that it does not balance."""
SHOWN = ("accounts", "customers", "supply_points", "meters", "registers", "readings", "transactions", "documents")


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Where to write it, as JSON.")
@click.option("--supplier", help="The supplier of all accounts; else the one that they name.")
@mapping_option
def manifest(files: tuple[str, ...], output: Path, supplier: str | None, mapping: Path | None) -> int:
    """Count a book and add it up, without the service: the totals that the platform must have afterwards.

    Exit code 1 for a book that cannot balance: a line is no account, an account is there twice, or a column, row or
    value of a table gets into no account and is not ignored. Tables and lines are counted a second time by simpler
    code. If the counts differ, nothing is written.
    """
    _refuse_to_replace(output)
    sources = sources_of(files, mapping, supplier)
    counting, again, bad = Counting(), Recount(), list[str]()
    for source in sources:
        for line in source.lines():
            try:
                if line.errors:
                    raise NoAccount(" ".join(error.detail for error in line.errors))
                counting.add(content := account_in(line.content))
                again.add(content)
            except NoAccount as error:
                bad.append(f"{line.number} of {source.name}")
                say(err(), f"{source.name}, line {line.number}: it is not counted, since {error}")
    if not counting.accounts:
        say(err(), "There was nothing to count.")
        return NOTHING_DONE
    suppliers = {supplier} if supplier else counting.suppliers
    said = counting.manifest(next(iter(suppliers)) if len(suppliers) == 1 else "")
    again.check(said)
    tables = [source for source in sources if isinstance(source, MappedSource)]
    nowhere = [column for source in tables for column in source.columns_nowhere()]
    written = {"format": FORMAT, "source": _source(sources), "lines": counting.accounts + len(bad), **said}
    lost = {"columns_nowhere": nowhere, **_lost(tables), "lines_nowhere": bad[:_MOST_NAMED]}
    written |= {name: places for name, places in lost.items() if places}
    output.write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n")
    say(out(), " · ".join(f"{name.replace('_', ' ')} {number(said[name])}" for name in SHOWN))
    sums = (f"sum of {name.replace('_', ' ')} {said['sums'][name]}" for name in sums_filled(said))
    say(out(), " · ".join([*sums, f"{number(len(said['paths']))} payload paths, in {output}"]))
    for source in tables:
        for sentence in source.written():
            say(out(), sentence)
    if counting.repeated:
        say(out(), f"{number(counting.repeated)} accounts are there more than once: the platform will have each once.")
    left_open = [sentence for source in tables for sentence in source.left_open()]
    for sentence in left_open:
        say(out(), f"{sentence} The book cannot balance.")
    if bad or counting.repeated or left_open:
        if mapping is not None:
            next_step(out(), "map", "check", str(mapping), files[0])
        return SOMETHING_WRONG
    run = run_of_files(files, Path.cwd()) or run_named_after(files[0], "create")
    next_step(out(), "reconcile", run, "--manifest", str(output))
    return OK


def _refuse_to_replace(output: Path) -> None:
    """Raises Stop for a file that is there and is no manifest: it may be the book."""
    if not output.is_file():
        return
    with output.open("rb") as file:
        start = file.read(100)
    if start and FORMAT.encode() not in start:
        raise Stop(f"{output} must be a new file or an earlier manifest: it holds something else, which would be lost.")


def _lost(tables: list[MappedSource]) -> dict[str, list[str]]:
    """What is in the tables and gets into no account, although its column or table is read: by a manifest's names."""
    losses = [source.mapped.losses for source in tables if source.mapped]
    return {
        "values_nowhere": sorted({column for one in losses for column in one.values}),
        "rows_nowhere": sorted({table for one in losses for table in (*one.rows, *one.repeated)}),
        "doubts": [sentence for source in tables for sentence in source.doubts],
    }


def _source(sources: list[Source]) -> dict[str, Any]:
    """What was counted: name, size and digest of the files as they are stored."""
    files = [name for source in sources for name in source.files]
    named = [Path(name) for name in files if name != STDIN]
    whole = hashlib.sha256()
    for path in named:
        with path.open("rb") as file:
            while part := file.read(2**20):
                whole.update(part)
    return {
        "name": ", ".join(Path(name).name for name in files),
        "bytes": sum(path.stat().st_size for path in named),
        "sha256": whole.hexdigest() if named else "",
    }
