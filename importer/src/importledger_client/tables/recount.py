"""Count a CSV file by its bytes: a second method, without `csv` and without decoding text.

A cell is the text between two delimiters. A cell that begins with a quote ends at its closing quote.
"""

import codecs
import re
from collections.abc import Iterator

from importledger_client.sources import opened
from importledger_client.tables.table import Count

_AS_BYTES = frozenset({"utf-8-sig", "utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252", "cp1250", "cp850", "cp437"})
"""Encodings in which a byte below 0x80 is always an ASCII character.

Files in other encodings are converted to UTF-8 first.
"""
_TO_QUOTE = re.compile(rb'[^"]*+(?:""[^"]*+)*+')
_READ_BYTES = 2**20


class _OpenQuote(Exception):
    """A quote that is not closed, with its line."""

    def __init__(self, line: int) -> None:
        self.line = line


def recounted(name: str, encoding: str, delimiter: str, line_end: str, *, has_preface: bool) -> Count:
    """Count rows and filled cells below the header. A line `sep=` may precede it."""
    count = Count()
    for number, sizes in enumerate(_records(name, encoding, delimiter, line_end)):
        if number > has_preface and any(sizes):
            count.add([size or None for size in sizes])
    return count


def open_quote(name: str, encoding: str, delimiter: str, line_end: str) -> int:
    """Return the line of the quote that is not closed, or 0."""
    try:
        for _ in _records(name, encoding, delimiter, line_end):
            pass
    except _OpenQuote as error:
        return error.line
    return 0


def _records(name: str, encoding: str, delimiter: str, line_end: str) -> Iterator[list[int]]:
    """Yield the number of bytes of each cell, record by record."""
    mark = delimiter.encode("utf-8" if encoding not in _AS_BYTES else encoding.removesuffix("-sig"))
    sizes: list[int] = []
    opened_in = 0
    size = 0
    for number, line in enumerate(_lines(name, encoding, line_end.encode()), 1):
        start = 0
        if not opened_in and b'"' not in line:
            yield [len(cell) for cell in line.split(mark)]
            continue
        while True:
            if not opened_in and line.startswith(b'"', start):
                opened_in, size, start = number, 0, start + 1
            if opened_in:
                match = _TO_QUOTE.match(line, start)
                end = match.end() if match else start
                size += end - start
                if end == len(line):
                    size += 1  # the line end is part of the cell
                    break
                opened_in, start = 0, end + 1
            else:
                size = 0
            cut = line.find(mark, start)
            size += (len(line) if cut < 0 else cut) - start
            sizes.append(size)
            if cut < 0:
                yield sizes
                sizes = []
                break
            start = cut + len(mark)
    if opened_in:
        raise _OpenQuote(opened_in)


def _lines(name: str, encoding: str, line_end: bytes) -> Iterator[bytes]:
    """Yield the lines without their ends, as bytes of the file or of UTF-8."""
    remaining = b""
    for part in _bytes(name, encoding):
        *whole, remaining = (remaining + part).split(line_end)
        for line in whole:
            yield line.removesuffix(b"\r")
    if remaining:
        yield remaining.removesuffix(b"\r")


def _bytes(name: str, encoding: str) -> Iterator[bytes]:
    decoder = None if encoding in _AS_BYTES else codecs.getincrementaldecoder(encoding)()
    is_first = True
    with opened(name) as stream:
        while part := stream.read(_READ_BYTES):
            content = part if decoder is None else decoder.decode(part).encode()
            yield content.removeprefix(codecs.BOM_UTF8) if is_first else content
            is_first = False
