"""Read CSV files. A file must have one encoding, one delimiter and one line end.

All bytes of the file choose the encoding: a byte order mark, else UTF-8, else Windows-1252 unless a byte rules it out.
A file that mixes encodings is refused, and so is a file whose letters nothing decides.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator

from importledger_client.display import counted
from importledger_client.language import _, translatable
from importledger_client.sources import Unreadable, opened
from importledger_client.tables.recount import open_quote, recounted
from importledger_client.tables.table import Cell, Count, Doubts, TableSource

DELIMITERS = (";", ",", "\t", "|")
MOST_CELL = 2**24
_SAMPLE_BYTES = 2**16
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_1252 = re.compile(
    rb"(?:(?<=[a-z])[\x80-\x84\x86-\x91\x93-\x95\x98\x99\x9b\x9d\x9f\xa1-\xac\xae-\xb3\xb5\xb6\xb8-\xde\xf7]"
    rb"|(?<=[A-Z])[\x80-\x87\x89-\x8b\x8e\x94\x99\x9f]|(?<=tra)\xe1)(?=[a-z])|\xa4"
)
"""Pattern of letters and signs that show another encoding: of Windows-1252, a sign or capital letter between two
letters, "Straáe" and the currency sign ¤ of ISO 8859-15, which has the euro there.
"""
_GERMAN = "ÄÖÜäöüß"
_IN_1252 = re.compile(b"[%b]" % _GERMAN.encode("cp1252"))
_MAYBE_OTHER = re.compile(
    rb"(?<=[A-Za-z])[%b]|[%b](?=[A-Za-z])" % ((_GERMAN.encode("cp850") + _GERMAN.encode("mac_roman"),) * 2)
)
"""Pattern of German letters in DOS and Mac files, beside another letter. Windows-1252 has rare letters and signs there,
such as á for ß.
"""
_WORD = re.compile(rb"[A-Za-z\x80-\xff]+")
_SEPARATOR = re.compile(r'"?sep=(.)"?\r?[\n\r]?\Z', re.IGNORECASE)
_CHOOSE = translatable("Set its encoding with `source: {encoding: …}` in the mapping, or correct the file.")
_DOUBLE = translatable('A quote inside a cell must be doubled (""), with the cell in quotes.')
_MISREAD = {
    "new-line": translatable("has a carriage return (CR) in a cell: it must be in quotes."),
    "field larger": translatable("has a cell of more than {characters}."),
    "": translatable("has no delimiter after a closing quote."),
}
"""Sentences for errors of `csv`, by a part of their text."""


class Delimited:
    """A CSV file."""

    def __init__(self, name: str, source: TableSource) -> None:
        self.name = self.label = name
        _check_kind(name)
        csv.field_size_limit(MOST_CELL)
        self.encoding = _named_encoding(name, source.encoding) or encoding_of(name)
        if self.encoding == "utf-8":
            self.encoding = "utf-8-sig"
        self._line_end = _line_end(name)
        self.doubts = Doubts()
        first = next(self._text(), "")
        match = _SEPARATOR.match(first)
        self._is_separator_first = match is not None
        self.delimiter = source.delimiter or (match.group(1) if match else self._delimiter())
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise Unreadable(
                "{file}: the delimiter must be one character, not {delimiter!r}.", file=name, delimiter=source.delimiter
            )
        shown = {"\t": _("tab")}.get(self.delimiter, self.delimiter)
        self.written = f"CSV · {self.encoding.removesuffix('-sig')} · {_('delimiter')} {shown}"

    def header(self) -> list[str]:
        __, cells = next(self._records(), (1, []))
        if not any(cell.strip() for cell in cells):
            raise Unreadable("{file} must have the names of its columns in the first row.", file=self.name)
        return [cell.strip() for cell in cells]

    def rows(self) -> Iterator[tuple[int, list[Cell]]]:
        records = self._records()
        __, names = next(records, (1, []))
        for number, cells in records:
            if not any(cells):
                continue
            if len(cells) != len(names):
                raise Unreadable(
                    "{file}, row {row} must have {cells} like the header; it has {number}.",
                    file=self.name,
                    row=number,
                    cells=counted(len(names), "cell"),
                    number=len(cells),
                )
            for position, cell in enumerate(cells if self._line_end in "".join(cells) else ()):
                if self._line_end in cell and self._looks_like_rows(cell, len(names)):
                    swallowed = _(
                        "has whole rows inside a cell of column {column}: is a quote missing? Correct it, or ignore the"
                        " column.",
                        column=names[position],
                    )
                    self.doubts.add(position, "", f"{_('row')} {number}", swallowed)
            yield number, [cell or None for cell in cells]

    def _looks_like_rows(self, cell: str, width: int) -> bool:
        """Return True for a cell with as many delimiters as whole rows, whose closing quote is probably missing."""
        return width > 2 and cell.count(self.delimiter) == cell.count(self._line_end) * (width - 1)

    def recount(self) -> Count:
        return recounted(self.name, self.encoding, self.delimiter, self._line_end, has_preface=self._is_separator_first)

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the records from the header on, with their numbers. A line `sep=;` before them has number 1."""
        lines = self._text()
        number = 1
        if self._is_separator_first:
            next(lines)
            number = 2
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise self._misread(number, str(error)) from None
            if cells is None:
                return
            self._check(number, cells)
            yield number, cells
            number += 1

    def _check(self, number: int, cells: list[str]) -> None:
        for cell in cells if '"' in "".join(cells) else ():
            if '"' in cell and '\\"' in cell:
                raise self._error(number, _("has a backslash before a quote."), _(_DOUBLE))
            if cell.startswith(" ") and cell.lstrip().startswith('"'):
                place = f"{self.name}, {_('row')} {number}"
                raise Unreadable("{place}: a quote must come right after the delimiter.", place=place)

    def _misread(self, number: int, error: str) -> Unreadable:
        if "unexpected end" in error:
            line = open_quote(self.name, self.encoding, self.delimiter, self._line_end)
            return Unreadable("{file}: the quote opened in line {line} is not closed.", file=self.name, line=line)
        part, sentence = next(item for item in _MISREAD.items() if item[0] in error)
        return self._error(
            number, _(sentence, characters=counted(MOST_CELL, "character")), *([] if part else [_(_DOUBLE)])
        )

    def _error(self, number: int, *sentences: str) -> Unreadable:
        return Unreadable(f"{self.name}, {_('row')} {number} {' '.join(sentences)}")

    def _text(self) -> Iterator[str]:
        """Yield the lines with their ends. Raises Unreadable for a byte that is not of the encoding."""
        number = 0
        with opened(self.name) as stream:
            text = io.TextIOWrapper(stream, encoding=self.encoding, errors="strict", newline=self._line_end)
            try:
                for number, line in enumerate(text, 1):
                    plain = line.removeprefix("\ufeff") if number == 1 else line
                    if "\0" in plain:
                        sentence = _("{file}, line {line} has a NUL byte: is it UTF-16?", file=self.name, line=number)
                        raise Unreadable(f"{sentence} {_(_CHOOSE)}")
                    if "\ufeff" in plain:
                        raise Unreadable(
                            "{file}, line {line} has a byte order mark: it must stand at the beginning of a"
                            " file only. Files were probably joined: import each on its own.",
                            file=self.name,
                            line=number,
                        )
                    yield plain
            except UnicodeError:
                raise _bad_byte(self.name, self.encoding) from None

    def _delimiter(self) -> str:
        """Return the delimiter that fits the first lines best."""
        lines: list[str] = []
        for line in self._text():
            if line.strip():
                lines.append(line)
            if len(lines) == 20 or sum(map(len, lines)) > _SAMPLE_BYTES:
                break
        return max(DELIMITERS, key=lambda delimiter: _fit(lines, delimiter))


