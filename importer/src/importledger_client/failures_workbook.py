"""RUN.failures.xlsx: the importer's own rows of the accounts that were refused or have failed, to correct in Excel.

Each table of a mapped book has a sheet with its rows and all its columns. A book of NDJSON has one sheet with a row
for each account and a column for each path. Wrong cells are red. `push` does not read the first sheet, which lists the
problems.
"""

import collections
import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from importledger_client.answers import FieldError
from importledger_client.display import counted
from importledger_client.display import number as shown_number
from importledger_client.error_counts import ErrorCounts, kinds_of
from importledger_client.language import _, is_german, translatable
from importledger_client.mapped import Cells
from importledger_client.mapped_source import MappedSource, nearest
from importledger_client.mapping import Plan, read_mapping
from importledger_client.notes import load_note
from importledger_client.sources import STDIN, Line, Source, Unreadable, account_in, number_of
from importledger_client.tables.reading import Table
from importledger_client.tables.table import Cell, Dated, TableSource
from importledger_client.tables.workbook import sheets_of
from importledger_client.unfinished import UNFINISHED, private_folder

FIRST, ACCOUNTS = ("Fix first", "Zuerst beheben"), "accounts"
"""Titles in English and German: the first sheet, and the sheet of the accounts of an NDJSON book."""
_HEAD = (translatable("problem"), translatable("code"), translatable("field"), "accounts", translatable("example"))
"""Columns of the first sheet."""
MOST_ROWS, MOST_COLUMNS, MOST_LETTERS, MOST_COMMENTS = 1_048_575, 16_384, 32_767, 20_000
"""Limits of Excel: rows and columns of a sheet, characters of a cell, and comments of a workbook.

Wrong cells beyond the last comment are red, but have no comment.
"""
_JSON = " (JSON)"
"""Ending of a column's name if its cells are JSON. Text, short numbers, true and false need no JSON."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UNSAFE = re.compile("[\0-\x08\x0b-\x1f\ufffe\uffff]|_x[0-9A-Fa-f]{4}_")
"""Texts that a workbook cannot hold, or that programs change when they read the workbook."""
_NOT_IN_TITLES = re.compile(r"[\[\]:*?/\\'\x00-\x1f\ufffe\uffff]|_x")
_UNHELD = translatable("Excel cannot hold this text unchanged. Correct it in the book.")
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode
Failed = Mapping[str, Sequence[FieldError]]
"""Errors by external account number. The key "" has the errors of all accounts without a number."""


def workbook_path(run: str, folder: Path) -> Path:
    return folder / f"{run}.failures.xlsx"


def is_workbook(name: str) -> bool:
    """Return True if a file has the name of a workbook of failures."""
    return Path(name).name.endswith(".failures.xlsx")


def write_workbook(run: str, folder: Path, failed: Failed) -> tuple[str, list[str]]:
    """Write the workbook of a run. Return its name, and sentences on what the workbook leaves out.

    The note of the run names the files of the book and of the last push. Rows of accounts in the last push are copied
    from the push, so that earlier corrections stay. Other rows are copied from the book. Raises Unreadable if the
    book is missing.
    """
    note, path = load_note(run, folder), workbook_path(run, folder)
    pushes = [(note.pushed, note.pushed_mapping), (note.files, note.mapping)] if note else []
    pushes = [(files, mapping) for files, mapping in pushes if files and STDIN not in files]
    if note is None or not pushes:
        raise Unreadable("This folder has no note on the files of the run {run}: push them from here.", run=run)
    first, last = pushes[0], pushes[-1]
    chosen = [first, last] if first != last and bool(first[1]) == bool(last[1]) else [first]
    sources = [source for push in chosen for source in sources_at(*push, note.supplier or None)]
    with _written(path) as book:
        book.write_first(failed)
        write = _write_tables if isinstance(sources[0], MappedSource) else _write_accounts
        left_out, found = write(book, sources, failed)
    missing = len(failed.keys() - found)
    sentences = [
        _("Account {account} is not in it: {why}", account=external or _("without a number"), why=why)
        for external, why in left_out.items()
    ]
    if missing:
        accounts = counted(missing, "account is", "accounts are")
        sentences.append(_("{accounts} not in it: not found in the book.", accounts=accounts))
    if book.unexplained:
        cells = counted(book.unexplained, "marked cell has", "marked cells have")
        sentences.append(_("{cells} no comment.", cells=cells))
    return path.name, sentences


def sources_at(files: Sequence[str], mapping: str, supplier: str | None, *, is_strict: bool = False) -> list[Source]:
    """Return a source of accounts for each file, or one source for the files of a mapped book. Raises Unreadable.

    If several files have an account, its rows in the last workbook of failures count.
    """
    workbooks = [file for file in files if is_workbook(file)]
    if workbooks and len(files) > 1:
        sources, replaced = list[Source](), frozenset[str]()
        for group in [*([file] for file in reversed(workbooks)), [file for file in files if not is_workbook(file)]]:
            made = sources_at(group, mapping, supplier, is_strict=is_strict) if group else []
            for source in made:
                source.replaced = replaced
            sources += made
            if is_workbook(next(iter(group), "")):
                [read] = sources_at(group, mapping, supplier)
                replaced |= {number_of(line.content) or "" for line in read.lines()}
        return sources
    if not mapping:
        return [WorkbookSource(file) if is_workbook(file) else Source(file) for file in files]
    plan = read_mapping(Path(mapping))
    plan = mapping_of(plan, files[0]) if is_workbook(files[0]) and len(files) == 1 else plan
    return [MappedSource(files, plan, Path(mapping), supplier, is_strict=is_strict)]


def mapping_of(plan: Plan, name: str) -> Plan:
    """Return the mapping of a book, changed to read each table from its sheet in the workbook of failures.

    Raises Unreadable if the sheet of a table is missing.
    """
    titles, sheets = _titles(plan), [sheet.title for sheet in sheets_of(name)]
    others = [title for title in sheets if title not in titles.values()]
    if missing := {*titles.values()} - {*sheets}:
        raise Unreadable(
            "{file} must have the sheet {sheet}, as `importbook errors --excel` has written it.",
            file=name,
            sheet=min(missing),
        )
    sources = {alias: TableSource(sheets=[title], ignore_sheets=others) for alias, title in titles.items()}
    files = {
        alias: msgspec.structs.replace(file, path=name, source=sources[alias]) for alias, file in plan.files.items()
    }
    return msgspec.structs.replace(plan, files=files, source=sources[""])


class WorkbookSource(Source):
    """Source of accounts that reads a workbook of failures of an NDJSON book: each row is one account."""

    def _all_lines(self) -> Iterator[Line]:
        """Yield the accounts. Raises Unreadable before the first account if any cell is doubtful."""
        titles = [sheet.title for sheet in sheets_of(self.name)]
        if ACCOUNTS not in titles:
            raise Unreadable(
                "{file} must have a sheet {sheet}; a book of tables needs --mapping.", file=self.name, sheet=ACCOUNTS
            )
        chosen = TableSource(sheets=[ACCOUNTS], ignore_sheets=[title for title in titles if title != ACCOUNTS])
        checked = Table([self.name], chosen)
        collections.deque(checked.rows(), maxlen=0)
        for _word, sentence in checked.doubts:
            raise Unreadable(sentence)
        for number, cells in Table([self.name], chosen).whole_rows():
            yield Line(number, _account_of(self.name, number, checked.columns, cells))


@contextlib.contextmanager
def _written(path: Path) -> Iterator["_Workbook"]:
    """Yield a writer of a workbook. The file has a temporary name until it is complete."""
    import xlsxwriter

    with private_folder(UNFINISHED, path.parent) as folder:
        part = folder / path.name
        part.touch(0o600)
        options = {"constant_memory": True, "tmpdir": str(folder), "strings_to_urls": False}
        try:
            with xlsxwriter.Workbook(str(part), options) as book:
                yield _Workbook(book)
        except xlsxwriter.exceptions.FileCreateError as error:
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
        part.replace(path)


class _Workbook:
    """Writer of the sheets of a workbook. `unexplained` counts wrong cells without a comment."""

    def __init__(self, book: Any) -> None:
        self.unexplained = 0
        self._book, self._comments = book, 0
        self._head = book.add_format({"bold": True})
        kinds = {"text": "@", "number": "General", "day": "yyyy-mm-dd", "time": "yyyy-mm-dd hh:mm:ss"}
        self._formats = {
            (kind, is_wrong): book.add_format(
                {"num_format": form} | ({"bg_color": "#FFC7CE", "font_color": "#9C0006"} if is_wrong else {})
            )
            for kind, form in kinds.items()
            for is_wrong in (False, True)
        }

    def write_first(self, failed: Failed) -> None:
        """Write the first sheet: a row for each problem, with its field, its number of accounts and an example."""
        counts = ErrorCounts()
        for external, errors in failed.items():
            counts.add(kinds_of(external, b"", errors))
        rows = [
            [counts.samples[kind].detail, kind[0], kind[1], counts.numbers[kind], counts.samples[kind].number]
            for cause in counts.causes()
            for kind in cause.kinds
        ]
        self.write_sheet(FIRST[is_german()], [*map(_, _HEAD)], enumerate(rows), {})

    def write_sheet(
        self,
        title: str,
        header: Sequence[str],
        rows: Iterable[tuple[Any, Sequence[Cell]]],
        wrong: Mapping[tuple[Any, str], str],
    ) -> None:
        """Write a sheet. `wrong` has the comments of wrong cells, by (key of the row, column)."""
        sheet = self._book.add_worksheet(title)
        if len(header) > MOST_COLUMNS:
            most = shown_number(MOST_COLUMNS)
            raise Unreadable(
                "The sheet {sheet} would have more columns than Excel allows, {most}. Correct the book.",
                sheet=title,
                most=most,
            )
        for place, column in enumerate(header):
            if not _is_safe(column):
                raise Unreadable(
                    "Excel cannot hold the name of the column {column!r} of {sheet} unchanged.",
                    column=column,
                    sheet=title,
                )
            sheet.write_string(0, place, column, self._head)
        sheet.freeze_panes(1, 0)
        for line, (key, cells) in enumerate(rows, 1):
            if line > MOST_ROWS:
                raise Unreadable(
                    "The sheet {sheet} would have more rows than Excel allows, {most}. Correct the book.",
                    sheet=title,
                    most=shown_number(MOST_ROWS),
                )
            for place, (column, cell) in enumerate(zip(header, cells, strict=True)):
                comment = wrong.get((key, column))
                self._write(sheet, line, place, cell, is_wrong=comment is not None)
                if comment is not None:
                    self._comment(sheet, line, place, comment)

    def _write(self, sheet: Any, line: int, place: int, cell: Cell, *, is_wrong: bool) -> None:
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
                sheet.write_string(line, place, str(cell), form("text"))

    def _comment(self, sheet: Any, line: int, place: int, text: str) -> None:
        self._comments += 1
        if self._comments > MOST_COMMENTS:
            self.unexplained += 1
        else:
            sheet.write_comment(line, place, text[:MOST_LETTERS], {"x_scale": 2.5, "author": "importbook"})


class _Account(msgspec.Struct):
    """Numbers of an account's rows by table, and its wrong cells with their errors.

    `unsafe` is the reason why Excel cannot hold the account, or "".
    """

    rows: dict[str, set[int]] = {}
    wrong: list[tuple[Cells, FieldError]] = []
    unsafe: str = ""


def _write_tables(book: _Workbook, sources: Sequence[Any], failed: Failed) -> tuple[dict[str, str], set[str]]:
    """Write a sheet for each table.

    Return the accounts that Excel cannot hold, each with the reason, and the numbers of all accounts that were found.
    If several sources have an account, its rows in the first source are written.
    """
    found, left_out, parts = set[str](), dict[str, str](), list[tuple[MappedSource, dict[str, _Account]]]()
    for source in sources:
        accounts: dict[str, _Account] = {}
        for traced in source.traced(failed.keys() - found):
            account = accounts.setdefault(traced.external, _Account())
            for alias, numbers in traced.rows.items():
                account.rows.setdefault(alias, set()).update(numbers)
            account.wrong += [(traced.cells_of(error.attr), error) for error in failed[traced.external]]
        found |= accounts.keys()
        _leave_out_unsafe(source, accounts)
        left_out |= {external: account.unsafe for external, account in accounts.items() if account.unsafe}
        parts.append((source, {external: account for external, account in accounts.items() if not account.unsafe}))
    tables = [source.whole_tables() for source, __ in parts]
    for alias, title in _titles(sources[0].plan).items():
        wrong: dict[tuple[Any, str], str] = {}
        for part, (__, accounts) in enumerate(parts):
            for cells, error in (pair for account in accounts.values() for pair in account.wrong):
                for column in cells.columns if cells.table == alias else ():
                    _explain(wrong, ((part, cells.row), column), error)
        header = tables[0][alias].columns
        rows = itertools.chain.from_iterable(
            _rows_of(part, source, tables[part][alias], alias, header, accounts)
            for part, (source, accounts) in enumerate(parts)
        )
        book.write_sheet(title, header, rows, wrong)
    return left_out, found


def _rows_of(
    part: int, source: MappedSource, table: Table, alias: str, header: Sequence[str], accounts: Mapping[str, _Account]
) -> Iterator[tuple[tuple[int, int], list[Cell]]]:
    """Yield (key, cells) of each row of the accounts. The key is (`part`, number of the row).

    A cell that Excel cannot hold is None. The mapping does not read such a cell.
    """
    numbers = set[int]().union(*(account.rows.get(alias, ()) for account in accounts.values()))
    for number, row in table.whole_rows():
        if number in numbers:
            cells = dict(zip(table.columns, row, strict=True))
            yield (part, number), [cells.get(column) if _is_safe(cells.get(column)) else None for column in header]


def _leave_out_unsafe(source: MappedSource, accounts: Mapping[str, _Account]) -> None:
    """Set `unsafe` of each account with a cell that the mapping reads but Excel cannot hold."""
    for alias, table in source.whole_tables().items():
        of_row: dict[int, list[_Account]] = {}
        for account in accounts.values():
            for number in account.rows.get(alias, ()):
                of_row.setdefault(number, []).append(account)
        used = [(place, name) for place, name in enumerate(table.columns) if (alias, name) in source.plan.columns]
        for number, row in table.whole_rows():
            for place, column in used if number in of_row else ():
                if not _is_safe(row[place]):
                    for account in of_row[number]:
                        account.unsafe = f"{table.location(number)}, {_('column')} {column}: {_(_UNHELD)}"


def _write_accounts(book: _Workbook, sources: Sequence[Source], failed: Failed) -> tuple[dict[str, str], set[str]]:
    """Write the sheet of an NDJSON book.

    Return the accounts that Excel cannot hold, each with the reason, and the numbers of all accounts that were found.
    """
    left_out = dict[str, str]()

    def accounts() -> Iterator[tuple[int, str, dict[str, Cell]]]:
        number, found = 0, set[str]()
        for source in sources:
            here = set[str]()
            for line in source.lines():
                external, cells = _flat(account_in(line.content))
                if external in failed and external not in found:
                    here.add(external)
                    if unheld := next((column for column, cell in cells.items() if not _is_safe(cell)), None):
                        left_out[external] = f"{unheld}: {_(_UNHELD)}"
                    else:
                        number += 1
                        yield number, external, cells
            found |= here

    header, wrong, written = dict[str, None](), dict[tuple[Any, str], str](), set[str]()
    for number, external, cells in accounts():
        written.add(external)
        header.update(dict.fromkeys(cells))
        for error in failed[external]:
            _explain(wrong, (number, _column_of(error.attr, cells)), error)
    rows = ((number, [cells.get(column) for column in header]) for number, __, cells in accounts())
    book.write_sheet(ACCOUNTS, [*header], rows, wrong)
    return left_out, written | left_out.keys()


def _explain(wrong: dict[tuple[Any, str], str], cell: tuple[Any, str], error: FieldError) -> None:
    sentence = f"{error.detail or error.code} [{error.code}]"
    if isinstance(error.suggestion, msgspec.Struct):
        sentence += f"\n→ {error.suggestion.value}: {error.suggestion.sentence}"
    wrong[cell] = f"{wrong[cell]}\n{sentence}" if cell in wrong else sentence


def _titles(plan: Plan) -> dict[str, str]:
    """Return the title of each table's sheet: the table's name, shortened for Excel, or "book" for the main table."""
    titles: dict[str, str] = {}
    for number, alias in enumerate(["", *plan.files]):
        title = _NOT_IN_TITLES.sub("-", alias or "book").strip()[:31] or "table"
        taken = {known.lower() for known in (*FIRST, *titles.values())}
        titles[alias] = f"{title[:26]} {number}" if title.lower() in taken else title
    return titles


def _flat(content: bytes) -> tuple[str, dict[str, Cell]]:
    """Return the external number of an account, "" if it has none, and its cells by column."""
    try:
        account = _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation):
        return "", {_JSON.strip(): content.decode("utf-8", "replace")}
    inner = account.get("payload", account) if isinstance(account, dict) else None  # as the service reads it
    external = inner.get("external_account_number") if isinstance(inner, dict) else None
    return external if isinstance(external, str) else "", dict(_cells(account, ""))


def _cells(value: Any, path: str) -> Iterator[tuple[str, Cell]]:
    match value:
        case dict() if value and all(_PLAIN_NAME.match(name) and _is_safe(name) for name in value):
            for name, inner in value.items():
                yield from _cells(inner, f"{path}.{name}" if path else name)
        case list() if value:
            for number, inner in enumerate(value):
                yield from _cells(inner, f"{path}.{number}")
        case str() if value and _is_safe(value):
            yield path, value
        case bool():
            yield path, value
        case int() | Decimal() if _is_exact(value):
            yield path, value
        case _:
            text = _encode(value).decode()
            yield (
                f"{path}{_JSON}".strip(),
                _UNSAFE.sub(lambda found: "".join(f"\\u{ord(letter):04x}" for letter in found[0]), text),
            )


def _column_of(path: str, cells: Mapping[str, Cell]) -> str:
    """Return the column of the value at a path.

    If no column has this path, return a column of the nearest parent, or else the column of the account's number.
    """
    by_path = {column.removesuffix(_JSON).removeprefix("payload."): column for column in cells}
    return nearest(path, by_path) or by_path.get("external_account_number") or next(iter(cells))


def _account_of(name: str, number: int, header: Sequence[str], cells: Sequence[Cell]) -> bytes:
    """Return the account of a row as JSON. Raises Unreadable if a cell or the names of two columns do not fit."""
    tree: dict[str | int, Any] = {}
    for column, cell in zip(header, cells, strict=False):
        if cell is None:
            continue
        is_json = column.endswith(_JSON.strip())
        value = _json_of(name, number, column, str(cell)) if is_json else cell
        place, steps = tree, ["", *column.removesuffix(_JSON.strip()).strip().split(".")]
        for step in steps[:-1]:
            place = place.setdefault(int(step) if step.isdecimal() else step, {})
            if not isinstance(place, dict):
                raise Unreadable(f"{_cell_at(name, number, column)}: {_('another column has this value whole.')}")
        place[int(steps[-1]) if steps[-1].isdecimal() else steps[-1]] = value
    account = tree.get("", {})
    return _encode(account[""] if account.keys() == {""} else _whole(account))


def _whole(node: Any) -> Any:
    """Return a tree of dicts as objects and lists: a dict with only integer keys becomes a list, in the keys' order."""
    if not isinstance(node, dict):
        return node
    if node and all(isinstance(step, int) for step in node):
        return [_whole(node[step]) for step in sorted(node)]
    return {str(step): _whole(inner) for step, inner in node.items()}


