"""Count a sheet by its XML: a second method, which shares no code with calamine's reading of values."""

import contextlib
import functools
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import msgspec

from importledger_client.language import _
from importledger_client.sources import Unreadable
from importledger_client.tables.table import Count, Doubts

_PADDED = re.compile(r"00+\Z")
MOST_CELLS = 2**26
"""Largest area of a sheet [cells], since calamine keeps 32 bytes in memory for each cell, filled or not."""
_CELL = re.compile(rb"""<(?:\w+:)?c\s(?:[^>]*\s)?r=["']([A-Za-z]{1,99})([0-9]{1,99})["'][^>]*(?<!/)>""")
"""Start of a cell with content, with its letters and number."""
_LONGEST_START, _READ_BYTES = 2**8, 2**20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, LookupError, ValueError, ElementTree.ParseError)
_INLINE = {("is", "t"), ("is", "r", "t")}
"""Elements in a cell with its text."""
_LETTERS = re.compile(r"([A-Z]+)[0-9]+\Z")


class Scan(msgspec.Struct):
    """Rows and filled cells of a sheet, and its doubtful cells: formulas without a value, errors, leading zeros."""

    count: Count
    doubts: Doubts


def check_area(name: str, sheet: str) -> None:
    """Raise Unreadable if the area from the first to the outermost cells of a sheet is larger than MOST_CELLS."""
    rows, last, remaining = 0, 0, b""
    with _opened(name, sheet) as archive, archive.open(_path_of(archive, sheet)) as content:
        while part := content.read(_READ_BYTES):
            remaining += part
            found = _CELL.findall(remaining)
            rows = max([rows, *(int(number) for __, number in found)])
            last = max([last, *(_position(letters.decode().upper()) for letters in {cell[0] for cell in found})])
            remaining = remaining[-_LONGEST_START:]
    if rows * (last + 1) > MOST_CELLS:
        raise Unreadable(
            _(
                "{file}, sheet {sheet} reaches to row {row} and column {column}, which is too large:"
                " delete the cells that are far from the table, or save it as CSV.",
                file=name,
                sheet=sheet,
                row=rows,
                column=_letters(last),
            )
        )


def scan(name: str, sheet: str) -> Scan:
    """Count a sheet of a workbook. Raises Unreadable."""
    with _opened(name, sheet) as archive:
        cells = _Cells(_filled_texts(archive), _widths(archive))
        # Entities are not dangerous: expat limits their expansion, and loads no external entities.
        parser = ElementTree.XMLParser(target=cells)  # noqa: S314
        with archive.open(_path_of(archive, sheet)) as content:
            while part := content.read(_READ_BYTES):
                parser.feed(part)
        parser.close()
    return cells.found


class _Cells:
    """Target of an XML parser that counts the cells of a sheet."""

    def __init__(self, texts: list[bool], widths: list[int]) -> None:
        self.found = Scan(Count(), Doubts())
        self._texts, self._widths = texts, widths
        self._number, self._has_header = 0, False
        self._filled, self._position = set[int](), -1
        self._cell: Mapping[str, str] | None = None
        self._path: tuple[str, ...] = ()
        """Names of the open elements in the cell."""
        self._value, self._has_formula, self._has_text = "", False, False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = _name(tag)
        if self._cell is not None:
            self._path = (*self._path, name)
            self._has_formula = self._has_formula or self._path == ("f",)
        elif name == "c":
            match = _LETTERS.match(attributes.get("r", ""))
            self._position = _position(match.group(1)) if match else self._position + 1
            self._cell, self._value, self._has_formula, self._has_text = attributes, "", False, False
        elif name == "row":
            self._number = int(attributes.get("r", self._number + 1))
            self._filled, self._position = set(), -1

    def data(self, text: str) -> None:
        if self._path == ("v",):
            self._value += text
        elif self._path in _INLINE:
            self._has_text = True

    def end(self, tag: str) -> None:
        if self._path:
            self._path = self._path[:-1]
        elif self._cell is not None:
            self._end_cell(self._cell)
            self._cell = None
        elif _name(tag) == "row":
            filled = self._filled
            if filled and self._has_header:
                cells = [True if position in filled else None for position in range(max(filled) + 1)]
                self.found.count.add(cells)
            self._has_header = self._has_header or bool(filled)

    def close(self) -> None:
        """End the sheet."""

    def _end_cell(self, cell: Mapping[str, str]) -> None:
        kind, value, position, doubts = cell.get("t", "n"), self._value, self._position, self.found.doubts
        if self._has_formula and not value and kind != "str":
            problem = _(
                "has a formula without a stored value: open the file in Excel and save it, or ignore the column."
            )
            doubts.add(position, "", self._name_of(cell), problem)
        elif kind == "e":
            problem = _("has the error {error}: fix it, or list it in `empty`.", error=value)
            doubts.add(position, value, self._name_of(cell), problem)
        elif self._has_text if kind == "inlineStr" else self._texts[int(value)] if kind == "s" and value else value:
            self._filled.add(position)
            style = int(cell.get("s", 0))
            width = self._widths[style] if kind == "n" and style < len(self._widths) else 0
            if width > len(value.lstrip("-")):
                problem = _(
                    "has a number that Excel shows with leading zeros ({digits} digits): the column must be text.",
                    digits=width,
                )
                doubts.add(position, "", self._name_of(cell), problem)

    def _name_of(self, cell: Mapping[str, str]) -> str:
        return f"{_('cell')} {cell.get('r') or _letters(self._position) + str(self._number)}"


