"""Record of the cells and rows of tables that are in no account, so that each such cell and row is reported.

A value is unused if the rows of an account have several values in a column of which the account has one value. A row is
unused if it belongs to no account. A row of a further table may also match no parent, or several parents.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from importledger_client.display import counted
from importledger_client.language import _
from importledger_client.mapping import Plan, named
from importledger_client.values import Conversion

Row = tuple[Any, ...]
"""Number of the account, number of the row in its table, then the values of `TableUse.values`."""


class UnusedColumn(msgspec.Struct):
    """The values of a column that are in no account: the first value, its location, and the number of accounts."""

    value: str
    account: str
    location: tuple[str, int]
    """Table and number of the row."""
    accounts: int = 0


class TableUse:
    """The values of a table's rows that accounts need, and the cells that accounts read.

    Each part of the mapping that reads rows has a bit for the columns that it reads.
    """

    def __init__(self, columns: Iterable[str], always: Collection[str]) -> None:
        self.columns = {column: f"c{place}" for place, column in enumerate(columns)}
        """Columns with their names in the engine."""
        self.values = [*self.columns.values()]
        """Values of each row that the engine returns, after the number of the account and the number of the row."""
        self.conversions: dict[Conversion, str] = {}
        """Conversions with their names in the engine."""
        self.shared: Collection[int] = ()
        """Numbers of the rows that are in several accounts. Cells of these rows count once."""
        self.always = set(always)
        """Columns that every row reads."""
        self._read: list[frozenset[str]] = [frozenset()]
        self._marks: dict[int, int] = {}
        self._patterns: collections.Counter[tuple[int, tuple[bool, ...]]] = collections.Counter()
        self._of_shared: dict[int, tuple[int, tuple[bool, ...]]] = {}
        self.unread_rows = 0
        """Number of rows of accounts that no part of the mapping has read."""
        self._unread: dict[int, list[tuple[int, str]]] = {}

    def place(self, value: str) -> int:
        """Return the place of a value in each row. `value` is SQL over the names of columns and conversions."""
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value) + 2

    def converted(self, conversion: Conversion) -> str:
        """Return the name of a converted column in the engine."""
        return self.conversions.setdefault(conversion, f"d{len(self.conversions)}")

    def bit(self, columns: Collection[str]) -> int:
        """Return a new bit for a part of the mapping that reads columns."""
        self._read.append(frozenset(columns))
        return 1 << (len(self._read) - 1)

    def mark(self, rows: Iterable[Row], bit: int) -> None:
        """Record that a part of the mapping has read rows. The bit 1 marks rows that the part passes over."""
        marks = self._marks
        for row in rows:
            marks[row[1]] = marks.get(row[1], 0) | bit

    def end_account(self, rows: Iterable[Row]) -> Iterator[tuple[Row, str | None]]:
        """Record the read cells of rows. Yield (row, None) for unread rows, and (row, column) for unread cells."""
        size = 2 + len(self.columns)
        for row in rows:
            mark = self._marks.get(row[1], 0)
            pattern = tuple([cell is not None for cell in row[2:size]])
            if row[1] in self.shared:
                before = self._of_shared.get(row[1], (0, pattern))[0]
                self._of_shared[row[1]] = before | mark, pattern
            else:
                self._patterns[mark, pattern] += 1
            if not mark:
                if row[1] not in self.shared:
                    self.unread_rows += 1
                    yield row, None
                continue
            for place, column in self._unread[mark] if mark in self._unread else self._unread_by(mark):
                if row[place] is not None:
                    yield row, column
        self._marks.clear()

    def unread_shared(self) -> list[int]:
        """Return the numbers of the rows that are in several accounts, but that no account has read."""
        return [number for number, (mark, _) in self._of_shared.items() if not mark]

    def cells(self) -> tuple[collections.Counter[str], collections.Counter[str]]:
        """Return the numbers of filled cells in rows of accounts, by column: cells that the mapping reads, and other
        cells.
        """
        used, unused = collections.Counter[str](), collections.Counter[str]()
        for (mark, pattern), rows in (self._patterns + collections.Counter(self._of_shared.values())).items():
            read = self._columns_of(mark)
            for column, is_filled in zip(self.columns, pattern, strict=True):
                (used if column in read else unused)[column] += rows * is_filled
        return used, unused

    def _columns_of(self, mark: int) -> frozenset[str]:
        """Return the columns that are read by the parts of the mapping whose bits are in `mark`."""
        if not mark:
            return frozenset()
        return frozenset(self.always).union(*(read for bit, read in enumerate(self._read) if mark >> bit & 1))

    def _unread_by(self, mark: int) -> list[tuple[int, str]]:
        """Return (place, column) of the columns that no part in `mark` reads; no columns for rows that were passed
        over.
        """
        read = self._columns_of(mark)
        self._unread[mark] = [
            (place, column) for place, column in enumerate(self.columns, 2) if column not in read and not mark & 1
        ]
        return self._unread[mark]


class UnusedCells:
    """Records the cells and rows that are in no account. A column is named with its table: `zaehler.Stand`."""

    def __init__(self, plan: Plan) -> None:
        self.values: dict[str, UnusedColumn] = {}
        self.rows: dict[str, list[int]] = {}
        """Numbers of rows that belong to no account, or match no parent in the account, by table."""
        self.repeated: dict[str, list[int]] = {}
        """Numbers of rows that are in several accounts, or match several parents at one node of the mapping."""
        self._ignored, self._files = frozenset(plan.ignore), plan.files
        self._differing: dict[tuple[str, str], tuple[int, str]] = {}

    def differ(self, table: str, column: str, row: Row, value: Any) -> None:
        """Record a row whose value is left out, because the present account has one value but its rows have several
        values.
        """
        if column not in self._ignored:
            self._differing.setdefault((table, column), (row[1], str(value)))

    def repeat(self, table: str, number: int) -> None:
        """Record a row of a further table that is used more than once."""
        if self._files[table].repeated == "refuse":
            self.repeated.setdefault(table, []).append(number)

    def unmatched(self, table: str, numbers: Sequence[int]) -> None:
        """Record rows that are in no account."""
        if table and numbers and self._files[table].unmatched == "refuse":
            self.rows.setdefault(table, []).extend(numbers)

    def end_account(self, key: str) -> None:
        """Begin the next account."""
        for (table, column), (number, value) in self._differing.items():
            unused_column = UnusedColumn(value, key, (table, number))
            self.values.setdefault(named(table, column), unused_column).accounts += 1
        self._differing.clear()

    def sentences(self, location: Callable[[str, int], str]) -> Iterator[str]:
        """Yield sentences on all unused cells and rows. `location` names a row of a table."""
        for column, unused in sorted(self.values.items()):
            yield _(
                "column {column}: a value is not used, in {accounts}; the first is {value!r} of account {account}. It"
                " is in {place}: put the column under `each`, say `first: by COLUMN`, or name it in `ignore`.",
                column=column,
                accounts=counted(unused.accounts, "account"),
                value=unused.value,
                account=unused.account,
                place=location(*unused.location),
            )
        for table, numbers in sorted(self.rows.items()):
            yield _(
                "table {table}: {rows} to no account; the first is {place}. Correct the rows or `on`, or say"
                " `unmatched: ignore`.",
                table=table,
                rows=counted(len(numbers), "row belongs", "rows belong"),
                place=location(table, min(numbers)),
            )
        for table, numbers in sorted(self.repeated.items()):
            yield _(
                "table {table}: {rows} used more than once; the first is {place}. Name the parent of a row with `on`,"
                " or write `repeated: allow`.",
                table=table,
                rows=counted(len(numbers), "row is", "rows are"),
                place=location(table, min(numbers)),
            )