def _json_of(name: str, number: int, column: str, text: str) -> msgspec.Raw:
    try:
        _decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError, InvalidOperation):
        raise Unreadable(f"{_cell_at(name, number, column)}: {_('the cell must be JSON.')}") from None
    return msgspec.Raw(text.encode())


def _cell_at(name: str, row: int, column: str) -> str:
    return f"{name}, {_('row')} {row}, {_('column')} {column}"


def _is_safe(cell: Cell) -> bool:
    """Return True if a workbook can hold the cell unchanged."""
    if not isinstance(cell, str) or len(cell) < 5:
        return not isinstance(cell, str) or _UNSAFE.search(cell) is None
    return len(cell.encode("utf-16-le")) // 2 <= MOST_LETTERS and _UNSAFE.search(cell) is None


def _is_exact(value: int | Decimal) -> bool:
    """Return True if Excel keeps the number unchanged: it has at most 15 digits and no exponent."""
    text, read = str(value), float(value)
    read_back = str(int(read)) if read.is_integer() else str(Decimal(f"{read:.15g}"))
    return len(text.lstrip("-").replace(".", "")) <= 15 and text == read_back


def _moment(cell: str) -> datetime | None:
    """Return the date in a cell's text, or None if the text is no date or Excel cannot hold the date."""
    try:
        at = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return at if at.year >= 1901 and at.tzinfo is None and not at.microsecond else None
