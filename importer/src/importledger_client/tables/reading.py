"""Read a table from one or more files: each row by the names of its columns, and two counts of all rows and cells."""

import bisect
import collections
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

from importledger_client.display import counted, number
from importledger_client.language import _
from importledger_client.processes import helpers
from importledger_client.sources import Differs, Unreadable, damage_named, file_at
from importledger_client.tables.columnar import Columnar
from importledger_client.tables.delimited import Delimited
from importledger_client.tables.objects import Objects
from importledger_client.tables.table import Cell, Count, Dated, Part, Row, TableSource
from importledger_client.tables.workbook import Sheet, sheets_of

_CSV = ("csv", "tsv", "txt")
_XLSX = ("xlsx", "xlsm", "xls")
"""Endings of workbooks. The reader refuses .xls with a sentence."""
_LARGE = 2**21
"""Bytes of a file from which on a separate process makes the second count, since starting a process takes a moment."""
_CHANGED = frozenset({Dated, bool})
"""Types of cells that Excel may have made of texts."""
_PARQUET = "parquet"
_JSON = ("ndjson", "jsonl", "json")


def is_table(name: str) -> bool:
    """Return True for the name of a table."""
    return _ending(name) in (*_CSV, *_XLSX, _PARQUET)


def is_json(name: str) -> bool:
    """Return True for the name of a JSON file."""
    return _ending(name) in _JSON


def _ending(name: str) -> str:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes if suffix.lower() not in (".gz", ".zst")]
    return suffixes[-1].removeprefix(".") if suffixes else ""


