"""RUN.failures.xlsx: the importer's own rows of the accounts that were refused or have failed, to correct in Excel.

Each table of a mapped book has a sheet with its rows and all its columns. A book of NDJSON has one sheet with a row an
account and a column a path. Wrong cells are marked. The first sheet lists what to fix first, and is not read again.
"""

import collections
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from importledger_client.answers import FieldError
from importledger_client.display import counted, is_german
from importledger_client.error_counts import ErrorCounts, kinds_of
from importledger_client.mapped_source import MappedSource
from importledger_client.mapping import Plan, read_mapping
from importledger_client.notes import load_note
from importledger_client.sources import STDIN, Line, Source, Unreadable, account_in
from importledger_client.tables.table import Cell, Dated, TableSource
from importledger_client.tables.workbook import sheets_of

FIRST, ACCOUNTS = ("Fix first", "Zuerst beheben"), "accounts"
"""Titles of the first sheet in English and German, and of the accounts of a book of NDJSON."""
_HEADS = (
    ("problem", "code", "field", "accounts", "example"),
    ("Problem", "Code", "Feld", "Konten", "Beispiel"),
)
MOST_ROWS, MOST_COLUMNS, MOST_LETTERS, MOST_COMMENTS = 1_048_575, 16_384, 32_767, 20_000
"""Limits of a sheet, of a cell, and of the comments of a workbook: further wrong cells are only marked."""
_JSON = " (JSON)"
"""Ending of a column whose cells are JSON: values that are neither text nor a short number nor true or false."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UNSAFE = re.compile("[\0-\x08\x0b-\x1f\ufffe\uffff]|_x[0-9A-Fa-f]{4}_")
"""Texts that a workbook cannot hold, or that readers change."""
_NOT_IN_TITLES = re.compile(r"[\[\]:*?/\\']")
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode
Failed = Mapping[str, Sequence[FieldError]]
"""Errors of accounts by their numbers, "" for all accounts without one."""


def workbook_path(run: str, folder: Path) -> Path:
    return folder / f"{run}.failures.xlsx"


def is_workbook(name: str) -> bool:
    """Return True for the name of a workbook of failures."""
    return Path(name).name.endswith(".failures.xlsx")


def write_workbook(run: str, folder: Path, failed: Failed) -> tuple[str, list[str]]:
    """Write the workbook of a run from its book. Return its name, and sentences on what it leaves out.

    The note of the run names the book. Raises Unreadable if the book is not there, or has what no workbook can hold.
    """
    note, path = load_note(run, folder), workbook_path(run, folder)
    files = [file for file in note.files if file != STDIN] if note else []
    if note is None or not files:
        raise Unreadable(f"This folder has no note on the files of the run {run}: push them from here.")
    if path.name in {Path(file).name for file in files}:
        raise Unreadable(f"{path.name} is the book of this run: correct it there.")
    with _Workbook(path) as book:
        book.write_first(failed)
        if note.mapping:
            missing = _write_tables(
                book,
                MappedSource(files, read_mapping(Path(note.mapping)), Path(note.mapping), note.supplier or None),
                failed,
            )
        else:
            missing = _write_accounts(book, [Source(file) for file in files], failed)
    sentences = (
        [f"{counted(missing, 'account is', 'accounts are')} not in it: not found in the book."] if missing else []
    )
    if book.unexplained:
        sentences.append(f"{counted(book.unexplained, 'marked cell has', 'marked cells have')} no comment.")
    return path.name, sentences


def mapping_of(plan: Plan, name: str) -> Plan:
    """Return the mapping of a book for its workbook of failures, which has a sheet for each table."""
    titles = _titles(plan)
    others = [sheet.title for sheet in sheets_of(name) if sheet.title not in titles.values()]
    if missing := {*titles.values()} - {sheet.title for sheet in sheets_of(name)}:
        raise Unreadable(f"{name} must have the sheet {min(missing)}, as `importbook errors --excel` has written it.")
    sources = {alias: TableSource(sheets=[title], ignore_sheets=others) for alias, title in titles.items()}
    files = {
        alias: msgspec.structs.replace(file, path=name, source=sources[alias]) for alias, file in plan.files.items()
    }
    return msgspec.structs.replace(plan, files=files, source=sources[""])


class WorkbookSource(Source):
    """The accounts of a workbook of failures of a book of NDJSON, one for each row."""

    def lines(self) -> Iterator[Line]:
        sheet = next((sheet for sheet in sheets_of(self.name) if sheet.title == ACCOUNTS), None)
        if sheet is None:
            raise Unreadable(f"{self.name} must have a sheet {ACCOUNTS}; a book of tables needs --mapping.")
        header = sheet.header()
        for number, cells in sheet.rows():
            yield Line(number, _account_of(self.name, number, header, cells))


class _Workbook:
    """A new workbook, written under a temporary name, and renamed at the end."""

    def __init__(self, path: Path) -> None:
        self.unexplained = 0
        self._path, self._comments = path, 0

    def __enter__(self) -> "_Workbook":
        import xlsxwriter

        self._folder = tempfile.TemporaryDirectory(prefix=".importbook-", dir=self._path.parent)
        self._part = Path(self._folder.name) / self._path.name
        self._part.touch(0o600)
        options = {"constant_memory": True, "tmpdir": self._folder.name, "strings_to_urls": False}
        self._book = xlsxwriter.Workbook(str(self._part), options)
        self._head = self._book.add_format({"bold": True})
        kinds = {"text": "@", "number": "General", "day": "yyyy-mm-dd", "time": "yyyy-mm-dd hh:mm:ss"}
        self._formats = {
            (kind, is_wrong): self._book.add_format(
                {"num_format": form} | ({"bg_color": "#FFC7CE", "font_color": "#9C0006"} if is_wrong else {})
            )
            for kind, form in kinds.items()
            for is_wrong in (False, True)
        }
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        with self._folder:
            self._book.close()
            if error is None:
                self._part.replace(self._path)

    def write_first(self, failed: Failed) -> None:
        """Write the first sheet: each problem with its field, its number of accounts and an example."""
        counts = ErrorCounts()
        for external, errors in failed.items():
            counts.add(kinds_of(external, b"", errors))
        rows = [
            [counts.samples[kind].detail, kind[0], kind[1], counts.numbers[kind], counts.samples[kind].number]
            for cause in counts.causes()
            for kind in cause.kinds
        ]
        self.write_sheet(FIRST[is_german()], _HEADS[is_german()], enumerate(rows), {})

    def write_sheet(
        self,
        title: str,
        header: Sequence[str],
        rows: Iterable[tuple[int, Sequence[Cell]]],
        wrong: Mapping[tuple[int, str], str],
    ) -> None:
        """Write a sheet. `wrong` has a comment for each wrong cell, by the number of its row and its column."""
        sheet = self._book.add_worksheet(title)
        if len(header) > MOST_COLUMNS:
            raise Unreadable(
                f"The sheet {title} would have more columns than Excel allows, {MOST_COLUMNS:,}. Correct the book."
            )
        for place, column in enumerate(header):
            sheet.write_string(0, place, self._checked(column, title, "the header"), self._head)
        sheet.freeze_panes(1, 0)
        for line, (number, cells) in enumerate(rows, 1):
            if line > MOST_ROWS:
                raise Unreadable(
                    f"The sheet {title} would have more rows than Excel allows, {MOST_ROWS:,}. Correct the book."
                )
            for place, (column, cell) in enumerate(zip(header, cells, strict=True)):
                comment = wrong.get((number, column))
                self._write(
                    sheet, line, place, cell, f"{title}, row {number}, column {column}", is_wrong=comment is not None
                )
                if comment is not None:
                    self._comment(sheet, line, place, comment)

    def _write(self, sheet: Any, line: int, place: int, cell: Cell, location: str, *, is_wrong: bool) -> None:
        def form(kind: str) -> Any:
            return self._formats[kind, is_wrong]

        match cell:
            case None:
                if is_wrong:
                    sheet.write_blank(line, place, None, form("text"))
            case bool():
                sheet.write_boolean(line, place, cell, form("number"))
            case Dated() if (at := _moment(cell)) is not None:
                sheet.write_datetime(line, place, at, form("time" if "T" in cell else "day"))
            case int() | Decimal() if _is_exact(cell):
                sheet.write_number(line, place, float(cell), form("number"))
            case _:
                sheet.write_string(line, place, self._checked(str(cell), location), form("text"))

    def _checked(self, text: str, *location: str) -> str:
        """Return a text that the workbook gives back unchanged. Raises Unreadable for another one."""
        if len(text) > MOST_LETTERS or _UNSAFE.search(text):
            raise Unreadable(f"{', '.join(location)}: Excel cannot hold this text unchanged. Correct it in the book.")
        return text

    def _comment(self, sheet: Any, line: int, place: int, text: str) -> None:
        self._comments += 1
        if self._comments > MOST_COMMENTS:
            self.unexplained += 1
        else:
            sheet.write_comment(line, place, text[:MOST_LETTERS], {"x_scale": 2.5, "author": "importbook"})


def _write_tables(book: _Workbook, source: MappedSource, failed: Failed) -> int:
    """Write a sheet for each table, and return the number of accounts that are not in the tables."""
    numbers: dict[str, set[int]] = collections.defaultdict(set)
    wrong: dict[str, dict[tuple[int, str], str]] = collections.defaultdict(dict)
    found = set[str]()
    for traced in source.traced(failed.keys()):
        found.add(traced.external)
        for alias, of_account in traced.rows.items():
            numbers[alias].update(of_account)
        for error in failed[traced.external]:
            cells = traced.cells_of(error.attr)
            for column in cells.columns:
                _explain(wrong[cells.table], (cells.row, column), error)
    titles = _titles(source.plan)
    for alias, table in source.whole_tables().items():
        rows = ((number, row) for number, row in table.rows(is_whole=True) if number in numbers[alias])
        book.write_sheet(titles[alias], table.columns, rows, wrong[alias])
    return len(failed.keys() - found)


def _write_accounts(book: _Workbook, sources: Sequence[Source], failed: Failed) -> int:
    """Write the accounts of NDJSON, and return the number of accounts that are not in the files."""

    def accounts() -> Iterator[tuple[int, str, dict[str, Cell]]]:
        number = 0
        for source in sources:
            for line in source.lines():
                external, cells = _flat(account_in(line.content))
                if external in failed:
                    number += 1
                    yield number, external, cells

    header, wrong, found = dict[str, None](), dict[tuple[int, str], str](), set[str]()
    for number, external, cells in accounts():
        found.add(external)
        header.update(dict.fromkeys(cells))
        for error in failed[external]:
            _explain(wrong, (number, _column_of(error.attr, cells)), error)
    rows = ((number, [cells.get(column) for column in header]) for number, _, cells in accounts())
    book.write_sheet(ACCOUNTS, [*header], rows, wrong)
    return len(failed.keys() - found)


def _explain(wrong: dict[tuple[int, str], str], cell: tuple[int, str], error: FieldError) -> None:
    sentence = f"{error.detail or error.code} [{error.code}]"
    if isinstance(error.suggestion, msgspec.Struct):
        sentence += f"\n→ {error.suggestion.value}: {error.suggestion.sentence}"
    wrong[cell] = f"{wrong[cell]}\n{sentence}" if cell in wrong else sentence


def _titles(plan: Plan) -> dict[str, str]:
    """Return the title of each table's sheet: its name as far as a title may have it, "book" for the main one."""
    titles: dict[str, str] = {}
    for number, alias in enumerate(["", *plan.files]):
        title = _NOT_IN_TITLES.sub("-", alias or "book").strip()[:31] or "table"
        taken = {known.lower() for known in (*FIRST, *titles.values())}
        titles[alias] = f"{title[:26]} {number}" if title.lower() in taken else title
    return titles


