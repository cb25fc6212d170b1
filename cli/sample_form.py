"""Form of a sample: pages of PDF with a line for each account, boxes to tick, and a place to sign."""

from collections.abc import Sequence

from schemas.sentence import Sentence, german_of

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 595, 842, 50, 790, 60
_FONTS = {"F1": "Helvetica", "F2": "Helvetica-Bold"}
_LINE = 18
"""Height of a line with boxes, in points."""
_COLUMNS = (_LEFT, _LEFT + 28, 280, 338, 405, 460, 505)
"""Left edges of the columns, in points. The last three are boxes."""
_BOXES = 3
_MOST_LETTERS = 42
"""Most characters of a text in a column. Longer texts are cut."""

TITLE = Sentence("Sample of accounts", "Stichprobe von Konten")
TASK = Sentence(
    "Tick for each account: its proof is valid; its values are equal; there is a remark.",
    "Je Konto ankreuzen: Der Nachweis ist gültig; die Werte sind gleich; es gibt eine Bemerkung.",
)
HEADINGS = (
    Sentence("No.", "Nr."),
    Sentence("Account", "Konto"),
    Sentence("Position", "Position"),
    Sentence("Stratum", "Schicht"),
    Sentence("Proof", "Nachweis"),
    Sentence("Values", "Werte"),
    Sentence("Remark", "Bemerkung"),
)
ENDING = {
    "en": ("Remarks", "Name", "Place, date", "Signature"),
    "de": ("Bemerkungen", "Name", "Ort, Datum", "Unterschrift"),
}
"""Fields at the end, where a person signs by hand. German has different words for this and for a digital signature."""


def form_of(lines: Sequence[Sentence], accounts: Sequence[tuple[str, int, str]], language: str) -> bytes:
    """Return the form as A4 pages: lines of text, then (external number, position, stratum) of each account."""
    pages = _Pages(language)
    pages.write(_LEFT, TITLE, size=18, font="F2")
    for line in lines:
        pages.advance(14)
        pages.write(_LEFT, line)
    pages.advance(24)
    pages.write(_LEFT, TASK, font="F2")
    pages.head_table()
    for number, account in enumerate(accounts, 1):
        if pages.advance(_LINE):
            pages.head_table()
            pages.advance(_LINE)
        pages.write_row((str(number), *map(str, account)))
    pages.reserve(len(ENDING[language]) * 36)
    for field in ENDING[language]:
        pages.advance(36)
        pages.write(_LEFT, field)
        pages.draw(f"{_LEFT + 80} {pages.y} m {_WIDTH - _LEFT} {pages.y} l S")
    return pages.as_pdf()


class _Pages:
    """Pages that are written from top to bottom. `y` is the height of the line, in points from the bottom."""

    def __init__(self, language: str) -> None:
        self.y = _TOP
        self._language = language
        self._pages: list[list[str]] = [[]]

    def advance(self, height: int) -> bool:
        """Go down to the next line; return True if it begins another page."""
        self.y -= height
        if self.y < _BOTTOM:
            self._pages.append([])
            self.y = _TOP
            return True
        return False

    def reserve(self, height: int) -> None:
        """Begin another page unless there is this much space."""
        if self.y - height < _BOTTOM:
            self.advance(_TOP)

    def draw(self, operators: str) -> None:
        self._pages[-1].append(operators)

    def write(self, x: int, text: str, *, size: int = 9, font: str = "F1") -> None:
        """Write a line. A character that the fonts lack becomes a question mark."""
        shown = str(german_of(text) if self._language == "de" else text)
        printable = "".join(letter if letter.isprintable() else "?" for letter in shown)
        escaped = printable.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        self.draw(f"BT /{font} {size} Tf {x} {self.y} Td ({escaped}) Tj ET")

    def head_table(self) -> None:
        self.advance(_LINE)
        for x, heading in zip(_COLUMNS, HEADINGS, strict=True):
            self.write(x, heading, font="F2")

    def write_row(self, texts: Sequence[str]) -> None:
        """Write the texts of a row, and its boxes."""
        for x, text in zip(_COLUMNS, texts, strict=False):
            self.write(x, text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…")
        for x in _COLUMNS[-_BOXES:]:
            self.draw(f"{x} {self.y - 2} 10 10 re S")

    def as_pdf(self) -> bytes:
        """Return the PDF file, with the number of each page at its foot."""
        for number, page in enumerate(self._pages, 1):
            page.append(f"BT /F1 8 Tf {_WIDTH - 90} 30 Td ({number} / {len(self._pages)}) Tj ET")
        fonts = " ".join(f"/{name} {3 + index} 0 R" for index, name in enumerate(_FONTS))
        first = 3 + len(_FONTS)
        kids = " ".join(f"{first + 2 * index} 0 R" for index in range(len(self._pages)))
        objects = [
            f"<< /Type /Catalog /Pages 2 0 R /Lang ({self._language}) >>".encode(),
            f"<< /Type /Pages /Kids [{kids}] /Count {len(self._pages)} >>".encode(),
            *(
                f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()
                for name in _FONTS.values()
            ),
        ]
        for index, page in enumerate(self._pages):
            stream = "\n".join(page).encode("cp1252", "replace")
            objects += [
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_WIDTH} {_HEIGHT}] /Contents {first + 2 * index + 1} 0 R"
                f" /Resources << /Font << {fonts} >> >> >>".encode(),
                b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
            ]
        return _file_of(objects)


def _file_of(objects: Sequence[bytes]) -> bytes:
    """Return a PDF file of these objects, of which the first is the catalog."""
    file, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    size, start = len(objects) + 1, len(file)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    file += b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    return file + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, start)