def _check_kind(name: str) -> None:
    with opened(name) as stream:
        start = stream.read(64)
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise Unreadable(
            "{file} is a workbook or a ZIP archive, not CSV: a workbook must be saved as .xlsx.", file=name
        )
    if start.startswith(b"PAR1"):
        raise Unreadable("{file} is a Parquet file, not CSV: its name must end with .parquet.", file=name)
    if start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<"):
        raise Unreadable("{file} is an HTML or XML page, not CSV: open it in Excel and save it as .xlsx.", file=name)


def encoding_of(name: str) -> str:
    """Return the encoding that fits all bytes of a file. Raises Unreadable, with line and byte."""
    with opened(name) as stream:
        not_utf8: Unreadable | None = None
        not_cp1252: Unreadable | None = None
        maybe_other: Unreadable | None = None
        is_utf8 = is_cp1252 = False
        for number, line in enumerate(stream, 1):
            if number == 1 and (marked := next((encoding for bom, encoding in _BOMS if line.startswith(bom)), None)):
                return marked
            if line.isascii():
                continue
            try:
                line.decode()
                is_utf8 = True
            except UnicodeDecodeError as error:
                not_utf8 = not_utf8 or _at(name, line, number, error.start, "UTF-8")
                is_utf8 = is_utf8 or not line.decode(errors="ignore").isascii()
                not_cp1252 = not_cp1252 or _not_1252(name, line, number)
                is_cp1252 = is_cp1252 or _IN_1252.search(line) is not None
                maybe_other = maybe_other or _maybe_other(name, line, number)
    if not_utf8 is None:
        return "utf-8"
    if is_utf8:
        raise not_utf8
    if not_cp1252 is not None:
        raise not_cp1252
    if maybe_other is not None and not is_cp1252:
        raise maybe_other
    return "cp1252"