def _flat(content: bytes) -> tuple[str, dict[str, Cell]]:
    """Return the number of an account, "" without one, and its cells by the names of their columns."""
    try:
        account = _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation):
        return "", {_JSON.strip(): content.decode("utf-8", "replace")}
    inner = account.get("payload", account) if isinstance(account, dict) else None  # as the service reads it
    external = inner.get("external_account_number") if isinstance(inner, dict) else None
    return external if isinstance(external, str) else "", dict(_cells(account, ""))


def _cells(value: Any, path: str) -> Iterator[tuple[str, Cell]]:
    match value:
        case dict() if value and all(_PLAIN_NAME.match(name) for name in value):
            for name, inner in value.items():
                yield from _cells(inner, f"{path}.{name}" if path else name)
        case list() if value:
            for number, inner in enumerate(value):
                yield from _cells(inner, f"{path}.{number}")
        case str() if value and not _UNSAFE.search(value) and len(value) <= MOST_LETTERS:
            yield path, value
        case bool():
            yield path, value
        case int() | Decimal() if _is_exact(value):
            yield path, value
        case _:
            yield f"{path}{_JSON}".strip(), _encode(value).decode()


def _column_of(path: str, cells: Mapping[str, Cell]) -> str:
    """Return the column of the value at a path, or the nearest one."""
    steps = path.removesuffix("non_field_errors").strip(".").split(".")
    while steps and steps[0]:
        at = ".".join(steps)
        for column in cells:
            if column in (at, f"{at}{_JSON}", f"payload.{at}") or column.startswith((f"{at}.", f"payload.{at}.")):
                return column
        steps.pop()
    return next((column for column in cells if column.endswith("external_account_number")), next(iter(cells)))


