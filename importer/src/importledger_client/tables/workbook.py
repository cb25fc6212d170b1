"""Read sheets of XLSX workbooks with calamine.

calamine returns no value for formulas without a stored value and for cells with an error. `sheet_xml` finds such cells.
"""

import math
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from importledger_client.language import _, translatable
from importledger_client.sources import Unreadable
from importledger_client.tables.sheet_xml import check_area, scan
from importledger_client.tables.table import Cell, Count, Dated, Doubts

_OLD, _ZIP = b"\xd0\xcf\x11\xe0", b"PK\x03\x04"
_ROUNDED = translatable("has a number of more than 15 digits, which Excel has rounded: it must be text.")
_TEXTS = frozenset({str, type(None)})
_EXACT = 10**15
"""Limit of numbers that Excel stores exactly (15 digits). Excel rounds larger numbers before it saves them."""


class Sheet:
    """One sheet of a workbook."""

    def __init__(self, name: str, sheet: Any, label: str) -> None:
        self.name, self.label, self.title = name, label, sheet.name
        self.written = f"XLSX · {_('sheet')} {self.title}"
        self._sheet = sheet
        self.doubts = Doubts()

    def header(self) -> list[str]:
        __, cells = next(self._cells())
        return [str(cell).strip() if cell is not None else "" for cell in cells]

    def rows(self) -> Iterator[tuple[int, list[Cell]]]:
        cells = self._cells()
        next(cells, None)
        return ((number, row) for number, row in cells if row.count(None) < len(row))

    def recount(self) -> Count:
        return scan(self.name, self.title)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_sheet": None}  # calamine's sheet cannot be sent to another process

    def _cells(self) -> Iterator[tuple[int, list[Cell]]]:
        """Yield the rows from the header on, each from the first column of the sheet."""
        top, first_column = self._sheet.start
        for number, cells in enumerate(self._sheet.iter_rows(), top + 1):
            row: list[Cell] = [None] * first_column
            row += [(cell or None) if type(cell) is str else _plain(cell) for cell in cells]
            for position, cell in enumerate(row) if not _TEXTS.issuperset(map(type, row)) else ():
                if isinstance(cell, int | Decimal) and not -_EXACT < cell < _EXACT:
                    self.doubts.add(position, "", f"{_('row')} {number}", _(_ROUNDED))
            yield number, row


def sheets_of(name: str) -> list[Sheet]:
    """Return the sheets of a workbook that have rows, in their order. Raises Unreadable."""
    from python_calamine import CalamineError, PasswordError, SheetTypeEnum, load_workbook

    _check_kind(name)
    try:
        book = load_workbook(name)
        names = [sheet.name for sheet in book.sheets_metadata if sheet.typ == SheetTypeEnum.WorkSheet]
        for title in names:
            check_area(name, title)
        sheets = [book.get_sheet_by_name(title) for title in names]
    except PasswordError:
        raise Unreadable("{file} has a password: save it without one.", file=name) from None
    except (CalamineError, OSError, ValueError) as error:
        raise Unreadable("{file} cannot be read as XLSX: {error}.", file=name, error=error) from None
    labels = [name if len(sheets) == 1 else f"{name}, {_('sheet')} {sheet.name}" for sheet in sheets]
    return [Sheet(name, sheet, label) for sheet, label in zip(sheets, labels, strict=True) if sheet.start is not None]


def _check_kind(name: str) -> None:
    with Path(name).open("rb") as file:
        start = file.read(4096)
    if start.startswith(_OLD):
        raise Unreadable(
            "{file} is an old Excel workbook (.xls), or has a password: save it as .xlsx without one.", file=name
        )
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise Unreadable(
            "{file} is an HTML or XML page, not a workbook: open it in Excel and save it as .xlsx.", file=name
        )
    if not start.startswith(_ZIP):
        raise Unreadable("{file} is not a workbook: if it is text, its name must end with .csv.", file=name)


def _plain(value: Any) -> Cell:
    """Return a cell as text, number, boolean or None."""
    if isinstance(value, datetime):
        return Dated(value.date().isoformat() if value.time() == time() else value.isoformat())
    if isinstance(value, date | time):
        return Dated(value.isoformat())
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return Dated(f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}")
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(Decimal(value))  # NaN, Infinity or -Infinity, a word that a mapping decides on
        return int(value) if value.is_integer() else Decimal(f"{value:.15g}")  # the digits that Excel shows
    return value
