"""Properties of reading tables: a table written by another library reads back equal, or is refused with a reason."""

import contextlib
import csv
import io
import itertools
import tempfile
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import xlsxwriter
from babel.numbers import format_decimal, parse_decimal
from hypothesis import event, given
from hypothesis import strategies as st
from openpyxl import Workbook
from pyarrow import parquet

from importledger_client.sources import Differs, Unreadable
from importledger_client.tables import reading
from importledger_client.tables.delimited import Delimited
from importledger_client.tables.reading import Recounter, Table
from importledger_client.tables.table import TableSource
from importledger_client.tables.workbook import Sheet
from importledger_client.values import converted

HEADER = ["Nr", "Straße", "Saldo"]
ODD = "\";,\t|\r\n\\= '\ufeff\u2028\u00a0äßéN"
characters = st.one_of(st.sampled_from(ODD), st.characters(codec="utf-8", exclude_characters="\0"))
texts = st.text(characters, max_size=8).filter(lambda text: not text.endswith("\r"))
"""Without a carriage return at the end: before a line feed it ends the line."""
german = st.text("aeinrstäöüß .-'&0123456789;,\"\n", max_size=8)


def rows_of(cells: st.SearchStrategy[Any], width: int = len(HEADER)) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(cells, min_size=width, max_size=width), max_size=6)


@contextlib.contextmanager
def file_named(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / name


def read(path: Path, source: TableSource | None = None) -> list[list[Any]] | None:
    """The rows by column, None for an empty cell; None when the file is refused or a cell is doubted."""
    try:
        table = Table([str(path)], source or TableSource())
        found = [dict(zip(table.columns, row, strict=True)) for _, row in table.rows()]
        rows = [[row.get(name) for name in HEADER] for row in found]
    except Unreadable as error:
        event(f"refused: {str(error).removeprefix(str(path))[:40]}")
        return None
    event("doubted" if table.doubts else "read")
    return None if table.doubts else rows


def without_empty_rows(rows: list[list[Any]]) -> list[list[Any]]:
    plain = [[None if cell == "" else cell for cell in row] for row in rows]
    return [row for row in plain if any(cell is not None for cell in row)]


dialects = st.fixed_dictionaries(
    {
        "delimiter": st.sampled_from(";,\t|"),
        "quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
        "lineterminator": st.sampled_from(["\n", "\r\n", "\r"]),
    }
)


def csv_text(rows: list[list[Any]], dialect: dict[str, Any]) -> str:
    text = io.StringIO(newline="")
    if dialect["lineterminator"] == "\r" and any("\n" in str(cell) for row in rows for cell in row):
        dialect = dialect | {"quoting": csv.QUOTE_ALL}  # the writer quotes no other line end than its own
    csv.writer(text, **dialect).writerows([HEADER, *rows])
    return text.getvalue()


@given(rows_of(texts), dialects, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_csv_reads_back_equal_or_is_refused(rows: list[list[str]], dialect: dict[str, Any], encoding: str) -> None:
    with file_named("kunden.csv") as path:
        path.write_bytes(csv_text(rows, dialect).encode(encoding))
        assert read(path) in (None, without_empty_rows(rows))


@given(rows_of(german), dialects, st.sampled_from(["utf-8", "cp1252"]))
def test_german_csv_is_read_and_seldom_refused(rows: list[list[str]], dialect: dict[str, Any], encoding: str) -> None:
    """Line breaks in cells are refused beside another line end, and where the cell looks like rows."""
    with file_named("kunden.csv") as path:
        path.write_bytes(csv_text(rows, dialect).encode(encoding))
        expected = without_empty_rows(rows)
        mixed = any("\n" in cell for row in rows for cell in row)
        assert read(path) in ([expected, None] if mixed or _has_blank_before_quote(rows) else [expected])


@given(
    st.lists(st.from_regex(r"[A-Za-z]+[ÄÖÜäöüß][a-z]*|[ÄÖÜäöüß][A-Za-z]+", fullmatch=True), min_size=1),
    st.sampled_from(["cp850", "cp437", "mac_roman"]),
)
def test_words_of_dos_and_mac_are_never_read_as_other_words(words: list[str], encoding: str) -> None:
    with file_named("kunden.csv") as path:
        path.write_bytes("\n".join(["Nr;Name", *(f"K1;{word}" for word in words)]).encode(encoding))
        with pytest.raises(Unreadable, match="Set its encoding"):
            Table([str(path)], TableSource())


def _has_blank_before_quote(rows: list[list[str]]) -> bool:
    return any(cell.startswith(" ") and cell.lstrip().startswith('"') for row in rows for cell in row)


@given(rows_of(texts), dialects.map(lambda dialect: dialect | {"doublequote": False, "escapechar": "\\"}))
def test_csv_with_backslashes_is_never_read_as_quotes(rows: list[list[str]], dialect: dict[str, Any]) -> None:
    """Backslashes before anything but a quote or the delimiter cannot be told from text."""
    with file_named("kunden.csv") as path:
        path.write_bytes(csv_text(rows, dialect).encode())
        found = read(path)
        if any('"' in cell for row in rows for cell in row):
            assert found is None or not any('"' in str(cell) for row in found for cell in row if cell)


@given(st.binary(max_size=60))
def test_any_bytes_are_rows_or_refused(content: bytes) -> None:
    with file_named("kunden.csv") as path:
        path.write_bytes(b"Nr;Name\n" + content)
        read(path)


numbers = st.one_of(
    st.integers(-(10**15) + 1, 10**15 - 1),
    st.decimals(-(10**9), 10**9, places=4, allow_nan=False).map(float),
    st.booleans(),
)
days = st.dates(date(1900, 3, 1), date(9999, 12, 31))
times = st.datetimes(datetime(1900, 3, 1), datetime(9999, 1, 1)).map(lambda t: t.replace(microsecond=0))  # noqa: DTZ001
in_sheets = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="_\ufffe\uffff"), max_size=8
)
cells_of_sheets = st.one_of(in_sheets, numbers, days, times, st.none())


