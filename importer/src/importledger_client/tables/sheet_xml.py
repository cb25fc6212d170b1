"""Count a sheet by its XML: a second path beside calamine, with nothing of its reading of values."""

import re
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any
from xml.parsers import expat

import msgspec

from importledger_client.sources import Unreadable
from importledger_client.tables.table import Count, Doubts

_PADDED = re.compile(r"00+\Z")
_LETTERS = re.compile(r"([A-Z]+)([0-9]+)\Z")
_READ_BYTES = 2**18
_ZEROS = "has a number that Excel shows with leading zeros ({} digits): the column must be text."
_WITHOUT_VALUE = "has a formula without a stored value: open the file in Excel and save it, or ignore the column."


class Scan(msgspec.Struct):
    """Rows and filled cells, and the cells that hold a formula without a value, or an error."""

    count: Count
    doubts: Doubts


def scan(name: str, sheet: str) -> Scan:
    """Count a sheet of a workbook. Raises Unreadable."""
    try:
        with zipfile.ZipFile(name) as archive:
            path = _path_of(archive, sheet)
            reading = _Sheet(_filled_texts(archive), _widths(archive))
            with archive.open(path) as content:
                _parse(content, reading.start, reading.end, reading.text)
    except (zipfile.BadZipFile, KeyError, expat.ExpatError, ValueError, IndexError) as error:
        raise Unreadable(f"{name}, sheet {sheet} cannot be read as XLSX: {error}.") from None
    return Scan(reading.count, reading.doubts)


class _Sheet:
    """Events of a sheet's XML, cell by cell."""

    def __init__(self, texts: list[bool], widths: list[int]) -> None:
        self.count = Count()
        self.doubts = Doubts()
        self._texts, self._widths = texts, widths
        self._row: dict[int, Any] = {}
        self._has_header = False
        self._number = self._place = 0
        self._kind = self._value = self._inside = ""
        self._style = 0
        self._has_formula = self._has_text = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        match tag:
            case "row":
                self._number, self._place, self._row = int(attributes.get("r", self._number + 1)), -1, {}
            case "c":
                match = _LETTERS.match(attributes.get("r", ""))
                self._place = _position(match.group(1)) if match else self._place + 1
                self._kind, self._value = attributes.get("t", "n"), ""
                self._style = int(attributes.get("s", 0))
                self._has_formula = self._has_text = False
            case "f":
                self._has_formula = True
            case "v" | "t" | "rPh":
                self._inside = tag

    def text(self, content: str) -> None:
        if self._inside == "v":
            self._value += content
        elif self._inside == "t" and content:
            self._has_text = True

    def end(self, tag: str) -> None:
        match tag:
            case "v" | "t" | "rPh":
                self._inside = ""
            case "c":
                self._end_cell()
            case "row" if self._row:
                if self._has_header:
                    self.count.add([self._row.get(place) for place in range(max(self._row) + 1)])
                self._has_header = True

    def _end_cell(self) -> None:
        if self._has_formula and not self._value and self._kind != "str":
            self.doubts.add(self._place, "", f"cell {_letters(self._place)}{self._number}", _WITHOUT_VALUE)
        elif self._kind == "e":
            cell = f"cell {_letters(self._place)}{self._number}"
            self.doubts.add(
                self._place, self._value, cell, f"has the error {self._value}: mend it, or list it in `empty`."
            )
        elif self._is_filled():
            self._row[self._place] = True
            width = self._widths[self._style] if self._kind == "n" and self._style < len(self._widths) else 0
            if width > len(self._value.lstrip("-")):
                cell = f"cell {_letters(self._place)}{self._number}"
                self.doubts.add(self._place, "", cell, _ZEROS.format(width))

    def _is_filled(self) -> bool:
        if self._kind == "inlineStr":
            return self._has_text
        return self._texts[int(self._value)] if self._kind == "s" and self._value else bool(self._value)


def _filled_texts(archive: zipfile.ZipFile) -> list[bool]:
    """For each shared text whether it has any character; pronunciations do not count."""
    path = next((name for name in archive.namelist() if name.lower().endswith("xl/sharedstrings.xml")), None)
    filled: list[bool] = []
    inside: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        inside.append(tag)
        if tag == "si":
            filled.append(False)

    def end(tag: str) -> None:
        inside.pop()

    def text(content: str) -> None:
        if inside[-1] == "t" and "rPh" not in inside and content:
            filled[-1] = True

    if path is not None:
        with archive.open(path) as content:
            _parse(content, start, end, text)
    return filled


def _widths(archive: zipfile.ZipFile) -> list[int]:
    """For each style of cells the digits that it shows at least, such as 5 for the format 00000 of postcodes."""
    path = next((name for name in archive.namelist() if name.lower().endswith("xl/styles.xml")), None)
    formats: dict[str, str] = {}
    styles: list[int] = []
    inside: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        inside.append(tag)
        if tag == "numFmt":
            formats[attributes["numFmtId"]] = attributes["formatCode"]
        elif tag == "xf" and "cellXfs" in inside:
            match = _PADDED.match(formats.get(attributes.get("numFmtId", ""), ""))
            styles.append(len(match.group()) if match else 0)

    if path is not None:
        with archive.open(path) as content:
            _parse(content, start, lambda tag: inside.pop(), lambda text: None)
    return styles


def _path_of(archive: zipfile.ZipFile, sheet: str) -> str:
    """The file of a sheet in the archive."""
    links: dict[str, str] = {}
    sheets: dict[str, str] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "sheet":
            sheets[attributes["name"]] = next(value for name, value in attributes.items() if name.endswith(":id"))
        if tag == "Relationship":
            links[attributes["Id"]] = attributes["Target"]

    for path in ("xl/workbook.xml", "xl/_rels/workbook.xml.rels"):
        with archive.open(path) as content:
            _parse(content, start, lambda tag: None, lambda text: None)
    target = links[sheets[sheet]]
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _parse(
    content: IO[bytes],
    start: Callable[[str, dict[str, str]], None],
    end: Callable[[str], object],
    text: Callable[[str], None],
) -> None:
    """Feed XML to these, by tags without their namespace. Raises ValueError for a document type."""
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: start(tag.rpartition(":")[2], attributes)
    parser.EndElementHandler = lambda tag: end(tag.rpartition(":")[2])
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = _refuse_document_type
    for part in _parts(content):
        parser.Parse(part, False)
    parser.Parse(b"", True)


def _parts(content: IO[bytes]) -> Iterator[bytes]:
    while part := content.read(_READ_BYTES):
        yield part


def _refuse_document_type(*_: Any) -> None:
    raise ValueError("it must not have a document type")


def _position(letters: str) -> int:
    """A is 0, AA is 26."""
    position = 0
    for letter in letters:
        position = 26 * position + ord(letter) - 64
    return position - 1


def _letters(position: int) -> str:
    letters = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
