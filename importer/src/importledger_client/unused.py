"""Record of the cells and rows of the tables that are in no account, so that each of them is reported.

A value is unused if the rows of an account differ in a column of which the account has one value. A row is unused if
it belongs to no account. A row of a further table may also match no parent, or several.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from importledger_client.display import counted
from importledger_client.mapping import Plan, columns_read, named
from importledger_client.tables.table import Row


class Numbered(NamedTuple):
    """A row with its number in its table."""

    number: int
    cells: Row


class UnusedColumn(msgspec.Struct):
    """The values of one column that are in no account: the first, its location, and the number of accounts."""

    value: str
    account: str
    location: tuple[str, int]
    """Table and number of the row."""
    accounts: int = 0


class UnmatchedRows(msgspec.Struct):
    """Rows of a further table that match no parent, or several: their number, and the number of the first row."""

    rows: int = 0
    first: int = 0

    def add(self, number: int) -> None:
        self.first = self.first if self.rows else number
        self.rows += 1


class UnusedCells:
    """Records the cells and rows that are read. A column is named with its table: `zaehler.Stand`."""

    def __init__(self, plan: Plan) -> None:
        self.values: dict[str, UnusedColumn] = {}
        self.rows: dict[str, UnmatchedRows] = {}
        """Rows that belong to no account, or match no parent in it."""
        self.repeated: dict[str, UnmatchedRows] = {}
        """Rows that match several parents at one node of the mapping."""
        self.used: collections.Counter[tuple[str, str]] = collections.Counter()
        """Cells read into accounts, by table and column."""
        self.named: collections.Counter[tuple[str, str]] = collections.Counter()
        """Cells that are in no account, and named by `values`, `rows` or `ignore`."""
        self._keys, self._ignored, self._files = plan.keys, frozenset(plan.ignore), plan.files
        self._columns_read = set(columns_read(plan.account))
        self._cells: set[tuple[str, int, str]] = set()
        self._joined: dict[str, set[int]] = collections.defaultdict(set)
        self._differing: dict[tuple[str, str], Numbered] = {}

    def read(self, table: str, rows: Iterable[Numbered], column: str) -> None:
        """Record that these rows' cells of a column are in the current account."""
        self._cells.update((table, row.number, column) for row in rows)

    def differ(self, table: str, column: str, row: Numbered) -> None:
        """Record a row whose value is left out: the present account has one value, and its rows differ."""
        if column not in self._ignored:
            self._differing.setdefault((table, column), row)

    def join(self, table: str, rows: Iterable[Numbered], before: set[int]) -> None:
        """Record the rows of a further table that belong to a parent.

        They are added to `before`, the rows that this part of the mapping has used for other parents.
        """
        for row in rows:
            if row.number in before and self._files[table].repeated == "refuse":
                self.repeated.setdefault(table, UnmatchedRows()).add(row.number)
            before.add(row.number)
            self._joined[table].add(row.number)

    def end_account(self, number: str, tables: Mapping[str, list[Numbered]]) -> None:
        """Record which cells and rows of an account, by table, were used and which are unused; begin the next one."""
        for table, rows in tables.items():
            for row in rows:
                if table and row.number not in self._joined[table]:
                    self.add_unmatched(table, row)
                else:
                    self._end_row(table, row)
        for (table, column), row in self._differing.items():
            unused_column = UnusedColumn(str(row.cells[column]), number, (table, row.number))
            self.values.setdefault(named(table, column), unused_column).accounts += 1
        self._cells.clear()
        self._joined.clear()
        self._differing.clear()

    def add_unmatched(self, table: str, row: Numbered) -> None:
        """Record a row that is in no account."""
        if table and self._files[table].unmatched == "refuse":
            self.rows.setdefault(table, UnmatchedRows()).add(row.number)
        self.named.update((table, column) for column, cell in row.cells.items() if cell is not None)

    def _end_row(self, table: str, row: Numbered) -> None:
        key = self._keys.get(table)
        for column, cell in row.cells.items():
            if cell is None:
                continue
            if column == key or (table, row.number, column) in self._cells:
                self.used[table, column] += 1
            else:
                self.named[table, column] += 1
                if (table, column) in self._columns_read and column not in self._ignored:
                    self._differing.setdefault((table, column), row)

    def sentences(self, location: Callable[[str, int], str]) -> Iterator[str]:
        """Yield sentences on everything unused. `location` names a row of a table."""
        for column, unused in sorted(self.values.items()):
            yield (
                f"column {column}: a value is not used, in {counted(unused.accounts, 'account')}; the first"
                f" is {unused.value!r} of account {unused.account}. It is in {location(*unused.location)}: put the"
                " column under `each`, say `first: by COLUMN`, or name it in `ignore`."
            )
        for table, unmatched in sorted(self.rows.items()):
            yield (
                f"table {table}: {counted(unmatched.rows, 'row belongs', 'rows belong')} to no account; the first is"
                f" {location(table, unmatched.first)}. Correct the rows or `on`, or say `unmatched: ignore`."
            )
        for table, unmatched in sorted(self.repeated.items()):
            yield (
                f"table {table}: {counted(unmatched.rows, 'row is', 'rows are')} used more than once; the first is"
                f" {location(table, unmatched.first)}. Name the parent of a row with `on`, or write"
                " `repeated: allow`."
            )