def _not_1252(name: str, line: bytes, number: int) -> Unreadable | None:
    try:
        line.decode("cp1252")
    except UnicodeDecodeError as error:
        return _at(name, line, number, error.start, _("UTF-8 or Windows-1252"))
    match = _NOT_1252.search(line)
    return _at(name, line, number, match.start(), _("UTF-8 or Windows-1252")) if match else None


def _maybe_other(name: str, line: bytes, number: int) -> Unreadable | None:
    """Return the error for a word that may also be DOS or Mac text, if nothing else in the file decides."""
    match = _MAYBE_OTHER.search(line)
    if match is None:
        return None
    word = next(found[0] for found in _WORD.finditer(line) if found.end() > match.start())
    sentence = _(
        "{file}, line {line} has {windows!r} in Windows-1252, {dos!r} in cp850 and {mac!r} in mac_roman, and no other"
        " letter of the file decides.",
        file=name,
        line=number,
        windows=word.decode("cp1252", "replace"),
        dos=word.decode("cp850"),
        mac=word.decode("mac_roman"),
    )
    return Unreadable(f"{sentence} {_(_CHOOSE)}")


def _at(name: str, line: bytes, number: int, position: int, encoding: str) -> Unreadable:
    sentence = _(
        "{file}, line {line}, byte {byte} is 0x{value:02X}, which is not {encoding}. A file must have one encoding.",
        file=name,
        line=number,
        byte=position + 1,
        value=line[position],
        encoding=encoding,
    )
    return Unreadable(f"{sentence} {_(_CHOOSE)}")


def _bad_byte(name: str, encoding: str) -> Unreadable:
    """Return the error for the first byte that is not of the encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    number = 0
    with opened(name) as stream:
        for number, line in enumerate(stream, 1):
            try:
                decoder.decode(line)
            except UnicodeDecodeError as error:
                before = len(error.object) - len(line)
                return _at(name, error.object[before:], number, max(0, error.start - before), encoding)
            except UnicodeError:
                break
    sentence = _("{file}, line {line} is cut off, or not {encoding}.", file=name, line=number, encoding=encoding)
    return Unreadable(f"{sentence} {_(_CHOOSE)}")


def _named_encoding(name: str, encoding: str) -> str:
    try:
        found = codecs.lookup(encoding).name if encoding else ""
        if found:
            "".encode(found)  # codecs that are not text encodings, such as base64, fail here
    except LookupError:
        raise Unreadable(
            "{file}: {encoding!r} must be the name of an encoding, such as utf-8 or cp1252.",
            file=name,
            encoding=encoding,
        ) from None
    return found


def _line_end(name: str) -> str:
    """Return a line feed, or a carriage return for a file without any line feed."""
    has_return = False
    with opened(name) as stream:
        while part := stream.read(2**20):
            if b"\n" in part:
                return "\n"
            has_return = has_return or b"\r" in part
    return "\r" if has_return else "\n"


def _fit(lines: list[str], delimiter: str) -> tuple[int, int]:
    """Return the fit of a delimiter: number of lines with as many cells as the first line, and that number of cells."""
    try:
        rows = list(csv.reader((line.rstrip("\r\n").replace("\r", "") for line in lines), delimiter=delimiter))
    except csv.Error:
        return 0, 0
    width = len(rows[0]) if rows else 0
    return (sum(len(row) == width for row in rows) if width > 1 else 0, width)