@contextlib.contextmanager
def _opened(name: str, sheet: str) -> Iterator[zipfile.ZipFile]:
    """Yield the archive of a workbook. Raises Unreadable for any damage."""
    try:
        with zipfile.ZipFile(name) as archive:
            yield archive
    except _DAMAGE as error:
        place = f"{name}, {_('sheet')} {sheet}"
        raise Unreadable(_("{file} cannot be read as XLSX: {error}.", file=place, error=error)) from None


def _elements(archive: zipfile.ZipFile, path: str, tag: str) -> Iterator[Element]:
    """Yield the elements with a tag, and empty each element after its use, to save memory."""
    with archive.open(path) as content:
        # Entities are not dangerous: expat limits their expansion, and loads no external entities.
        for _, element in ElementTree.iterparse(content):  # noqa: S314
            if _name(element.tag) == tag:
                yield element
                element.clear()


def _has_text(element: Element) -> bool:
    """Return True for a rich or plain text with any character. Pronunciations (rPh) do not count."""
    for part in element:
        name = _name(part.tag)
        if (name == "t" and part.text) or (name == "r" and _has_text(part)):
            return True
    return False


def _filled_texts(archive: zipfile.ZipFile) -> list[bool]:
    """Return a bool for each shared text: True if the text is not empty."""
    path = _member(archive, "xl/sharedstrings.xml")
    return [_has_text(text) for text in _elements(archive, path, "si")] if path else []


def _widths(archive: zipfile.ZipFile) -> list[int]:
    """Return the least number of shown digits for each cell style, such as 5 for the format 00000 of postcodes."""
    path = _member(archive, "xl/styles.xml")
    if path is None:
        return []
    formats = {form.get("numFmtId"): form.get("formatCode", "") for form in _elements(archive, path, "numFmt")}
    (styles,) = [[xf.get("numFmtId") for xf in styles] for styles in _elements(archive, path, "cellXfs")] or [[]]
    matches = (_PADDED.match(formats.get(style, "")) for style in styles)
    return [len(match.group()) if match else 0 for match in matches]


def _path_of(archive: zipfile.ZipFile, sheet: str) -> str:
    """Return the path of a sheet in the archive."""
    sheets = {found.get("name"): found.items() for found in _elements(archive, "xl/workbook.xml", "sheet")}
    (link,) = (value for name, value in sheets[sheet] if name.endswith("}id"))
    relations = _elements(archive, "xl/_rels/workbook.xml.rels", "Relationship")
    target = {relation.get("Id"): relation.attrib["Target"] for relation in relations}[link]
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _member(archive: zipfile.ZipFile, name: str) -> str | None:
    return next((path for path in archive.namelist() if path.lower().endswith(name)), None)


@functools.cache
def _name(tag: str) -> str:
    """Return the tag without its namespace."""
    return tag.rpartition("}")[2]


@functools.lru_cache
def _position(letters: str) -> int:
    """Return 0 for A, 26 for AA."""
    position = 0
    for letter in letters:
        position = 26 * position + ord(letter) - 64
    return position - 1


def _letters(position: int) -> str:
    letters = ""
    position += 1
    while position:
        position, remaining = divmod(position - 1, 26)
        letters = chr(65 + remaining) + letters
    return letters
