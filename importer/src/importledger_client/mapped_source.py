"""Read tables as a source of accounts. Tables are counted twice, and every cell is in an account or reported.

Rows are stored on disk by their keys: they may be in any order, and more than fit into memory.
"""

import collections
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from importledger_client.answers import FieldError
from importledger_client.display import counted
from importledger_client.mapped import Mapped, key_of
from importledger_client.mapping import Plan, check_columns, named, text_columns
from importledger_client.sources import Differs, Line, Source
from importledger_client.tables.reading import Table
from importledger_client.tables.table import Row
from importledger_client.unused import Numbered
from importledger_client.values import clean

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_NO_VALUE = "may mean no value: list it in `empty` of the mapping, or in `texts` if it is text."
_ROUNDED = (
    "Excel writes for a long number and which has lost digits: export the column as text, or list the value in `texts`"
    " of the mapping if it is text."
)


class MappedSource(Source):
    """Tables as lines, one for each account, with the number of its first row.

    With `is_strict`, no line is yielded while the mapping leaves something open, as `push` needs.
    """

    def __init__(
        self, names: Sequence[str], plan: Plan, path: Path, supplier: str | None, *, is_strict: bool = False
    ) -> None:
        super().__init__(names[0])
        self.files = list(names)
        self.size = None
        self.mapping = str(path)
        self.tables: dict[str, Table] = {}
        self.mapped: Mapped | None = None
        self.doubts: list[str] = []
        """Sentences on cells and sheets that the mapping must decide on."""
        self._plan, self._supplier, self._is_strict = plan, supplier, is_strict
        self._rows_read = 0
        self._empty_cells: collections.Counter[tuple[str, str]] = collections.Counter()

    @property
    def read(self) -> int:
        return self._rows_read

    def columns_nowhere(self) -> list[str]:
        """Return the columns of all tables that the mapping neither reads nor ignores."""
        used = self._plan.columns | (self.mapped.joined if self.mapped else set())
        return [
            named(alias, column)
            for alias, table in self.tables.items()
            for column in table.columns
            if (alias, column) not in used and column not in self._plan.ignore
        ]

    def written(self) -> Iterator[str]:
        """Yield sentences: how each file or sheet was read, and how many rows and cells each table has."""
        for alias, table in self.tables.items():
            yield from table.written
            if self.mapped is None:  # reading ended early
                continue
            cells = sum(table.filled.values()) + table.skipped
            used = sum(number for (name, _), number in self.mapped.unused.used.items() if name == alias)
            ignored = f", {cells - used:,} of them ignored" if cells != used else ""
            yield f"{alias or table.name}: {counted(table.rows_read, 'row')}, {counted(cells, 'filled cell')}{ignored}"

    def open_points(self) -> list[str]:
        """Return sentences on all points that the mapping must decide before anything is sent."""
        lost = self.mapped.unused.sentences(self._location) if self.mapped else iter(())
        unmapped = [f"column {column}: No field uses this column." for column in self.columns_nowhere()]
        return [*self.doubts, *unmapped, *lost]

    def lines(self) -> Iterator[Line]:
        """Yield the accounts. Raises Unreadable, and Differs unless every row and cell is accounted for."""
        with tempfile.TemporaryDirectory(prefix="importbook-") as folder:
            store = _Store(Path(folder) / "rows.db")
            try:
                self._load(store)
                if self._is_strict:
                    self._refuse_open(store)
                self.mapped = Mapped(self._plan, self._supplier, self.tables)
                yield from self._lines(store, self.mapped)
                self._settle()
            finally:
                store.close()

    def _load(self, store: "_Store") -> None:
        """Read all tables, and count each a second time."""
        sources = {"": (self.files, self._plan.source)}
        sources |= {alias: ([file.path], file.source) for alias, file in self._plan.files.items()}
        columns_read = self._plan.columns
        ignored = {
            alias: [column for column in self._plan.ignore if (alias, column) not in columns_read] for alias in sources
        }
        for alias, (names, source) in sources.items():
            other_sheets = [
                sheet
                for other_alias, (other_names, other_source) in sources.items()
                if other_alias != alias
                and {Path(name).resolve() for name in other_names} & {Path(name).resolve() for name in names}
                for sheet in other_source.sheets
            ]
            self.tables[alias] = Table(names, source, ignored=ignored[alias], chosen_elsewhere=other_sheets)
        check_columns(self._plan, {alias: table.columns for alias, table in self.tables.items()})
        for alias, table in self.tables.items():
            store.fill(alias, self._cleaned(alias, table, columns_read), self._plan.keys[alias])
            self.doubts += [sentence for word, sentence in table.doubts if not word or word not in self._plan.empty]
        self.doubts += self._dates_in_texts()
        store.index()
        self.size = self.tables[""].rows_read

    def _cleaned(self, alias: str, table: Table, columns_read: set[tuple[str, str]]) -> Iterator[tuple[int, Row]]:
        """Yield the rows without empty cells, and without blanks around texts. Adds doubts at the end."""
        found: dict[tuple[str, str], str] = {}
        texts = {column for table, column, _ in text_columns(self._plan.account) if table == alias}
        empty = frozenset(self._plan.empty)
        for number, row in table.rows():
            cells: Row = {}
            for column, cell in row.items():
                value = clean(cell, empty)
                if value is None:
                    self._empty_cells[alias, column] += 1
                    continue
                cells[column] = value
                if (alias, column) in columns_read and self._plan.is_doubtful(value):
                    found.setdefault((column, _NO_VALUE), f"{table.location(number)} has {value}")
                if column in texts and self._plan.is_rounded(value):
                    found.setdefault((column, _ROUNDED), f"{table.location(number)} has {value}")
            yield number, cells
        self.doubts += [
            f"column {named(alias, column)}: {first}, which {why}" for (column, why), first in found.items()
        ]

    def _dates_in_texts(self) -> Iterator[str]:
        """Yield sentences on text columns with dates of a workbook: Excel makes dates of texts such as 1/2."""
        for alias, column, path in dict.fromkeys(text_columns(self._plan.account)):
            if location := self.tables[alias].dated.get(column):
                yield (
                    f"column {named(alias, column)}: {location}, and {path} is a text: Excel may have made the date of"
                    " another text. Format the column as text and type its values again. If they are dates, say"
                    f" `{{column: {column}, format: YYYY-MM-DD}}`."
                )

    def _refuse_open(self, store: "_Store") -> None:
        """Raise Differs if a part of the tables is in no account and not ignored."""
        self.mapped = Mapped(self._plan, self._supplier, self.tables)
        for _ in self._lines(store, self.mapped):
            pass
        self._settle()
        self._rows_read = 0
        if found := self.open_points():
            raise Differs("\n".join(["Nothing was sent, since the mapping leaves something open:", *found]))

    def _lines(self, store: "_Store", mapped: Mapped) -> Iterator[Line]:
        for key, rows in store.groups():
            self._rows_read += len(rows)
            if key:
                account, errors = mapped.account(
                    key, rows, {alias: store.rows(alias, key) for alias in self._plan.files}
                )
                yield Line(rows[0].number, _encode(account), tuple(errors), key)
                continue
            for row in rows:
                mapped.unused.add_unmatched("", row)
                location = self._location("", row.number)
                sentence = f"{location[0].upper()}{location[1:]} must have a value in column {self._plan.key}."
                yield Line(row.number, b"", (FieldError("external_account_number", "required", sentence),))
        for alias in self._plan.files:
            for row in store.unmatched_rows(alias):
                mapped.unused.add_unmatched(alias, row)

    def _settle(self) -> None:
        """Raise Differs unless each filled cell is in an account or named as ignored."""
        assert self.mapped is not None, "all accounts were made"
        unused = self.mapped.unused
        for alias, table in self.tables.items():
            for column in table.columns:
                cell_column = (alias, column)
                used, ignored = unused.used[cell_column], unused.named[cell_column] + self._empty_cells[cell_column]
                if table.filled[column] != used + ignored:
                    filled = counted(table.filled[column], "filled cell was", "filled cells were")
                    raise Differs(
                        f"{named(alias, column)}: {filled} counted, {used:,} used and {ignored:,} ignored. Nothing is"
                        " certified."
                    )

    def _location(self, alias: str, number: int) -> str:
        return self.tables[alias].location(number)


