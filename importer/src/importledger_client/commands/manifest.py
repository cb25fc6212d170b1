"""`importbook manifest`: count a book and add it up, from its source."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from importledger_client.commands import NOTHING_DONE, OK, SOMETHING_WRONG, common
from importledger_client.counter import Counter, cores
from importledger_client.display import EVERY_S, Progress, amount, counted, number
from importledger_client.language import _
from importledger_client.manifest import FORMAT, sums_filled
from importledger_client.mapped_source import MappedSource
from importledger_client.notes import run_named_after, run_of_files
from importledger_client.sources import STDIN, Line, Source, account_in
from importledger_client.unfinished import write_whole

_MOST_NAMED = 1000
"""Most lines that a manifest names because they are not accounts. Even one such line prevents a certificate."""
SHOWN = ("accounts", "customers", "supply_points", "meters", "registers", "readings", "transactions", "documents")


@click.command(epilog="Example: importbook manifest book.ndjson -o go-live.manifest.json")
@common.files_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Manifest to write, as JSON.")
@common.book_supplier_option
@common.mapping_option
def manifest(files: tuple[str, ...], output: Path, supplier: str | None, mapping: Path | None) -> int:
    """Count a book and add it up, without the service.

    After the import, `reconcile` compares the platform with these totals. Exit code 1 for a book that cannot balance: a
    line is not an account, an account occurs twice, or a column, row or value of a table is in no account and not
    ignored. Counts tables and lines twice, the second time with simpler code, and writes no manifest if the counts
    differ.
    """
    making = Making(output, common.sources_of(files, mapping, supplier), supplier, cores())
    try:
        with Progress(common.err(), first_after_s=EVERY_S) as progress:
            for source in making.sources:
                source.show = progress.show
                for line in source.lines():
                    making.add(line, source)
        code = making.write(common.out())
        for source in making.sources:
            common.print_line(common.out(), *source.written())
    finally:
        making.close()
    if code == SOMETHING_WRONG and mapping is not None:
        common.next_step(common.out(), "map", "check", str(mapping), files[0])
    if code == OK:
        run = run_of_files(files, Path.cwd()) or run_named_after(files[0], "create")
        common.next_step(common.out(), "reconcile", run, "--manifest", str(output))
    return code


class Making:
    """A manifest that is being written. Raises Stop if the output file exists and is not a manifest."""

    def __init__(self, output: Path, sources: Sequence[Source], supplier: str | None, processes: int) -> None:
        _refuse_to_replace(output)
        self.sources = sources
        self._output, self._supplier = output, supplier
        self._counter = Counter(processes)
        self._bad: list[str] = []

    def add(self, line: Line, source: Source) -> None:
        """Count a line."""
        if line.errors:
            self._leave_out(source.name, line.number, " ".join(error.detail for error in line.errors))
        else:
            self._counter.add((source.name, line.number), account_in(line.content))

    def close(self) -> None:
        """End the processes that count."""
        self._counter.close()

    def write(self, console: Console) -> int:
        """Write the manifest after all lines, print its counts, and return the exit code. Raises Differs."""
        counting, bad = self._counter.finish()
        for place, reason in bad:
            self._leave_out(*place, reason)
        if not counting.accounts:
            common.print_line(common.err(), _("The files must have at least one account."))
            return NOTHING_DONE
        suppliers = {self._supplier} if self._supplier else counting.suppliers
        if len(suppliers) > 1:  # the platform has a run for each
            sentence = _(
                "A manifest must have accounts of one supplier, and these are of {suppliers}: write a file for each"
                " supplier. No manifest was written.",
                suppliers=", ".join(sorted(suppliers)),
            )
            common.print_line(common.err(), sentence)
            return NOTHING_DONE
        counts = counting.manifest(next(iter(suppliers), ""))
        tables = [source for source in self.sources if isinstance(source, MappedSource)]
        lost = {**_lost(tables), "lines_nowhere": self._bad[:_MOST_NAMED]}
        content = {"format": FORMAT, "source": _source(self.sources), "lines": counting.accounts + len(self._bad)}
        content |= {**counts, **{name: places for name, places in lost.items() if places}, **self._place()}
        write_whole(self._output, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        _print_counts(console, counts, self._output)
        if counting.repeated:
            repeated = counted(counting.repeated, "account")
            sentence = _("Repeated: {accounts}. The platform will have each once.", accounts=repeated)
            common.print_line(console, sentence)
        open_points = [sentence for source in tables for sentence in source.open_points()]
        common.print_line(console, *(f"{sentence} {_('The book cannot balance.')}" for sentence in open_points))
        return SOMETHING_WRONG if self._bad or counting.repeated or open_points else OK

    def _leave_out(self, name: str, number_of_line: int, reason: str) -> None:
        self._bad.append(f"{number_of_line} of {name}")
        sentence = _(
            "{file}, line {line}: it is not counted, since {reason}", file=name, line=number_of_line, reason=reason
        )
        common.print_line(common.err(), sentence)

    def _place(self) -> dict[str, Any]:
        """Return the location of the source, for `reconcile` on this machine."""
        files = [name for source in self.sources for name in source.files]
        return {
            "files": [] if STDIN in files else files,
            "mapping": self.sources[0].mapping,
            "for_supplier": self._supplier or "",
        }


def _print_counts(console: Console, counts: Mapping[str, Any], output: Path) -> None:
    common.print_line(console, " · ".join(f"{common.label(name)} {number(counts[name])}" for name in SHOWN))
    sums = (
        f"{_('sum of {name}', name=common.label(name))} {amount(counts['sums'][name])}" for name in sums_filled(counts)
    )
    common.print_line(console, " · ".join([*sums, _("in {file}", file=output)]))
    if undocumented := counts["undocumented"]:
        common.print_line(console, _("Undocumented fields: {fields}.", fields=", ".join(undocumented)))


def _refuse_to_replace(output: Path) -> None:
    """Raise Stop for an existing file that is not a manifest, since it may be the book."""
    if not output.is_file():
        return
    with output.open("rb") as file:
        start = file.read(100)
    if start and FORMAT.encode() not in start:
        raise common.Stop(
            "{file} must be a new file or an earlier manifest: it holds something else, which would be lost.",
            file=output,
        )


def _lost(tables: Sequence[MappedSource]) -> dict[str, list[str]]:
    """Return the parts of tables that are in no account, by the names in a manifest."""
    unused = [source.mapped.unused for source in tables if source.mapped]
    return {
        "columns_nowhere": [column for source in tables for column in source.columns_nowhere()],
        "values_nowhere": sorted({column for lost in unused for column in lost.values}),
        "rows_nowhere": sorted({table for lost in unused for table in (*lost.rows, *lost.repeated)}),
        "doubts": [sentence for source in tables for sentence in source.doubts],
    }


def _source(sources: Sequence[Source]) -> dict[str, Any]:
    """Return name, size and digest of the files as they are stored."""
    files = [name for source in sources for name in source.files]
    named = [Path(name) for name in files if name != STDIN]
    whole = hashlib.sha256()
    for path in named:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: whole)
    return {
        "name": ", ".join(Path(name).name for name in files),
        "bytes": sum(path.stat().st_size for path in named),
        "sha256": whole.hexdigest() if named else "",
    }
