"""Types for tables of any format: parts with a header each, rows, and cells by position."""

import collections
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from importledger_client.display import counted

Cell = str | int | Any
"""Text, int, Decimal or bool; dates and datetimes as ISO 8601 text; None for an empty cell."""
Row = Sequence[Cell]
"""Cells by the position of their column."""


class Dated(str):
    """A date or time of a workbook, as ISO 8601 text. Excel changes texts such as 1/2 to dates."""


class TableSource(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a mapping for reading a table. An empty value is detected from the file."""

    delimiter: str = ""
    encoding: str = ""
    sheets: list[str] = []
    ignore_sheets: list[str] = []


class Doubts:
    """Doubtful cells of a part, by column and word. A mapping may list the word in `empty`."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, str], str] = {}
        self._cells = collections.Counter[tuple[int, str]]()

    def add(self, position: int, word: str, location: str, problem: str) -> None:
        self._first.setdefault((position, word), f"{location} {problem}")
        self._cells[position, word] += 1

    def items(self) -> Iterator[tuple[int, str, str]]:
        """Yield (position of the column, word, sentence on the first cell, with the number of cells)."""
        for (position, word), sentence in self._first.items():
            cells = self._cells[position, word]
            yield position, word, f"{sentence} ({counted(cells, 'cell')})" if cells > 1 else sentence


class Count:
    """Number of rows, and of filled cells by position, without the header.

    `doubts` has the cells that only a second count finds doubtful, `signs` those that are doubtful in a text field.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.filled: collections.Counter[int] = collections.Counter()
        self.doubts, self.signs = Doubts(), Doubts()

    def add(self, cells: Sequence[Any]) -> None:
        """Count one row. A cell is filled unless it is None."""
        self.rows += 1
        self.filled.update([position for position, cell in enumerate(cells) if cell is not None])


class Part(Protocol):
    """A file, or one sheet of a workbook."""

    label: str
    """Name of the file, and of the sheet if there are several."""
    written: str
    """Format, encoding and delimiter, for people."""
    doubts: Doubts
    """Doubtful cells that `rows` has found."""

    def header(self) -> list[str]:
        """Return the names of the columns by position, "" for a column without a name. Raises Unreadable."""
        ...

    def rows(self) -> Iterator[tuple[int, list[Cell]]]:
        """Yield the rows below the header with their numbers. CSV and sheets skip rows without any cell.

        Raises Unreadable.
        """
        ...

    def recount(self) -> Count:
        """Count the part with other code than `rows`, possibly in another process. Raises Unreadable."""
        ...
