"""Table of a sample as a workbook (.xlsx).

Every cell is text, so that Excel converts no cell and no cell can be a formula.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

from redaction.private_files import open_private
from schemas.sentence import Sentence, german_of

_MOST_ROWS = 1_000_000
"""Rows of a sheet. Further rows are on another sheet, since Excel reads 1,048,576 rows."""
_MOST_LETTERS = 32_000
"""Most characters of a cell. Longer texts are cut, since Excel reads 32,767 characters."""
HEADINGS = {
    Sentence("No.", "Nr."): 6,
    Sentence("Account", "Konto"): 24,
    Sentence("Number on the platform", "Nummer auf der Plattform"): 22,
    Sentence("Status", "Status"): 14,
    Sentence("Field", "Feld"): 60,
    Sentence("Row", "Zeile"): 8,
    Sentence("Source data", "Altsystem"): 40,
    Sentence("Platform", "Plattform"): 40,
    Sentence("Result", "Ergebnis"): 24,
}
"""Headings of the columns, with the width of each in characters."""
EQUAL = Sentence("equal", "gleich")
DIFFERS = Sentence("differs", "weicht ab")
NOT_KEPT = Sentence("no field of the contract", "kein Feld der Schnittstelle")
NOT_STORED = Sentence("the account is not on the platform", "das Konto ist nicht auf der Plattform")
NO_SOURCE = Sentence("the payload was erased or archived", "die Daten sind gelöscht oder archiviert")


def write_table(file: Path, rows: Iterable[Sequence[str]], language: str) -> None:
    """Write the rows below their headings, with a filter, in a private file."""
    from xlsxwriter import Workbook  # imported here: no other verb needs this library

    # temporary files of xlsxwriter contain the same texts
    options = {"constant_memory": True, "tmpdir": str(file.parent)}
    with open_private(file) as output, Workbook(output, options) as workbook:
        text, heading = workbook.add_format({"num_format": "@"}), workbook.add_format({"bold": True})
        remaining, is_first = iter(rows), True
        while (first := next(remaining, None)) is not None or is_first:
            is_first = False
            sheet = workbook.add_worksheet()
            sheet.freeze_panes(1, 0)
            for column, (name, width) in enumerate(HEADINGS.items()):
                sheet.set_column(column, column, width)
                sheet.write_string(0, column, _in(name, language), heading)
            page = () if first is None else chain([first], islice(remaining, _MOST_ROWS - 1))
            number = 0
            for number, row in enumerate(page, 1):
                for column, content in enumerate(row):
                    sheet.write_string(number, column, _in(content, language), text)
            sheet.autofilter(0, 0, number, len(HEADINGS) - 1)
            sheet.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})


def _in(text: str, language: str) -> str:
    """Return a text in the language, cut to _MOST_LETTERS."""
    return str(german_of(text) if language == "de" else text)[:_MOST_LETTERS]