def expected(cell: Any) -> Any:
    """The cell as the reader has it."""
    if isinstance(cell, bytes):
        return cell.decode()
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == datetime.min.time() else cell.isoformat()
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() else Decimal(f"{cell:.15g}")
    return cell


def write_with_xlsxwriter(path: Path, rows: list[list[Any]], *, is_1904: bool) -> None:
    with xlsxwriter.Workbook(str(path), {"date_1904": is_1904}) as book:
        sheet = book.add_worksheet("Kunden")
        day, moment = (book.add_format({"num_format": form}) for form in ("dd.mm.yyyy", "dd.mm.yyyy hh:mm:ss"))
        for number, row in enumerate([HEADER, *rows]):
            for place, cell in enumerate(row):
                match cell:
                    case str():
                        sheet.write_string(number, place, cell)
                    case date():
                        form = moment if isinstance(cell, datetime) else day
                        sheet.write_datetime(number, place, cell, form)
                    case bool():
                        sheet.write_boolean(number, place, cell)
                    case int() | float():
                        sheet.write_number(number, place, cell)


def write_with_openpyxl(path: Path, rows: list[list[Any]]) -> None:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in [HEADER, *rows]:
        sheet.append(row)
    book.save(path)


@given(rows_of(cells_of_sheets), st.sampled_from(["openpyxl", "xlsxwriter", "xlsxwriter of 1904"]))
def test_a_sheet_reads_back_equal_or_is_refused(rows: list[list[Any]], writer: str) -> None:
    is_1904 = writer.endswith("1904")
    if is_1904:  # such a workbook has no earlier dates
        rows = [[None if isinstance(cell, date) and cell.year < 1904 else cell for cell in row] for row in rows]
    with file_named("kunden.xlsx") as path:
        if writer == "openpyxl":
            write_with_openpyxl(path, rows)
        else:
            write_with_xlsxwriter(path, rows, is_1904=is_1904)
        assert read(path) in (None, without_empty_rows([[expected(cell) for cell in row] for row in rows]))


