"""`importbook manifest`: count a book and add it up, from its source."""

import hashlib
from pathlib import Path
from typing import Any

import click
import msgspec

from importledger_client.commands import NOTHING_DONE, OK, SOMETHING_WRONG, common
from importledger_client.display import counted, number
from importledger_client.manifest import FORMAT, Counting, NoAccount, Recount, sums_filled
from importledger_client.mapped_source import MappedSource
from importledger_client.notes import run_named_after, run_of_files
from importledger_client.sources import STDIN, Source, account_in

_MOST_NAMED = 1000
"""Most lines that a manifest names because they are not accounts. A single one prevents a certificate."""
SHOWN = ("accounts", "customers", "supply_points", "meters", "registers", "readings", "transactions", "documents")


@click.command(epilog="Example: importbook manifest book.ndjson -o go-live.manifest.json")
@common.files_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Manifest to write, as JSON.")
@common.book_supplier_option
@common.mapping_option
def manifest(files: tuple[str, ...], output: Path, supplier: str | None, mapping: Path | None) -> int:
    """Count a book and add it up, without the service.

    The platform must have the same totals after the import. Exit code 1 for a book that cannot balance: a line is not
    an account, an account is there twice, or a column, row or value of a table is in no account and not ignored. Tables
    and lines are counted a second time by simpler code. If the counts differ, nothing is written.
    """
    _refuse_to_replace(output)
    sources = common.sources_of(files, mapping, supplier)
    counting, bad, counts = _counted(sources, supplier)
    if not counting.accounts:
        common.print_line(common.err(), "The files must have at least one account.")
        return NOTHING_DONE
    tables = [source for source in sources if isinstance(source, MappedSource)]
    lost = {**_lost(tables), "lines_nowhere": bad[:_MOST_NAMED]}
    content = {"format": FORMAT, "source": _source(sources), "lines": counting.accounts + len(bad), **counts}
    content |= {name: places for name, places in lost.items() if places}
    output.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    common.print_line(common.out(), " · ".join(f"{name.replace('_', ' ')} {number(counts[name])}" for name in SHOWN))
    sums = (f"sum of {name.replace('_', ' ')} {counts['sums'][name]}" for name in sums_filled(counts))
    common.print_line(
        common.out(), " · ".join([*sums, f"{counted(len(counts['paths']), 'payload path')}, in {output}"])
    )
    for source in tables:
        for sentence in source.written():
            common.print_line(common.out(), sentence)
    if counting.repeated:
        common.print_line(
            common.out(),
            f"Repeated: {counted(counting.repeated, 'account')}. The platform will have each once.",
        )
    open_points = [sentence for source in tables for sentence in source.open_points()]
    for sentence in open_points:
        common.print_line(common.out(), f"{sentence} The book cannot balance.")
    if bad or counting.repeated or open_points:
        if mapping is not None:
            common.next_step(common.out(), "map", "check", str(mapping), files[0])
        return SOMETHING_WRONG
    run = run_of_files(files, Path.cwd()) or run_named_after(files[0], "create")
    common.next_step(common.out(), "reconcile", run, "--manifest", str(output))
    return OK


def _counted(sources: list[Source], supplier: str | None) -> tuple[Counting, list[str], dict[str, Any]]:
    """Count all lines twice.

    Returns the counting, the numbers and files of lines that are not accounts, and the counts. Raises Differs.
    """
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
                common.print_line(common.err(), f"{source.name}, line {line.number}: it is not counted, since {error}")
    suppliers = {supplier} if supplier else counting.suppliers
    counts = counting.manifest(next(iter(suppliers)) if len(suppliers) == 1 else "")
    again.check(counts)
    return counting, bad, counts


def _refuse_to_replace(output: Path) -> None:
    """Raise Stop for an existing file that is not a manifest: it may be the book."""
    if not output.is_file():
        return
    with output.open("rb") as file:
        start = file.read(100)
    if start and FORMAT.encode() not in start:
        raise common.Stop(
            f"{output} must be a new file or an earlier manifest: it holds something else, which would be lost."
        )


def _lost(tables: list[MappedSource]) -> dict[str, list[str]]:
    """Return the parts of tables that are in no account, by the names in a manifest."""
    unused = [source.mapped.unused for source in tables if source.mapped]
    return {
        "columns_nowhere": [column for source in tables for column in source.columns_nowhere()],
        "values_nowhere": sorted({column for lost in unused for column in lost.values}),
        "rows_nowhere": sorted({table for lost in unused for table in (*lost.rows, *lost.repeated)}),
        "doubts": [sentence for source in tables for sentence in source.doubts],
    }


def _source(sources: list[Source]) -> dict[str, Any]:
    """Return name, size and digest of the files as they are stored."""
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
