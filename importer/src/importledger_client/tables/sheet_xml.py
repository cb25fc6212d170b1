"""Count a sheet by its XML: a second method, which shares no code with calamine's reading of values."""

import contextlib
import functools
import re
import zipfile
import zlib
from collections.abc import Iterator
from html import unescape
from typing import IO, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from importledger_client.language import _
from importledger_client.sources import Unreadable
from importledger_client.tables.table import Count

_NO_DIGITS = re.compile(r'"[^"]*"|\\.|[_*].|\[[^]]*]')
"""Parts of a number format that show no digit of the number."""
_OTHER_FORM = re.compile(r"%|0E[+-]|[?#] ?/ ?[?0-9]")
"""Parts of number formats that Excel itself gives to a cell with a text such as 19%, 12E5 or 1 1/2."""
_PART = re.compile(
    r"""(?s)"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[[^]]*]|(?P<digits>[0#?@]+)|(?P<end>;.*)|(?P<sign>.)"""
)
"""A part of a number format: signs that Excel shows, digits, or the further formats for other numbers."""
_SIGN = re.compile(r"\S")
_NUMBER_ALONE = re.compile(r"\s*(0[0.,]*)?(\s.*)?|general|.*[dmyhs%e].*", re.IGNORECASE | re.DOTALL)
"""Forms that show a number alone, or with a unit after a blank. Dates and percentages are found elsewhere."""
_BUILT_IN = {"9": "0%", "10": "0.00%", "11": "0.00E+00", "12": "# ?/?", "13": "# ??/??", "48": "##0.0E+0"}
MOST_CELLS = 2**26
"""Largest area of a sheet [cells], since calamine keeps 32 bytes in memory for each cell, filled or not."""
_ANY_PLACE = re.compile(rb"""r=["']([A-Za-z]{1,99})([0-9]{1,99})""")
"""Letters and number of a cell, with content or without."""
_FILLED_PLACE = re.compile(rb"""<(?:\w+:)?c\s(?:[^>]*\s)?r=["']([A-Za-z]{1,99})([0-9]{1,99})["'][^>]*(?<!/)>""")
"""Letters and number of a cell with content."""
_LONGEST_START, _READ_BYTES = 2**8, 2**20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, LookupError, ValueError, ElementTree.ParseError)
_CELL = (
    rb"""<~c(?: r="([A-Z]+)[0-9]+")?((?:\s[^/<>]*)?)(?:/>|>(?:<~v>([^<]*)</~v></~c>|<~is><~t>([^<]*)</~t></~is></~c>|"""
    rb"""([^<]*+(?:<(?!/?~c[\s/>])[^<]*+)*+)</~c>))"""
)
"""A cell: letters of its place, further attributes, value, text, and other content. ~ is the elements' prefix."""
_ROOT = re.compile(rb"<(\w+:)?worksheet[\s>]")
_ROW_NUMBER = re.compile(rb"""[^>]*?\sr=["']([0-9]+)["']""")
_ATTRIBUTE = re.compile(rb"""\s(\w+)\s*=\s*["']([^"']*)["']""")
_PRONUNCIATION = re.compile(rb"<(\w+:)?rPh\b.*?</(\w+:)?rPh>", re.DOTALL)
_TEXT = re.compile(rb"<(?:\w+:)?t(?:\s[^>]*)?>[^<]")
_MERGED = re.compile(rb"""<(?:\w+:)?mergeCell\s[^>]*?ref=["']([A-Z]+)([0-9]+):([A-Z]+)([0-9]+)["']""")
_VALUE, _FORMULA = re.compile(rb"<(?:\w+:)?v(?:\s[^>]*)?>([^<]*)<"), re.compile(rb"<(?:\w+:)?f[\s/>]")


def check_area(name: str, sheet: str) -> None:
    """Raise Unreadable if the area from the first to the outermost cells of a sheet is larger than MOST_CELLS."""
    rows, last = _area(name, sheet, _ANY_PLACE)
    if rows * (last + 1) > MOST_CELLS:  # rare: cells without content, which do not count, may be far away
        rows, last = _area(name, sheet, _FILLED_PLACE)
    if rows * (last + 1) > MOST_CELLS:
        raise Unreadable(
            "{file}, sheet {sheet} reaches to row {row} and column {column}, which is too large:"
            " delete the cells that are far from the table, or save it as CSV.",
            file=name,
            sheet=sheet,
            row=rows,
            column=_letters(last),
        )


def _area(name: str, sheet: str, place: re.Pattern[bytes]) -> tuple[int, int]:
    """Return the largest number of a row, and the position of the last column."""
    rows, letters, remaining = 0, set[bytes](), b""
    with _opened(name, sheet) as archive, archive.open(_path_of(archive, sheet)) as content:
        while part := content.read(_READ_BYTES):
            remaining += part
            if found := place.findall(remaining):
                columns, numbers = zip(*found, strict=True)
                letters.update(columns)
                rows = max(rows, *map(int, numbers))
            remaining = remaining[-_LONGEST_START:]
    return rows, max([0, *map(_position, letters)])