def _account_of(name: str, number: int, header: Sequence[str], cells: Sequence[Cell]) -> bytes:
    """Return the account of a row. Raises Unreadable."""
    tree: dict[str | int, Any] = {}
    for column, cell in zip(header, cells, strict=False):
        if cell is None:
            continue
        is_json = column.endswith(_JSON.strip())
        value = _json_of(name, number, column, str(cell)) if is_json else cell
        place, steps = tree, ["", *column.removesuffix(_JSON.strip()).strip().split(".")]
        for step in steps[:-1]:
            place = place.setdefault(int(step) if step.isdigit() else step, {})
            if not isinstance(place, dict):
                raise Unreadable(f"{name}, row {number}, column {column}: another column has this value whole.")
        place[int(steps[-1]) if steps[-1].isdigit() else steps[-1]] = value
    account = tree.get("", {})
    return _encode(account[""] if account.keys() == {""} else _whole(account))


def _whole(node: Any) -> Any:
    """Return a tree as objects and lists. The places of a list may have gaps."""
    if not isinstance(node, dict):
        return node
    if node and all(isinstance(step, int) for step in node):
        return [_whole(node[step]) for step in sorted(node)]
    return {str(step): _whole(inner) for step, inner in node.items()}


def _json_of(name: str, number: int, column: str, text: str) -> msgspec.Raw:
    try:
        _decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError, InvalidOperation):
        raise Unreadable(f"{name}, row {number}, column {column}: the cell must be JSON.") from None
    return msgspec.Raw(text.encode())


def _is_exact(value: int | Decimal) -> bool:
    """Return True for a number that a cell of Excel gives back in the same form: at most 15 digits, no exponent."""
    text = str(value)
    return len(text.lstrip("-").replace(".", "")) <= 15 and text == _read_back(float(value))


def _read_back(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(Decimal(f"{value:.15g}"))


def _moment(cell: str) -> datetime | None:
    """Return a date of a workbook that Excel can hold, or None."""
    try:
        at = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return at if at.year >= 1901 and at.tzinfo is None and not at.microsecond else None
