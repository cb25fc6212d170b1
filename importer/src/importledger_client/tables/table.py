"""Rows and columns of a table, whatever its format: parts with a header each, cells by position."""

import collections
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

Cell = str | int | Any
"""Text, int, Decimal or bool; dates and datetimes as ISO 8601 text. None where the cell is empty."""
Row = dict[str, Cell]
"""Cells by the name of their column."""


class Dated(str):
    """A cell that a workbook holds as a date or time, as ISO 8601 text. Excel makes dates of texts such as 1/2."""


class TableSource(msgspec.Struct, forbid_unknown_fields=True):
    """How to read a table, as the mapping says; an empty value means that it is found out."""

    delimiter: str = ""
    encoding: str = ""
    sheets: list[str] = []
    ignore_sheets: list[str] = []


class Doubt(msgspec.Struct):
    """Cells of one column that a reader cannot be sure of: where the first is, what is wrong, and how many they are."""

    place: str
    what: str
    cells: int = 0


class Doubts:
    """The doubts about a part, by column and word. A mapping may list the word in `empty`."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], Doubt] = {}

    def add(self, position: int, word: str, place: str, what: str) -> None:
        self._found.setdefault((position, word), Doubt(place, what)).cells += 1

    def items(self) -> Iterator[tuple[int, str, str]]:
        """(position of the column, word, sentence)."""
        for (position, word), doubt in self._found.items():
            more = f" ({doubt.cells:,} cells)" if doubt.cells > 1 else ""
            yield position, word, f"{doubt.place} {doubt.what}{more}"


class Count(msgspec.Struct):
    """Rows, and filled cells by position. The header is not counted."""

    rows: int = 0
    filled: collections.Counter[int] = msgspec.field(default_factory=collections.Counter)

    def add(self, cells: list[Any]) -> None:
        """Count one row; a cell is filled unless it is None."""
        self.rows += 1
        self.filled.update(place for place, cell in enumerate(cells) if cell is not None)


class Part(Protocol):
    """A file, or one sheet of a workbook."""

    label: str
    """Name of the file, and of the sheet where there are several."""
    written: str
    """Format, encoding and delimiter, for people."""

    def header(self) -> list[str]:
        """The names of the columns by position, "" for a column without a name. Raises Unreadable."""
        ...

    def rows(self) -> Iterator[tuple[int, list[Cell]]]:
        """The rows below the header with their numbers. CSV and sheets leave out rows without any cell.

        Raises Unreadable.
        """
        ...

    def count(self) -> Count:
        """Count the part a second time, by other code than `rows`. Raises Unreadable."""
        ...

    def doubts(self) -> Iterator[tuple[int, str, str]]:
        """The cells that nobody can be sure of, after `rows`: see `Doubts.items`."""
        ...