class _Store:
    """Rows on disk by their keys."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -8000;")
        self._db.execute("CREATE TABLE row (alias, key, number INTEGER, content BLOB)")

    def close(self) -> None:
        self._db.close()

    def fill(self, alias: str, rows: Iterator[tuple[int, Row]], key: str) -> None:
        self._db.executemany(
            "INSERT INTO row VALUES (?, ?, ?, ?)",
            ((alias, key_of(row.get(key)), number, _encode(row)) for number, row in rows),
        )

    def index(self) -> None:
        """Create the index, after all rows are there."""
        self._db.execute("CREATE INDEX by_key ON row (alias, key, number)")

    def groups(self) -> Iterator[tuple[str, list[Numbered]]]:
        """Yield each key of the main table with its rows, in the order of the first rows."""
        keys = self._db.execute("SELECT key FROM row WHERE alias = '' GROUP BY key ORDER BY min(number)")
        for (key,) in keys:
            yield key, self.rows("", key)

    def rows(self, alias: str, key: str) -> list[Numbered]:
        rows = self._db.execute(
            "SELECT number, content FROM row WHERE alias = ? AND key = ? ORDER BY number", (alias, key)
        )
        return [Numbered(number, _decode(content)) for number, content in rows]

    def unmatched_rows(self, alias: str) -> Iterator[Numbered]:
        """Yield the rows of a further table that belong to no row of the main one."""
        rows: Iterator[tuple[int, Any]] = self._db.execute(
            "SELECT number, content FROM row WHERE alias = ?1 AND (key = '' OR NOT EXISTS"
            " (SELECT 1 FROM row AS main WHERE main.alias = '' AND main.key = row.key)) ORDER BY number",
            (alias,),
        )
        for number, content in rows:
            yield Numbered(number, _decode(content))