columns = {
    "text": (pyarrow.string(), texts),
    "bytes": (pyarrow.binary(), texts.map(str.encode)),
    "dictionary": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), texts),
    "integer": (pyarrow.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pyarrow.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "float32": (pyarrow.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "decimal": (pyarrow.decimal128(20, 4), st.decimals(-(10**9), 10**9, places=4, allow_nan=False)),
    "boolean": (pyarrow.bool_(), st.booleans()),
    "day": (pyarrow.date32(), days),
    "time": (pyarrow.timestamp("ms"), times),
}


@given(st.data())
def test_parquet_reads_back_equal_or_is_refused(data: st.DataObject) -> None:
    kinds = [data.draw(st.sampled_from(sorted(columns))) for _ in HEADER]
    size = data.draw(st.integers(0, 6))
    values = [
        data.draw(st.lists(st.none() | columns[kind][1], min_size=size, max_size=size), label=kind) for kind in kinds
    ]
    arrays = [pyarrow.array(column, columns[kind][0]) for column, kind in zip(values, kinds, strict=True)]
    with file_named("kunden.parquet") as path:
        has_statistics = data.draw(st.booleans())
        parquet.write_table(
            pyarrow.table(arrays, names=HEADER), path, row_group_size=2, write_statistics=has_statistics
        )
        found = read(path)
    rows = [list(row) for row in zip(*values, strict=True)]
    exact = {"float": 2**53, "float32": 2**24}
    is_rounded = any(
        kind in exact and cell is not None and abs(cell) >= exact[kind]
        for row in rows
        for kind, cell in zip(kinds, row, strict=True)
    )
    assert (found is None) == is_rounded
    for row, read_row in zip(rows, found, strict=True) if found is not None else ():
        for kind, cell, shown in zip(kinds, row, read_row, strict=True):
            assert _is_same(kind, cell, shown)


def _is_same(kind: str, cell: Any, shown: Any) -> bool:
    if kind in ("float", "float32") and cell is not None:
        return bool(pyarrow.scalar(float(shown), columns[kind][0]).as_py() == cell)
    return bool(shown == expected(cell))


@pytest.mark.parametrize(("form", "locale"), [("1.234,56", "de_DE"), ("1,234.56", "en_US")])
def test_numbers_are_read_as_babel_reads_them_strictly_or_refused(form: str, locale: str) -> None:
    @given(st.text("0123456789.,-", min_size=1, max_size=9))
    def law(text: str) -> None:
        try:
            number = Decimal(converted(text, "decimal", decimals=form))
        except ValueError:
            return
        plain = f"-{text[:-1]}" if text.endswith("-") else text
        assert number == parse_decimal(plain, locale=locale, strict=True)

    law()


@given(days, st.sampled_from(["DD.MM.YYYY", "YYYY-MM-DD", "MM/DD/YYYY", "YYYYMMDD", "DDMMYYYY"]))
def test_a_day_reads_back_in_every_form(day: date, form: str) -> None:
    text = form.replace("YYYY", f"{day.year:04d}").replace("MM", f"{day.month:02d}").replace("DD", f"{day.day:02d}")
    assert converted(text, "date", dates=form) == day.isoformat()


@given(rows_of(german), dialects, st.sampled_from(["cp1252", "utf-16-le", "utf-16-be", "mac_roman", "cp1250", "utf-7"]))
def test_csv_in_a_named_encoding_reads_back_equal_or_is_refused(
    rows: list[list[str]], dialect: dict[str, Any], encoding: str
) -> None:
    with file_named("kunden.csv") as path:
        path.write_bytes(csv_text(rows, dialect).encode(encoding))
        assert read(path, TableSource(encoding=encoding, delimiter=dialect["delimiter"])) in (
            None,
            without_empty_rows(rows),
        )


@given(st.decimals(-(10**12), 10**12, places=2, allow_nan=False))
def test_what_babel_writes_is_read(number: Decimal) -> None:
    for form, locale in (("1.234,56", "de_DE"), ("1,234.56", "en_US"), ("1 234,56", "fr_FR")):
        text = format_decimal(number, format="#,##0.00", locale=locale).replace("\u202f", " ")
        assert Decimal(converted(text, "decimal", decimals=form)) == number


@pytest.mark.parametrize("is_workbook", [False, True])
def test_a_process_of_its_own_counts_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_workbook: bool
) -> None:
    monkeypatch.setattr(reading, "_LARGE", 0)
    rows: list[list[Any]] = [["K1", "Allee", 1], ["K2", "Weg", "=1"]]
    if is_workbook:
        path = tmp_path / "kunden.xlsx"
        write_with_openpyxl(path, rows)
    else:
        path = tmp_path / "kunden.csv"
        path.write_text(csv_text(rows, {"lineterminator": "\n"}), encoding="utf-8")
    reader: type[Delimited | Sheet] = Sheet if is_workbook else Delimited
    with contextlib.closing(Recounter()) as recounter:
        table = Table([str(path)], TableSource(), recounter=recounter)
        assert len(list(table.rows())) == 2
        assert len(table.doubts) == is_workbook  # the formula has no stored value: only the second count sees it
        whole = reader.rows
        monkeypatch.setattr(reader, "rows", lambda self: itertools.islice(whole(self), 1))
        with pytest.raises(Differs, match="1 row was read, and 2 counted"):
            list(Table([str(path)], TableSource(), recounter=recounter).rows())
    with pytest.raises(Differs, match="1 row was read, and 2 counted"):
        list(Table([str(path)], TableSource()).rows())