def scan(name: str, sheet: str) -> Count:
    """Count a sheet of a workbook, and find doubtful cells: formulas without a value, errors, merged cells, and
    numbers that Excel shows in another form.

    Raises Unreadable.
    """
    with _opened(name, sheet) as archive:
        cells = _Cells(_filled_texts(archive), _shown_forms(archive))
        with archive.open(_path_of(archive, sheet)) as content:
            prefix, rows, rest = _rows_of(content)
            cell = re.compile(_CELL.replace(b"~", prefix))
            for row in rows:
                cells.add(row, cell.findall(row))
            cells.add_merged(bytes(rest))
    return cells.found


def _rows_of(content: IO[bytes]) -> tuple[bytes, Iterator[bytes], bytearray]:
    """Return the prefix of a sheet's elements, each row from its attributes to the next row, and the XML after them.

    Regular expressions find the cells: a parser that calls Python for each element takes three times as long.
    """
    start = content.read(_READ_BYTES)
    found = _ROOT.search(start)
    if found is None:
        raise ValueError("no worksheet in UTF-8")
    prefix, remaining = found[1] or b"", bytearray()

    def rows() -> Iterator[bytes]:
        part = start
        while part:
            remaining.extend(part)
            end = remaining.rfind(b"</%brow>" % prefix) + 1
            complete = bytes(remaining[:end])
            del remaining[:end]
            if b"<!" in complete:
                complete = _plain(complete)
            yield from complete.split(b"<%brow" % prefix)[1:]
            part = content.read(_READ_BYTES)

    return prefix, rows(), remaining


def _plain(xml: bytes) -> bytes:
    """Return XML without comments, and with the text of CDATA sections as other text. Linear, also for damaged XML."""
    first, *rest = xml.split(b"<!--")
    first, *rest = (first + b"".join(part.partition(b"-->")[2] for part in rest)).split(b"<![CDATA[")
    sections = (part.partition(b"]]>") for part in rest)
    return first + b"".join(text.replace(b"<", b"&lt;") + after for text, __, after in sections)


class _Cells:
    """Counts of the rows and cells of a sheet."""

    def __init__(self, texts: list[bool], forms: list["_Shown"]) -> None:
        self.found = Count()
        self._texts, self._forms = texts, forms
        self._number, self._header = 0, 0

    def add(self, row: bytes, cells: list[tuple[bytes, bytes, bytes, bytes, bytes]]) -> None:
        """Count a row with its matches of _CELL."""
        number = _ROW_NUMBER.match(row)
        self._number = int(number[1]) if number else self._number + 1
        filled, position = list[bool | None](), -1
        for letters, attributes, value, text, content in cells:
            place, kind, style = _attributes(attributes)
            column = letters or place
            position = _position(column) if column else position + 1
            if text or (value and kind == b"n" and not style) or self._is_filled(position, kind, style, value, content):
                filled += [None] * (position + 1 - len(filled))
                filled[position] = True
        if filled and self._header:
            self.found.add(filled)
        self._header = self._header or (self._number if filled else 0)

    def add_merged(self, rest: bytes) -> None:
        """Find merged cells below the header: Excel shows the value of the first one in all, the others are empty."""
        for first, top, last, bottom in _MERGED.findall(rest):
            if int(top) <= self._number and int(bottom) > self._header:
                merged = f"{first.decode()}{int(top)}:{last.decode()}{int(bottom)}"
                problem = _("is merged ({cells}): undo the merge, and fill in each cell.", cells=merged)
                for position in range(_position(first), _position(last) + 1):
                    self._doubt(position, "", problem, int(top))

    def _is_filled(self, position: int, kind: bytes, style: int, value: bytes, content: bytes) -> bool:
        """Return whether a cell is filled. Errors and formulas without a value are doubtful and not filled."""
        if kind == b"inlineStr":
            return bool(_TEXT.search(_PRONUNCIATION.sub(b"", content)))
        if content and (found := _VALUE.search(content)):
            value = found[1]
        if not value and kind != b"str" and _FORMULA.search(content):
            problem = _(
                "has a formula without a stored value: open the file in Excel and save it, or ignore the column."
            )
            self._doubt(position, "", problem)
        elif kind == b"e":
            error = unescape(value.decode())
            self._doubt(position, error, _("has the error {error}: fix it, or list it in `empty`.", error=error))
        elif not value or (kind == b"s" and not self._texts[int(value)]):
            return False
        else:
            if kind == b"n" and style < len(self._forms):
                self._check_form(position, self._forms[style], value)
            return True
        return False

    def _check_form(self, position: int, shown: "_Shown", value: bytes) -> None:
        """Find numbers that Excel shows otherwise than it stores them."""
        if shown.digits > len(f"{abs(float(value)):.0f}"):
            problem = _(
                "has a number that Excel shows with leading zeros ({digits} digits): the column must be text.",
                digits=shown.digits,
            )
            self._doubt(position, "", problem)
        elif shown.is_other:
            problem = _(
                "has the number {number}, which Excel shows as a percentage, a fraction or a power of ten: format the"
                " column as text or as number, and type its values again.",
                number=value.decode(),
            )
            self._doubt(position, "", problem)
        elif shown.signs:
            problem = _(
                "has the number {number}, which Excel shows in the form {form}", number=value.decode(), form=shown.signs
            )
            self.found.signs.add(position, "", self._place(position), problem)

    def _doubt(self, position: int, word: str, problem: str, row: int = 0) -> None:
        self.found.doubts.add(position, word, self._place(position, row), problem)

    def _place(self, position: int, row: int = 0) -> str:
        return f"{_('cell')} {_letters(position)}{row or self._number}"


