"""What a cell says once blanks and words for "no value" are gone."""

import re
from collections.abc import Collection

from importledger_client.tables.table import Cell

_AS_FORMULA = re.compile(r'="([^"]*)"\Z')
"""How programs keep Excel from reading a text as a number."""
NO_VALUE = frozenset(
    {
        "NULL",
        "null",
        "(null)",
        "(NULL)",
        "<NULL>",
        "<null>",
        "[NULL]",
        "[null]",
        "\\N",
        "None",
        "<NA>",
        "N/A",
        "n/a",
        "NaN",
        "nan",
        "NaT",
        "Infinity",
        "-Infinity",
        "inf",
        "-inf",
        "#NV",
        "#N/A",
        "#WERT!",
        "#VALUE!",
        "#BEZUG!",
        "#REF!",
        "#DIV/0!",
        "#NAME?",
        "#ZAHL!",
        "#NUM!",
        "#NULL!",
        "#LEER!",
        "#ÜBERLAUF!",
        "#SPILL!",
    }
)
"""Words that may mean "no value". A mapping must say what they mean before they are pushed."""


def clean(cell: Cell, empty: Collection[str]) -> Cell:
    """The cell without blanks around it; None for a word that means no value."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if match := _AS_FORMULA.match(text):
        text = match.group(1).strip()
    return None if not text or text in empty else text