class Recounter:
    """Makes second counts: of large parts in another process, which begins before this process reads them."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._started: list[Future[Count]] = []

    def start(self, part: Part) -> Callable[[], Count]:
        """Return a function that returns the second count."""
        if not isinstance(part, Delimited | Sheet) or Path(part.name).stat().st_size < _LARGE:
            return part.recount
        if self._pool is None:
            self._pool = helpers(1)
        self._started.append(self._pool.submit(part.recount))
        return self._started[-1].result

    def close(self) -> None:
        """End the process, without waiting for a count that nobody needs."""
        if self._pool is not None:
            self._pool.shutdown(wait=all(started.done() for started in self._started), cancel_futures=True)


class Table:
    """A table of one or more files. Several columns may have a name that is in `ignored`; `""` is no name."""

    def __init__(
        self,
        names: Sequence[str],
        source: TableSource,
        *,
        ignored: Collection[str] = (),
        chosen_elsewhere: Collection[str] = (),
        recounter: Recounter | None = None,
    ) -> None:
        self.name = ", ".join(names)
        self.columns: list[str] = []
        self.rows_read = 0
        self.filled: collections.Counter[str] = collections.Counter()
        """Number of filled cells by column."""
        self.dated: dict[str, str] = {}
        """Place and value of the first date of a workbook in each column."""
        self.booleans: dict[str, str] = {}
        """Place and value of the first boolean of a workbook in each column."""
        self.signs: dict[str, str] = {}
        """Place and value of the first number that a workbook shows with other signs, in each column."""
        self.skipped: collections.Counter[str] = collections.Counter()
        """Number of filled cells of ignored columns."""
        self._ignored = ignored
        self.doubts: list[tuple[str, str]] = []
        """(word, sentence) of doubtful cells and sheets, after `rows`."""
        self._starts: list[int] = []
        self.parts = [part for name in names for part in self._parts(name, source, chosen_elsewhere)]
        self._headers = [self._named(part) for part in self.parts]
        self._recounts = [recounter.start(part) if recounter else part.recount for part in self.parts]

    @property
    def written(self) -> list[str]:
        """Parts with their formats, encodings and delimiters."""
        return [f"{part.label}: {part.written}" for part in self.parts]

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows by `columns`, with numbers that continue through all parts.

        Cells of ignored columns are None. Raises Unreadable, and Differs at the end of a part whose second count
        differs.
        """
        return self._rows(self._ignored, is_recounted=True)

    def whole_rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows with the cells of ignored columns, and without a second count. Raises Unreadable."""
        return self._rows((), is_recounted=False)

    def _rows(self, left_out: Collection[str], *, is_recounted: bool) -> Iterator[tuple[int, Row]]:
        number = 0
        for part, header, recount in zip(self.parts, self._headers, self._recounts, strict=True):
            self._starts.append(number)
            base, count = number, Count()
            pick = self._picking(part, header, left_out)
            with damage_named(part.label):
                for in_part, cells in part.rows():
                    number = base + in_part
                    count.add(cells)
                    yield number, pick(in_part, cells)
                again = recount() if is_recounted else count
                self._check(part, header, count, again)
                self._add_counts(header, count)
                for position, word, sentence in (*again.doubts.items(), *part.doubts.items()):
                    if position >= len(header) or header[position] not in self._ignored:
                        self.doubts.append((word, f"{part.label}, {sentence}"))
                for position, __, sentence in again.signs.items():
                    if position < len(header):
                        self.signs.setdefault(header[position], f"{part.label}, {sentence}")

    def location(self, number: int) -> str:
        """Return the place of a row for people: row 3, with its sheet or file if there are several."""
        part = max(0, bisect.bisect_left(self._starts, number) - 1)
        in_part = number - self._starts[part] if self._starts else number
        row = f"{_('row')} {in_part}"
        return row if len(self.parts) < 2 else f"{self.parts[part].label}, {row}"

    def _parts(self, name: str, source: TableSource, chosen_elsewhere: Collection[str]) -> list[Part]:
        file_at(name)
        if _ending(name) in _XLSX:
            return self._sheets(name, source, chosen_elsewhere)
        if _ending(name) == _PARQUET:
            return [Columnar(name)]
        if is_json(name):
            with damage_named(name):
                return [Objects(name)]
        with damage_named(name):
            return [Delimited(name, source)]

    def _sheets(self, name: str, source: TableSource, chosen_elsewhere: Collection[str]) -> list[Part]:
        sheets = {sheet.title: sheet for sheet in sheets_of(name)}
        for title in (*source.sheets, *source.ignore_sheets):
            if title not in sheets:
                raise Unreadable(
                    "{file} has no sheet {sheet!r} with rows; it has {sheets}.",
                    file=name,
                    sheet=title,
                    sheets=", ".join(sheets) or _("none"),
                )
        chosen = (
            list(dict.fromkeys(source.sheets)) or [title for title in sheets if title not in source.ignore_sheets][:1]
        )
        left = [title for title in sheets if title not in {*chosen, *source.ignore_sheets, *chosen_elsewhere}]
        self.doubts += [
            (
                "",
                _(
                    "{file}, sheet {sheet} is not read: name it in `sheets` or `ignore_sheets` of the mapping.",
                    file=name,
                    sheet=title,
                ),
            )
            for title in left
        ]
        if not chosen:
            raise Unreadable("{file} has no sheet with rows.", file=name)
        return [sheets[title] for title in chosen]

    def _named(self, part: Part) -> list[str]:
        """Return the header of a part. Raises Unreadable for a repeated name, or other columns than the first part."""
        with damage_named(part.label):
            header = part.header()
        for column, times in collections.Counter(header).items():
            if times > 1 and column and column not in self._ignored:
                raise Unreadable(
                    "{file} has {number} columns with the name {column}: a name must stand for one column."
                    " Rename one, or name it in `ignore` of the mapping.",
                    file=part.label,
                    number=times,
                    column=column,
                )
        columns = list(dict.fromkeys(column for column in header if column))
        if isinstance(part, Objects):  # objects lack members without a value
            self.columns = list(dict.fromkeys([*self.columns, *columns]))
        elif self.columns and set(columns) != set(self.columns):
            differing = ", ".join(sorted(set(columns) ^ set(self.columns)))
            raise Unreadable(
                "{file} must have the same columns as {other}; not so: {columns}.",
                file=part.label,
                other=self.parts[0].label,
                columns=differing,
            )
        self.columns = self.columns or columns
        return header

    def _picking(self, part: Part, header: list[str], left_out: Collection[str]) -> Callable[[int, list[Cell]], Row]:
        """Return a function that picks the cells of `columns`, without those left out, and checks all other cells."""
        at = {column: place for place, column in enumerate(header) if column not in left_out}
        places = [at.get(column, -1) for column in self.columns]
        nameless = [] if "" in self._ignored else [place for place, name in enumerate(header) if not name]
        is_as_written = places == list(range(len(header)))
        is_workbook = isinstance(part, Sheet)

        def pick(number: int, cells: list[Cell]) -> Row:
            for place in nameless:
                if cells[place] is not None:
                    raise Unreadable(
                        "{file}, row {row}: cell {cell} stands below no column name. Name the column, or"
                        ' put "" into `ignore` of the mapping.',
                        file=part.label,
                        row=number,
                        cell=place + 1,
                    )
            row = cells if is_as_written else [None if place < 0 else cells[place] for place in places]
            if is_workbook and not _CHANGED.isdisjoint(map(type, row)):
                for column, cell in zip(self.columns, row, strict=True):
                    if isinstance(cell, Dated) and column not in self.dated:
                        found = _("{file}, row {row} has the date {date}", file=part.label, row=number, date=cell)
                        self.dated[column] = found
                    elif isinstance(cell, bool) and column not in self.booleans:
                        found = _("{file}, row {row} has a boolean", file=part.label, row=number)
                        self.booleans[column] = found
            return row

        return pick

    def _add_counts(self, header: list[str], count: Count) -> None:
        self.rows_read += count.rows
        for position, name in enumerate(header):
            if name in self._ignored:
                self.skipped[name] += count.filled[position]
            elif name:
                self.filled[name] += count.filled[position]

    def _check(self, part: Part, header: list[str], read: Count, recount: Count) -> None:
        """Raise Differs if the second count of a part differs."""
        if recount.rows != read.rows:
            rows = counted(read.rows, "row was", "rows were")
            raise Differs(f"{part.label}: {_unequal(rows, recount.rows)}")
        for position in sorted({*recount.filled, *read.filled}):
            if recount.filled[position] != read.filled[position]:
                cells = counted(read.filled[position], "filled cell was", "filled cells were")
                column = header[position] if position < len(header) else ""
                place = f"{part.label}, {_('column')} {column or position + 1}"
                raise Differs(f"{place}: {_unequal(cells, recount.filled[position])}")


def _unequal(counts: str, again: int) -> str:
    """Return the end of a sentence on two counts that differ."""
    return _(
        "{counts} read, and {again} counted. Both must be the same; nothing is certified.",
        counts=counts,
        again=number(again),
    )