@contextlib.contextmanager
def _opened(name: str, sheet: str) -> Iterator[zipfile.ZipFile]:
    """Yield the archive of a workbook. Raises Unreadable for any damage."""
    try:
        with zipfile.ZipFile(name) as archive:
            yield archive
    except _DAMAGE as error:
        place = f"{name}, {_('sheet')} {sheet}"
        raise Unreadable("{file} cannot be read as XLSX: {error}.", file=place, error=error) from None


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


class _Shown(NamedTuple):
    """Form of a style's numbers: the least number of digits before the decimal point, 0 with decimals, and whether it
    is a percentage, a fraction or a power of ten. `signs` is a format with other signs beside the digits, else "".
    """

    digits: int
    is_other: bool
    signs: str


def _shown_forms(archive: zipfile.ZipFile) -> list[_Shown]:
    """Return how each cell style shows numbers, such as with 5 digits for the format 00000 of postcodes."""
    path = _member(archive, "xl/styles.xml")
    if path is None:
        return []
    formats = {form.get("numFmtId"): form.get("formatCode", "") for form in _elements(archive, path, "numFmt")}
    (styles,) = [[xf.get("numFmtId") for xf in styles] for styles in _elements(archive, path, "cellXfs")] or [[]]
    return [_shown(formats.get(style) or _BUILT_IN.get(style or "", "")) for style in styles]


def _shown(code: str) -> _Shown:
    plain = _NO_DIGITS.sub("", code)
    digits = max(0 if {".", "E"} & {*section} else section.count("0") for section in plain.split(";"))
    return _Shown(digits if digits > 1 else 0, _OTHER_FORM.search(plain) is not None, code if _has_signs(code) else "")


def _has_signs(code: str) -> bool:
    """Return True for a format such as "KD-"0, which shows 17 as KD-17."""
    shown = ""
    for part in _PART.finditer(code):
        if part["end"]:
            break
        text = _SIGN.sub("q", part["quoted"] or part["escaped"] or "")  # q, since d and m would be parts of a date
        shown += text + ("0" if part["digits"] else part["sign"] or "")
    return _NUMBER_ALONE.fullmatch(shown) is None


def _path_of(archive: zipfile.ZipFile, sheet: str) -> str:
    """Return the path of a sheet in the archive."""
    sheets = {found.get("name"): found.items() for found in _elements(archive, "xl/workbook.xml", "sheet")}
    (link,) = (value for name, value in sheets[sheet] if name.endswith("}id"))
    relations = _elements(archive, "xl/_rels/workbook.xml.rels", "Relationship")
    target = {relation.get("Id"): relation.attrib["Target"] for relation in relations}[link]
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _member(archive: zipfile.ZipFile, name: str) -> str | None:
    return next((path for path in archive.namelist() if path.lower().endswith(name)), None)


def _name(tag: str) -> str:
    """Return the tag without its namespace."""
    return tag.rpartition("}")[2]


@functools.lru_cache(2**12)
def _attributes(attributes: bytes) -> tuple[bytes, bytes, int]:
    """Return the letters of a cell's place, or b"" if they are not in these attributes, its type and its style."""
    found = dict(_ATTRIBUTE.findall(attributes))
    return found.get(b"r", b"").rstrip(b"0123456789"), found.get(b"t", b"n"), int(found.get(b"s", 0))


@functools.lru_cache(2**14)
def _position(letters: bytes) -> int:
    """Return 0 for A, 26 for AA."""
    position = 0
    for letter in letters.upper():
        position = 26 * position + letter - 64
    return position - 1


def _letters(position: int) -> str:
    letters = ""
    position += 1
    while position:
        position, remaining = divmod(position - 1, 26)
        letters = chr(65 + remaining) + letters
    return letters
