"""List of the values of code columns with their targets, which people fill in and the mapping uses.

The list is written as CSV, and read from CSV or XLSX.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from importledger_client.failures import neutral, private_file
from importledger_client.sources import Unreadable
from importledger_client.tables.reading import Table
from importledger_client.tables.table import TableSource
from importledger_client.unfinished import UNFINISHED, private_folder
from importledger_client.values import clean

Entries = dict[str, dict[str, str]]
"""Targets by lookup table and value. The target "" means no value."""
NOTHING = "-"
"""Target of a value that means "no value". An empty target is not decided yet."""
_COLUMNS = ("table", "value", "target", "example", "rows")
_LIKE_NUMBER = re.compile(r"[0-9][0-9.,:/ -]*\Z")
"""Texts that Excel would change, such as 01, 1/2 and long numbers."""


class CodeValue(NamedTuple):
    """A value of a column with a lookup table, its number of rows, and an account that has it."""

    table: str
    value: str
    rows: int
    example: str


def read_list(path: Path) -> Entries:
    """Return the decided targets of a list, which may be CSV or XLSX. Raises Unreadable."""
    entries: Entries = {}
    table = Table([str(path)], TableSource())
    for column in ("table", "value", "target"):
        if column not in table.columns:
            raise Unreadable(
                "{file} must have the columns table, value and target, as `importbook map values` writes.", file=path
            )
    for number, row in table.rows():
        cells = {column: clean(cell, ()) for column, cell in zip(table.columns, row, strict=True)}
        if (name := cells["table"]) and (value := cells["value"]) and (target := cells["target"]):
            known = entries.setdefault(name, {}).setdefault(value, "" if target == NOTHING else target)
            if known != ("" if target == NOTHING else target):
                place = f"{path}, {table.location(number)}"
                raise Unreadable("{place}: {value!r} must have one target.", place=place, value=value)
    for __, sentence in table.doubts:
        raise Unreadable(sentence)
    return entries


def write_list(path: Path, values: Iterable[CodeValue], entries: Mapping[str, Mapping[str, str]]) -> int:
    """Write the values of all lookup tables with their targets, and return the number of values without a target.

    Targets of values that no longer occur stay in the list, with 0 rows. The file has a temporary name until it is
    complete, because people have filled in the earlier list.
    """
    found = {(value.table, _safe(value.value)): value for value in values}
    known = {(table, _safe(value)): target for table, targets in entries.items() for value, target in targets.items()}
    with private_folder(UNFINISHED, path.parent) as folder:
        part = folder / path.name
        with io.TextIOWrapper(private_file(part), encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerow(_COLUMNS)
            for key in [*found, *(key for key in known if key not in found)]:
                rows, example = (found[key].rows, found[key].example) if key in found else (0, "")
                target = known.get(key)
                texts = [*key, NOTHING if target == "" else _safe(target or ""), _safe(example)]
                writer.writerow([*map(_unchanged, texts), rows])
        part.replace(path)
    return len(found.keys() - known.keys())


def _safe(cell: str) -> str:
    """Return a cell that is not a formula in a spreadsheet, also if it was read from an earlier list."""
    return cell if cell.startswith("'") else neutral(cell)


def _unchanged(cell: str) -> str:
    """Return a cell in the form that spreadsheets do not change."""
    return f'="{cell}"' if _LIKE_NUMBER.match(cell) else cell
