"""Importbook must never misread a table: each doubtful input ends in an exact value or in a sentence."""

import contextlib
import io
import itertools
import random
import re
import shutil
import subprocess
import zipfile
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest
import xlsxwriter
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook
from pyarrow import parquet

from importledger_client import manifest
from importledger_client.book import book
from importledger_client.comparing import compared
from importledger_client.contract import ACCOUNT as CONTRACT
from importledger_client.engine import Engine
from importledger_client.manifest import Counting, NoAccount
from importledger_client.mapping import MappingError, read_mapping
from importledger_client.sources import Differs, Line, Source, Unreadable, _Counted
from importledger_client.tables.columnar import Columnar
from importledger_client.tables.delimited import Delimited
from importledger_client.tables.reading import Table
from importledger_client.tables.table import TableSource
from importledger_client.tables.workbook import Sheet
from importledger_client.values import converted
from tests.support.importbook import importbook
from tests.support.mapped_book import accounts_of, mapping_at, source_of

ACCOUNT: dict[str, Any] = {"external_account_number": "Nr", "customers": [{"family_name": "Name"}]}
WITH_BALANCE = ACCOUNT | {"transfer_balance": "Saldo"}
WITH_BIRTH = ACCOUNT | {"customers": [{"family_name": "Name", "date_of_birth": "Tag"}]}
WITH_NOTES = ACCOUNT | {"notes": [{"from": "z", "body": "Text"}]}
FURTHER = {"z": {"path": "z.csv", "key": "Nr"}}
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
ACCESS = {"IMPORTLEDGER_URL": "http://127.0.0.1:9", "IMPORTLEDGER_KEY": "ilk_x"}
"""A service that is not there: files that are refused here are never sent."""
COUNT = ("manifest", "kunden.csv", "--mapping", "m.yaml", "-o", "m.json")


def written(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def lines(folder: Path, file: str, account: dict[str, Any] = ACCOUNT, **options: Any) -> list[Line]:
    """The lines as `push` would send them."""
    return list(source_of(mapping_at(folder, account, **options), file).lines())


def accounts(folder: Path, file: str, account: dict[str, Any] = ACCOUNT, **options: Any) -> list[dict[str, Any]]:
    return accounts_of(source_of(mapping_at(folder, account, **options), file))


def table_of(folder: Path, content: str | bytes, options: dict[str, Any]) -> Table:
    """The table of a CSV file with this content, without a mapping."""
    source = TableSource(**options.get("source", {}))
    return Table([written(folder, "kunden.csv", content)], source, ignored=options.get("ignore", ()))


def names(folder: Path, content: str | bytes, **options: Any) -> list[str | None]:
    """The family names that a mapping reads from a CSV file with this content."""
    made = accounts(folder, written(folder, "kunden.csv", content), **options)
    return [account["customers"][0]["family_name"] if "customers" in account else None for account in made]


def refusal(folder: Path, content: str | bytes, **options: Any) -> str:
    """The sentence that refuses a CSV file with this content, and a mapping."""
    with pytest.raises(Unreadable) as error:
        lines(folder, written(folder, "kunden.csv", content), **options)
    return str(error.value)


def workbook(folder: Path, *sheets: tuple[str, list[list[Any]]]) -> str:
    book = Workbook()
    del book["Sheet"]
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    path = folder / "kunden.xlsx"
    book.save(path)
    return str(path)


def with_sheet_changed(file: str, *changes: tuple[bytes, bytes]) -> str:
    """The workbook with these changes in the XML of its first sheet."""
    changed = file.replace(".xlsx", "-changed.xlsx")
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            for old, new in changes if name.endswith("sheet1.xml") else ():
                assert old in content
                content = content.replace(old, new)
            target.writestr(name, content)
    return changed


# Numbers and dates


def test_a_group_separator_stands_only_before_exactly_three_digits(tmp_path: Path) -> None:
    cells = ["12.50", "1.5", "1234.5", "1.2345", "12.345.67", "1.234.5", "0.123", "1 2", "1,2,3"]
    rows = "".join(f"K{number};Böhm;{cell}\n" for number, cell in enumerate(cells, 3))
    file = written(tmp_path, "kunden.csv", f"Nr;Name;Saldo\nK2;Groß;1.234,50\n{rows}")
    first, *others = lines(tmp_path, file, WITH_BALANCE, decimals="1.234,56")
    assert msgspec.json.decode(first.content)["transfer_balance"] == "1234.50"
    for number, (cell, line) in enumerate(zip(cells, others, strict=True), 3):
        (error,) = line.errors
        assert (error.attr, error.code) == ("transfer_balance", "invalid")
        assert error.detail == f"Row {number}, column Saldo: the value must be written like 1.234,56."
        assert msgspec.json.decode(line.content)["transfer_balance"] == f"UNREADABLE: {cell}"  # all services refuse it


@pytest.mark.parametrize(
    ("form", "cell", "number"),
    [
        ("1.234,56", "1.234.567,8", "1234567.8"),
        ("1.234,56", "-12,30 €", "-12.30"),
        ("1.234,56", "12,30-", "-12.30"),
        ("1234,56", "1234,5", "1234.5"),
        ("1'234.56", "1'234.5", "1234.5"),
        ("1 234,56", "1 234,5", "1234.5"),
        ("1,234.56", "EUR 1,234", "1234"),
        ("1234.56", "007.10", "7.10"),
    ],
)
def test_numbers_are_read_in_the_form_of_the_mapping(form: str, cell: str, number: str) -> None:
    assert converted(cell, "decimal", decimals=form) == number


def test_a_moment_in_utc_is_its_german_day(tmp_path: Path) -> None:
    days = {
        "2024-12-31T23:00:00Z": "2025-01-01",
        "2024-06-30T22:00:00+00:00": "2024-07-01",
        "2025-01-01T00:00:00+01:00": "2025-01-01",
        "2025-01-01": "2025-01-01",
    }
    rows = "".join(f"K{number};x;{day}\n" for number, day in enumerate(days))
    made = accounts(tmp_path, written(tmp_path, "kunden.csv", f"Nr;Name;Tag\n{rows}"), WITH_BIRTH)
    assert [account["customers"][0]["date_of_birth"] for account in made] == list(days.values())


def test_a_birth_date_with_a_year_of_two_digits_is_not_in_the_future(tmp_path: Path) -> None:
    assert converted("15.03.45", "date", dates="DD.MM.YY", field="date_of_birth") == "1945-03-15"
    assert converted("15.03.24", "date", dates="DD.MM.YY") == "2024-03-15"
    file = written(tmp_path, "kunden.csv", f"Nr;Name;Tag\nK1;x;15.03.{datetime.now(UTC):%y}\n")
    (line,) = lines(tmp_path, file, WITH_BIRTH, dates="DD.MM.YY")
    assert "a birth date must have a year of four digits" in line.errors[0].detail
    assert line.errors[0].attr == "customers.0.date_of_birth"


@given(st.dates(date(1930, 1, 1), date(2099, 12, 31)), st.sampled_from(["", "date_of_birth"]))
def test_a_date_with_a_year_of_two_digits_is_refused_rather_than_moved_by_a_century(day: date, field: str) -> None:
    """Of dates that occur: born within 100 years, others from this century or at most 20 years ahead, or since 1947."""
    today = datetime.now(UTC).date()
    latest = today.year if field else today.year + 20
    if not (latest - (100 if field else 99) < day.year <= latest):
        return
    with contextlib.suppress(ValueError):
        assert converted(f"{day:%d.%m.%y}", "date", dates="DD.MM.YY", field=field) == day.isoformat()


@pytest.mark.parametrize(
    ("form", "cell", "kind", "sentence"),
    [
        ("YYYY-DD-MM", "2024-01-15", "date", "unconverted data remains: 5"),
        ("DDMMYYYY", "2024-W01-1", "date", "'2024-W01-1' does not match format '%d%m%Y'"),
        ("DD.MM.YYYY", "1.2.24", "date", "'1.2.24' does not match format '%d.%m.%Y'"),
        *((form, cell, "date", cell) for form, cell in (("DDMMYYYY", "1022024"), ("YYYYMMDD", "2024115"))),
        ("", True, "decimal", "True"),
        ("", "1.5", "integer", "1.5"),
    ],
)
def test_a_date_in_another_form_and_a_boolean_as_a_number_are_refused(
    form: str, cell: Any, kind: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        converted(cell, kind, dates=form)
    assert converted("10121205", "date", dates="DDMMYYYY") == "1205-12-10"
    assert (converted("2.0", "integer"), converted(True, "text")) == (2, "true")


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ("31.01.2023", "01.02.2024", None),  # neither has the form of the mapping
        ("9,5", "10,5", None),
        ("2023-01-31", "unknown", None),
        ("2023-01-31", "1,5", None),
        ("2023-01-31", "2024-02-01", "second"),
        ("9.5", "10.5", "second"),
        ("V1", "V2", "second"),
        ("2023-12", "2024-01", "second"),
        ("9,5", "9,5", "same"),
    ],
)
def test_rows_that_cannot_be_ordered_are_named(tmp_path: Path, first: str, second: str, chosen: str | None) -> None:
    account = {"external_account_number": "Nr", "notes": [{"last": "by Stand", "body": "Name"}]}
    names = ("same", "same") if chosen == "same" else ("first", "second")
    file = written(tmp_path, "kunden.csv", f"Nr;Name;Stand\nK1;{names[0]};{first}\nK1;{names[1]};{second}\n")
    (line,) = lines(tmp_path, file, account, ignore=["Name"])
    if chosen is None:
        assert "column Stand: the value must be written like YYYY-MM-DD or 1234.56" in line.errors[0].detail
    else:
        assert (line.errors, msgspec.json.decode(line.content)["notes"]) == ((), [{"body": chosen}])


def test_an_expression_reads_a_birth_date_as_the_column_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, "kunden.csv", "Nr;Name;Tag\nK1;x;15.03.45\nK2;x;15.03.20\n")
    account = ACCOUNT | {"customers": [{"family_name": "Name", "date_of_birth": {"sql": "day(Tag)"}}]}
    old, doubtful = lines(tmp_path, file, account, dates="DD.MM.YY")
    assert msgspec.json.decode(old.content)["customers"][0]["date_of_birth"] == "1945-03-15"
    assert "a birth date must have a year of four digits" in doubtful.errors[0].detail


# CSV

MANY = "".join(f"K{number};Muster\n" for number in range(20_000))  # more than any sample
UTF_8_OR_1252 = "which is not UTF-8 or Windows-1252"
ROWS_IN_CELL = 'Nr;Name;Ort\nK1;Groß;Ulm\nK2;"Zum Löwen;Ulm\nK3;Böhm;Ulm\nK4;Zum Adler";Ulm\n'
TWO_ORTE = "Nr;Name;Ort;Ort\nK1;Groß;Köln;Bonn\n"
NAMELESS = "Nr;Name;\nK1;Groß;\nK2;Böhm;x\n"
NO_HEADER = "must have the names of its columns"
ENCODED = "Nr;Name\nK1;Müller\nK2;Größer\nK3;Weiß\n"


@pytest.mark.parametrize(
    ("content", "sentence", "options"),
    [
        ("Nr;Name\nK1;Köln\n".encode() + b"K2;Ren\xe9\n", "line 3, byte 7 is 0xE9, which is not UTF-8.", {}),
        (f"Nr;Name\nK;Köln\n{MANY}".encode() + b"K-x;M\xf6\xf6\n", "line 20003, byte 6 is 0xF6", {}),
        *((ENCODED.encode(encoding), "source: {encoding: …}", {}) for encoding in ("cp850", "mac_roman")),
        *(
            (f"Nr;Name\nK1;{text}\n".encode(encoding), UTF_8_OR_1252, {})
            for text, encoding in (("Am Straßenrand", "cp850"), ("Groß, 5 €", "iso8859-15"))
        ),
        *(
            (f"Nr;Name\nK1;{name}\n".encode(encoding), UTF_8_OR_1252, {})
            for encoding in ("cp850", "cp437", "mac_roman")
            for name in ("Bär", "Käthe", "Hülya")
        ),
        (ENCODED, "'klingon' must be the name of an encoding", {"source": {"encoding": "klingon"}}),
        (ENCODED, "must be the name of an encoding", {"source": {"encoding": "base64"}}),
        *((ENCODED, "must be one character", {"source": {"delimiter": delimiter}}) for delimiter in (";;", '"', "\n")),
        (ENCODED.encode("cp1252"), "line 2, byte 5 is 0xFC, which is not utf-8", {"source": {"encoding": "utf-8"}}),
        ("\ufeffNr;Name\nK1;Groß\n\ufeffNr;Name\nK2;Böhm\n", "line 3 has a byte order mark", {}),
        ("Nr;Name\nK1;Muster\n".encode("utf-16-le"), "NUL byte: is it UTF-16?", {}),
        ('Nr;Name\nK1;"a\nb"\nK2;"Zum Löwen\nK3;Böhm\n', "the quote opened in line 4 is not closed.", {}),
        *(
            (f"Nr;Name\n{row}\n", "row 2", {})
            for row in (r'K1;"\"Bau\" GmbH"', r"K1;\"Bau\" GmbH", 'K1;"Zum" Löwen', 'K1; "Zum"', 'K1;"a" ', r'K1;"\"B"')
        ),
        (TWO_ORTE, "has 2 columns with the name Ort", {}),
        (NAMELESS, "row 3: cell 3 stands below no column name", {}),
        *(
            (f"Nr;Name;Ort\nK1;Groß;Ulm\n{row}\n", f"row 3 must have 3 cells like the header; it has {cells}.", {})
            for row, cells in (("K2;Böhm;Bau;Köln", 4), ("K2;Böhm", 2), ("K2", 1), ("   ", 1))
        ),
        ("Nr;Name\r\nK1;Gro\rß\r\n", "row 2 has a carriage return (CR) in a cell", {}),
        *((content, NO_HEADER, {}) for content in ("", "\n", ";;\n")),
    ],
)
def test_csv_that_could_be_misread_is_refused(
    tmp_path: Path, content: str | bytes, sentence: str, options: dict[str, Any]
) -> None:
    with pytest.raises(Unreadable, match=re.escape(sentence)):
        list(table_of(tmp_path, content, options).rows())


@pytest.mark.parametrize(
    ("content", "expected", "options"),
    [
        *(
            (f"Nr;Name\nK1;{name}\nK2;Groß\n".encode("cp1252"), [name, "Groß"], {})
            for name in ("D’Angelo", "Šimic", "Köln", "MÜLLER", "Müller–Groß")
        ),
        *(
            (ENCODED.encode(encoding), ["Müller", "Größer", "Weiß"], {"source": {"encoding": encoding}})
            for encoding in ("cp850", "mac_roman", "iso8859-15")
        ),
        ('Nr;Name\nK1;Zum "Löwen"\nK2;"Zum ""Adler"""\n', ['Zum "Löwen"', 'Zum "Adler"'], {}),
        ('Nr;Name;Ort\nK1;"a;\nb\n; c";Ulm\n', ["a;\nb\n; c"], {"ignore": ["Ort"]}),
        (TWO_ORTE, ["Groß"], {"ignore": ["Ort"]}),
        (NAMELESS, ["Groß", "Böhm"], {"ignore": [""]}),
        ("Nr;Name;\nK1;Groß;\n", ["Groß"], {}),
        ("Nr;Name\n\nK1;Groß\n;\n\nK2;Böhm\n\n", ["Groß", "Böhm"], {}),
        ('Nr;Name\nK1;"Gro\rß"\n', ["Gro\rß"], {}),
        *((f"{line}\nNr|Name\nK1|a;b;c\n", ["a;b;c"], {}) for line in ("sep=|", '"sep=|"', "SEP=|\r")),
    ],
)
def test_csv_without_doubts_is_read(
    tmp_path: Path, content: str | bytes, expected: list[str], options: dict[str, Any]
) -> None:
    table = table_of(tmp_path, content, options)
    place = table.columns.index("Name")
    assert ([row[place] for _, row in table.rows()], table.doubts) == (expected, [])


def test_text_that_is_like_a_number_of_excel_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, "kunden.csv", 'Nr;Name\nK1;1E10\nK2;5,1E\nK3;"=""0002"""\n')
    assert [made["customers"][0]["family_name"] for made in accounts(tmp_path, file)] == ["1E10", "5,1E", "0002"]


@pytest.mark.parametrize(
    ("content", "sentence", "ignore"),
    [
        ("Nr;Nachname\nK1;x\n", "There is no column Name in the table; there are Nr, Nachname.", ""),
        ("Nr;Name;Name\nK1;a;b\n", "has 2 columns with the name Name", "Name"),
        (ROWS_IN_CELL, "row 3 has whole rows inside a cell of column Name: is a quote", "Ort"),
    ],
)
def test_csv_in_which_a_mapped_column_is_doubtful_is_refused(
    tmp_path: Path, content: str, sentence: str, ignore: str
) -> None:
    assert sentence in refusal(tmp_path, content, ignore=[ignore])


def test_blanks_around_a_key_make_no_other_account(tmp_path: Path) -> None:
    account = ACCOUNT | {"notes": [{"each": ["Notiz"], "body": "Notiz"}]}
    file = written(tmp_path, "kunden.csv", "Nr;Name;Notiz\nK1;Groß;a\nK1 ;Groß;a \n\u00a0K1;Groß;b\n")
    (made,) = accounts(tmp_path, file, account)
    assert [note["body"] for note in made["notes"]] == ["a", "b"]


def test_every_row_without_a_key_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, "kunden.csv", "Nr;Name\nK1;Groß\n;Böhm\n ;Weiß\n")
    assert [error.detail for line in lines(tmp_path, file) for error in line.errors] == [
        "Row 3 must have a value in column Nr.",
        "Row 4 must have a value in column Nr.",
    ]
    checked = importbook("map", "check", "m.yaml", "kunden.csv", at=tmp_path)
    assert (checked.returncode, "2 rows must have a value in column Nr." in checked.stdout) == (1, True)
    assert importbook(*COUNT, at=tmp_path).returncode == 1


def test_ignored_cells_are_counted_and_named(tmp_path: Path) -> None:
    written(tmp_path, "kunden.csv", "Nr;Name;Alt\nK1;NULL;x\nK2;Groß;\n")
    mapping_at(tmp_path, ACCOUNT, ignore=["Alt"], empty=["NULL"])
    shown = importbook(*COUNT, at=tmp_path)
    assert shown.returncode == 0
    assert "kunden.csv: CSV · utf-8 · delimiter ;" in shown.stdout
    assert "kunden.csv: 2 rows, 5 filled cells, 2 of them ignored: Alt 1, Name 1" in shown.stdout.splitlines()


# Workbooks


def test_a_wrong_dimension_hides_no_row(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "Groß"], ["K2", "Böhm"]]))
    wrong = with_sheet_changed(file, (b'<dimension ref="A1:B3"/>', b'<dimension ref="A1"/>'))
    assert len(accounts(tmp_path, wrong)) == 2


def test_cells_far_from_the_table_are_named_before_memory_is_taken_for_all_between(tmp_path: Path) -> None:
    rows = [["Nr", "Name"], ["K1", "Groß"], ["K2", "Böhm"]]
    file = workbook(tmp_path, ("Kunden", rows))
    for reference in (b"XFD1048576", b"ZZZZZZZZ3", b"B" + b"9" * 30):
        far = with_sheet_changed(file, (b'r="B3"', b'r="%b"' % reference))
        with pytest.raises(Unreadable, match=r"sheet Kunden reaches to row .* and column .*, which is too large"):
            lines(tmp_path, far)
    empty = with_sheet_changed(file, (b"</row></sheetData>", b'<c r="XFD1048576" s="0" /></row></sheetData>'))
    assert len(accounts(tmp_path, empty)) == 2


def test_sheets_that_are_not_read_are_named_and_refused(tmp_path: Path) -> None:
    header = ["Nr", "Name"]
    file = workbook(
        tmp_path,
        ("Kunden", [header, ["K1", "Groß"]]),
        ("Leer", []),
        ("Mehr", [["Name", "Nr"], ["Böhm", "K2"]]),
        ("Notizen", [["von", "Text"], ["x", "y"]]),
    )
    proposed = importbook("map", "init", "kunden.xlsx", at=tmp_path)
    assert "# kunden.xlsx, sheet Mehr is not read" in proposed.stdout
    mapping_at(tmp_path, ACCOUNT)
    checked = importbook("map", "check", "m.yaml", "kunden.xlsx", at=tmp_path)
    assert checked.returncode == 1
    for sheet in ("Mehr", "Notizen"):
        assert f"kunden.xlsx, sheet {sheet} is not read: name it in `sheets` or `ignore_sheets`" in checked.stdout
    assert "Leer" not in checked.stdout
    pushed = importbook("push", "kunden.xlsx", "--mapping", "m.yaml", at=tmp_path, access=ACCESS)
    assert (pushed.returncode, "sheet Mehr is not read" in pushed.stdout) == (1, True)
    assert "next:  importbook map check m.yaml kunden.xlsx" in pushed.stdout
    made = accounts(tmp_path, file, source={"sheets": ["Kunden", "Mehr"], "ignore_sheets": ["Notizen"]})
    assert [account["external_account_number"] for account in made] == ["K1", "K2"]
    with pytest.raises(Unreadable, match="has no sheet 'Kunde' with rows"):
        lines(tmp_path, file, source={"sheets": ["Kunde"]})
    with pytest.raises(Unreadable, match="has no sheet with rows"):
        lines(tmp_path, workbook(tmp_path, ("Leer", [])))


DOUBTFUL = {
    "may mean no value: list it in `empty` of the mapping": [
        "NULL",
        "(null)",
        "\\N",
        "#NV",
        "#N/A",
        "NaN",
        "<NA>",
        "#WERT!",
    ],
    "Excel writes for a long number": ["5,12387E+10", "5.1E+10", "-1,2E+15"],
}


def test_doubtful_cells_are_read_once_the_mapping_decides(tmp_path: Path) -> None:
    """Each word stands in a column of its own."""
    words = [(word, sentence) for sentence, alike in DOUBTFUL.items() for word in alike]
    cells = ";".join(word for word, _ in words)
    columns = [f"C{number}" for number in range(len(words))]
    file = written(tmp_path, "kunden.csv", f"Nr;{';'.join(columns)}\nK1{';x' * len(words)}\nK2;{cells}\n")
    account = {"external_account_number": "Nr", "notes": [{"body": column} for column in columns]}
    for options in ({}, {"empty": ["another word"]}):
        with pytest.raises(Differs) as doubted:
            lines(tmp_path, file, account, **options)
        for column, (word, sentence) in zip(columns, words, strict=True):
            assert f"column {column}: row 3 has {word}, which {sentence}" in str(doubted.value)
    listed = [word for word, _ in words]
    assert [note["body"] for note in accounts(tmp_path, file, account, texts=listed)[1]["notes"]] == listed
    assert "notes" not in accounts(tmp_path, file, account, empty=listed)[1]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "MÃ¼ller",
            "Gro\ufffd",
            "M?ller",
            "MÃœLLER",
            "STRA?E",
            "5 â‚¬",
            "Bau &amp; Boden",
            "M&uuml;ller",
            "Gro&#223;",
        ),
        *("'0001", "'+49 170", "'Groß'"),
    ],
)
def test_a_text_that_another_program_has_changed_is_doubtful(tmp_path: Path, text: str) -> None:
    content = f'Nr;Name\nK1;Groß\nK2;"{text}"\n'
    with pytest.raises(Differs, match="column Name: row 3 has a text that another program has changed") as refused:
        names(tmp_path, content)
    assert text not in str(refused.value).replace("MÃ¼ller, M?ller, Bau &amp; Boden or '0001", "")  # for the manifest
    assert names(tmp_path, content, texts=[text]) == ["Groß", text]
    account = ACCOUNT | {"customers": [{"family_name": {"sql": "replace(Name, '&amp;', '&')"}}]}
    made = accounts(tmp_path, str(tmp_path / "kunden.csv"), account)
    assert made[1]["customers"][0]["family_name"] == text.replace("&amp;", "&")


@pytest.mark.parametrize("text", ["O'Neil", "'t Hart", "Wann? ja", "JOÃO", "https://a.de/x?y=1", "R&B; Klub", "Groß?"])
def test_a_text_with_the_same_signs_that_is_unchanged_is_read(tmp_path: Path, text: str) -> None:
    assert names(tmp_path, f'Nr;Name\nK1;"{text}"\n') == [text]


def test_a_sheet_of_the_same_workbook_can_be_a_further_table(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "x"]]), ("Notizen", [["Nr", "Text"], ["K1", "y"]]))
    further = {"path": "kunden.xlsx", "key": "Nr", "source": {"sheets": ["Notizen"], "ignore_sheets": ["Kunden"]}}
    (made,) = accounts(tmp_path, file, WITH_NOTES, files={"z": further}, source={"sheets": ["Kunden"]})
    assert made["notes"] == [{"body": "y"}]


HEADER = ["Nr", "Name", "Saldo"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([["K1", "x", "=1+0.5"]], "cell C2 has a formula without a stored value: open the file in Excel and save it"),
        ([["K1", "x", "#N/A"]], "cell C2 has the error #N/A: fix it, or list it in `empty`"),
        ([[1234567890123456789, "x", 1]], "row 2 has a number of more than 15 digits"),
        ([["K1", "x", 1, "y"]], "row 2: cell 4 stands below no column name"),
        *(
            ([["K1", "Groß", 1], ["K2", cell, 2]], "row 3 has the date")
            for cell in (date(2024, 2, 1), datetime.fromisoformat("2024-02-01T08:00:00"), time(3, 10))
        ),
    ],
)
def test_cells_of_a_workbook_that_could_be_misread_are_refused(
    tmp_path: Path, rows: list[list[Any]], sentence: str
) -> None:
    file = workbook(tmp_path, ("Kunden", [HEADER, *rows]))
    with pytest.raises(Unreadable, match=re.escape(sentence)) as refused:
        lines(tmp_path, file, WITH_BALANCE)
    assert isinstance(refused.value, Differs) == ("below no column" not in sentence)


def test_doubtful_cells_of_a_workbook_are_read_once_the_mapping_decides(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [HEADER, ["K1", "x", "=1"], ["K2", date(2024, 2, 1), "#N/A"]]))
    day = {"customers": [{"family_name": {"column": "Name", "format": "YYYY-MM-DD"}}]}
    made = accounts(tmp_path, file, ACCOUNT | day, ignore=["Saldo"])
    assert [account["customers"][0]["family_name"] for account in made] == ["x", "2024-02-01"]
    file = workbook(tmp_path, ("Kunden", [HEADER, ["K1", "x", "#N/A"]]))
    assert "transfer_balance" not in accounts(tmp_path, file, WITH_BALANCE, empty=["#N/A"])[0]


@pytest.mark.parametrize(("value", "word"), [(b"nan", "NaN"), (b"inf", "Infinity"), (b"-inf", "-Infinity")])
def test_a_number_of_a_workbook_that_is_none_is_refused(tmp_path: Path, value: bytes, word: str) -> None:
    file = workbook(tmp_path, ("Kunden", [HEADER, ["K1", "x", 7]]))
    wrong = with_sheet_changed(file, (b"<v>7</v>", b"<v>%b</v>" % value))
    with pytest.raises(Unreadable, match=f"column Saldo: row 2 has {word}"):
        lines(tmp_path, wrong, WITH_BALANCE)


def test_stored_values_of_formulas_are_read_and_zeros_that_only_excel_shows_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "kunden.xlsx")
    for number in (10115, 1067):
        with xlsxwriter.Workbook(file) as book:
            sheet = book.add_worksheet()
            sheet.write_row(0, 0, HEADER)
            sheet.write_row(1, 0, [number, "x"], book.add_format({"num_format": "00000"}))
            sheet.write_formula(1, 2, "=1+0.5", None, 1.5)
        if number == 10115:
            assert accounts(tmp_path, file, WITH_BALANCE)[0]["transfer_balance"] == "1.5"
    with pytest.raises(Differs, match="cell A2 has a number that Excel shows with leading zeros"):
        lines(tmp_path, file, WITH_BALANCE)


@pytest.mark.parametrize(
    ("form", "number", "sentence"),
    [
        *(
            (form, 1067, "cell A2 has a number that Excel shows with leading zeros")
            for form in ('"D-"00000', "00000;@", "000\\-000", "000 000", "[$-407]00000", "[<=99999]00000;0", "00000_-")
        ),
        *(
            (form, number, f"cell A2 has the number {number}, which Excel shows as a percentage, a fraction")
            for form, number in ((9, 0.19), ("0.0%", 0.19), (11, 1200000), (12, 12.5), ('# ??/??" m"', 0.5))
        ),
        *(
            (form, 17, f"cell A2 has the number 17, which Excel shows in the form {form}, and external_account_number")
            for form in ('"KD-"0', "0\\-0", '#"a"', '"Nr. "#;-0', "(0)", '"+49 "0')
        ),
        *((form, 1067, "") for form in ("0", "#,##0.00 [$€-407]", "0000.00", '0 "kWh"', '0.00" %"', "#,##0", "@")),
    ],
)
def test_a_number_that_excel_shows_otherwise_than_it_stores_it_is_refused(
    tmp_path: Path, form: Any, number: float, sentence: str
) -> None:
    file = str(tmp_path / "kunden.xlsx")
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Nr", "Name"])
        sheet.write_row(1, 0, [number, "x"], book.add_format({"num_format": form}))
    if not sentence:
        assert accounts(tmp_path, file)[0]["external_account_number"] == str(number)
    else:
        with pytest.raises(Differs, match=re.escape(sentence)):
            lines(tmp_path, file)


@pytest.mark.parametrize(("cells", "is_refused"), [("B2:B3", True), ("A3:B3", True), ("A1:B1", False)])
def test_merged_cells_below_the_header_are_refused(tmp_path: Path, cells: str, is_refused: bool) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "Groß"], ["K2", None]]))
    merged = b'</sheetData><mergeCells count="1"><mergeCell ref="%b"/></mergeCells>' % cells.encode()
    file = with_sheet_changed(file, (b"</sheetData>", merged))
    if not is_refused:
        assert len(accounts(tmp_path, file)) == 2
        return
    with pytest.raises(Differs, match=re.escape(f"is merged ({cells}): undo the merge")):
        lines(tmp_path, file)


def test_a_name_of_which_excel_has_made_a_boolean_is_refused(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", True]]))
    with pytest.raises(Differs, match=r"row 2 has a boolean, and customers\.family_name is a text"):
        lines(tmp_path, file)
    known = {"customers": [{"family_name": {"column": "Name", "table": "t"}}]}
    (made,) = accounts(tmp_path, file, ACCOUNT | known, tables={"t": {"true": "Wahr"}})
    assert made["customers"] == [{"family_name": "Wahr"}]


@pytest.mark.parametrize("forms", [{}, {"dates": "DD.MM.YYYY", "decimals": "1.234,56"}])
@pytest.mark.parametrize("is_parquet", [False, True])
def test_words_for_no_value_are_found_among_days_and_numbers(
    tmp_path: Path, forms: dict[str, str], is_parquet: bool
) -> None:
    rows = [["K1", date(9999, 12, 31), 0], ["K2", date(1980, 2, 1), 1], ["K3", date(1980, 2, 1), 99999]]
    if is_parquet:
        file = str(tmp_path / "kunden.parquet")
        keys, days, numbers = zip(*rows, strict=True)
        parquet.write_table(pyarrow.table({"Nr": keys, "Tag": days, "Saldo": numbers}), file)
    else:
        file = workbook(tmp_path, ("Kunden", [["Nr", "Tag", "Saldo"], *rows]))
    account = {
        "external_account_number": "Nr",
        "transfer_balance": "Saldo",
        "customers": [{"date_of_birth": "Tag"}],
    }
    made = accounts(tmp_path, file, account, empty=["31.12.9999", "0,00", "99999"], **forms)
    assert [(found.get("customers"), found.get("transfer_balance")) for found in made] == [
        (None, None),
        ([{"date_of_birth": "1980-02-01"}], "1"),
        ([{"date_of_birth": "1980-02-01"}], None),
    ]


# Parquet


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"Saldo": [float("nan"), 1.5]}, "column Saldo: row 2 has NaN, which may mean no value"),
        ({"Saldo": [1.5, float("inf")]}, "column Saldo: row 3 has Infinity"),
        ({"Name": [b"a", b"Gro\xdf"]}, "row 3, column Name must be text in UTF-8"),
        ({"Name": [["a", "b"], []]}, "the column Name is a list"),
    ],
)
def test_parquet_that_could_be_misread_is_refused(tmp_path: Path, columns: dict[str, list[Any]], sentence: str) -> None:
    file = str(tmp_path / "kunden.parquet")
    parquet.write_table(pyarrow.table({"Nr": ["K1", "K2"], "Name": ["x", "y"], "Saldo": [1.5, 2.5]} | columns), file)
    with pytest.raises(Unreadable, match=sentence) as refused:
        lines(tmp_path, file, WITH_BALANCE)
    assert isinstance(refused.value, Differs) == ("Saldo" in columns)


@pytest.mark.parametrize(
    ("kind", "number", "text"),
    [
        (pyarrow.float64(), 123456789012345678, None),
        (pyarrow.float64(), 1234567890123456, "1234567890123456"),
        (pyarrow.float32(), 123456789, None),
        (pyarrow.float32(), 1234567, "1234567"),
        (pyarrow.int64(), 123456789012345678, "123456789012345678"),
    ],
)
def test_a_number_that_parquet_holds_only_rounded_is_refused(
    tmp_path: Path, kind: pyarrow.DataType, number: int, text: str | None
) -> None:
    file = str(tmp_path / "kunden.parquet")
    keys = pyarrow.array([number, 7], pyarrow.int64()).cast(kind, safe=False)
    parquet.write_table(pyarrow.table({"Nr": keys, "Name": ["x", None]}), file)
    if text is None:
        with pytest.raises(Differs, match="row 2 has a number that the file holds only rounded"):
            lines(tmp_path, file)
    else:
        assert accounts(tmp_path, file)[0]["external_account_number"] == text


@pytest.mark.parametrize("kind", [pyarrow.date64(), pyarrow.timestamp("us"), pyarrow.timestamp("us", "UTC")], ids=str)
def test_a_time_of_parquet_outside_of_all_calendars_is_named(tmp_path: Path, kind: pyarrow.DataType) -> None:
    file = str(tmp_path / "kunden.parquet")
    times = pyarrow.array([2**62], pyarrow.int64()).cast(kind)
    parquet.write_table(pyarrow.table({"Nr": ["K1"], "Name": ["x"], "Tag": times}), file)
    with pytest.raises(Unreadable, match="after row 1: it cannot be read as Parquet"):
        lines(tmp_path, file, WITH_BIRTH)


# Files of another kind


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("kunden.xls", b"\xd0\xcf\x11\xe0", "is an old Excel workbook (.xls), or has a password: save it as .xlsx"),
        ("kunden.xls", b"<html><table><tr><td>Nr</td></tr></table>", "is an HTML or XML page, not a workbook: open it"),
        ("kunden.xlsx", b"Nr;Name\n", "is not a workbook: if it is text, its name must end with .csv"),
        ("kunden.xlsx", b"PK\x03\x04 broken", "cannot be read as XLSX"),
        *(
            (name, b"PK\x03\x04\x14\0", "is a workbook or a ZIP archive, not CSV: a workbook must be saved as .xlsx")
            for name in ("kunden.csv", "kunden.ods", "kunden.xlsb")
        ),
        ("kunden.csv", b"PAR1", "is a Parquet file, not CSV: its name must end with .parquet"),
        ("kunden.csv", b"<!DOCTYPE html>", "is an HTML or XML page, not CSV"),
        ("kunden.parquet", b"Nr;Name\n", "is not a Parquet file"),
        ("kunden.parquet", b"PAR1 broken PAR1", "cannot be read as Parquet"),
        ("kunden.csv.gz", b"\x1f\x8b\x08\0broken", "is damaged or cut off"),
    ],
)
def test_a_table_of_another_kind_is_named(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    written(tmp_path, name, content)
    mapping_at(tmp_path, ACCOUNT)
    for words in (["map", "check", "m.yaml", name], ["map", "init", name]):
        shown = importbook(*words, at=tmp_path)
        assert (shown.returncode, shown.stderr.count("\n")) == (2, 1)
        assert f"{name} {sentence}" in shown.stderr


LINE = '{"external_account_number":"K1"}'


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (f"[{LINE}]".encode(), "is one JSON array. It must be NDJSON"),
        (f"\ufeff[\n{LINE},\n{LINE}\n]".encode(), "is one JSON array. It must be NDJSON"),
        (b'{\n  "external_account_number": "K1"\n}\n', "has an account on several lines. It must be NDJSON"),
        (b'{"customers": [\n  {}\n]}', "has an account on several lines. It must be NDJSON"),
        (LINE.encode("utf-16"), "is UTF-16: it must be UTF-8. This writes it so"),
        (LINE.encode("utf-16-le"), "is UTF-16: it must be UTF-8. This writes it so"),
        (f"\ufeff{LINE}".encode("utf-16-be"), "is UTF-16: it must be UTF-8. This writes it so"),
        (b"PK\x03\x04", "is a binary file, not NDJSON"),
        (random.Random(7).randbytes(5_000), "is a binary file, not NDJSON"),
        (b"\x8c\xe1\x02\xf0 no text", "is a binary file, not NDJSON"),
        (b"\0" * 80, "is a binary file, not NDJSON"),
        (b"<html>", "is an HTML or XML page"),
    ],
)
def test_a_book_that_is_not_ndjson_is_named_in_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    written(tmp_path, "book.ndjson", content)
    shown = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (2, "", 1)
    assert f"book.ndjson {sentence}" in shown.stderr
    assert not (tmp_path / "m.json").exists()
    _, _, command = shown.stderr.partition("This writes it so: ")
    if command and shutil.which(command.split()[0]):
        command = command.replace("> book", "> new").replace("FILE", "book.ndjson")
        subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
        made = (tmp_path / "new.ndjson").read_bytes().splitlines()
        assert [type(msgspec.json.decode(line)) for line in made] == [dict] * max(1, content.count(b"external"))


def test_a_byte_order_mark_between_joined_books_is_skipped(tmp_path: Path) -> None:
    written(tmp_path, "book.ndjson", f"\ufeff{LINE}\n\ufeff{LINE.replace('K1', 'K2')}\n")
    shown = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (shown.returncode, "accounts 2" in shown.stdout) == (0, True)


# Joins

PLACES = "Nr;Name;Ort\nK1;Groß;Ulm\nK1;Groß;Bonn\n"
POINT = {"from": "z", "identifier": "Zähler"}


def places_with(**point: Any) -> dict[str, Any]:
    """An account with an address for each place, and a supply point for each row of the table z."""
    address = {"each": ["Ort"], "supply_address1": "Ort", "supply_points": [POINT | point]}
    return ACCOUNT | {"supply_addresses": [address]}


def test_a_row_used_for_several_parents_or_none_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, "z.csv", "Nr;Zähler\nK1;Z1\n;Z2\n")
    further = FURTHER["z"] | {"unmatched": "ignore"}
    sentence = "table z: 1 row is used more than once; the first is row 2."  # no column names the place of a meter
    assert sentence in refusal(tmp_path, PLACES, account=places_with(), files={"z": further})
    counted = importbook(*COUNT, at=tmp_path)
    assert (counted.returncode, sentence in counted.stdout) == (1, True)
    assert msgspec.json.decode((tmp_path / "m.json").read_bytes())["rows_nowhere"] == ["z"]
    pushed = importbook("push", "kunden.csv", "--mapping", "m.yaml", at=tmp_path, access=ACCESS)
    assert (pushed.returncode, "Nothing was sent" in pushed.stdout) == (1, True)
    further["repeated"] = "allow"
    file = str(tmp_path / "kunden.csv")
    (made,) = accounts(tmp_path, file, places_with(), files={"z": further})
    assert [address["supply_points"] for address in made["supply_addresses"]] == [[{"identifier": "Z1"}]] * 2
    written(tmp_path, "z.csv", "Nr;LS;Zähler\nK1;Ulm;Z1\nK1;nowhere;Z2\n")
    account = places_with(on={"LS": "Ort"})
    sentence = "table z: 1 row belongs to no account; the first is row 3."
    assert sentence in refusal(tmp_path, PLACES, account=account, files=FURTHER)
    (made,) = accounts(tmp_path, file, account, files={"z": further})
    assert [address.get("supply_points") for address in made["supply_addresses"]] == [[{"identifier": "Z1"}], None]


def test_rows_that_differ_in_a_column_read_with_and_without_each_are_an_error(tmp_path: Path) -> None:
    account: dict[str, Any] = ACCOUNT | {
        "billing_address1": "Straße",
        "supply_addresses": [{"each": ["Ort"], "supply_address1": "Straße", "supply_address4": "Ort"}],
    }
    content = "Nr;Name;Ort;Straße;Stand\nK1;Groß;Ulm;Ringweg;02.01.2024\nK1;Groß;Bonn;Am Markt;31.12.2023\n"
    sentence = "column Straße: a value is not used, in 1 account"
    assert sentence in refusal(tmp_path, content, account=account, ignore=["Stand"])
    account["billing_address1"] = {"column": "Straße", "first": "by Stand"}
    file = written(tmp_path, "kunden.csv", content)
    (made,) = accounts(tmp_path, file, account, dates="DD.MM.YYYY")
    assert made["billing_address1"] == "Am Markt"
    assert [address["supply_address1"] for address in made["supply_addresses"]] == ["Ringweg", "Am Markt"]
    same = written(tmp_path, "same.csv", content.replace("31.12.2023", "02.01.2024"))
    with pytest.raises(Differs, match="column Straße"):
        accounts(tmp_path, same, account, dates="DD.MM.YYYY")


def test_several_files_are_one_table(tmp_path: Path) -> None:
    written(tmp_path, "z.csv", "Nr;Text\nK1;a\nK2;b\n")
    files = [written(tmp_path, "a.csv", "Nr;Name\nK1;Groß\n"), written(tmp_path, "b.csv", "Name,Nr\nBöhm,K2\n,K3\n")]
    made = accounts_of(source_of(mapping_at(tmp_path, WITH_NOTES, files=FURTHER), *files))
    assert [account["external_account_number"] for account in made] == ["K1", "K2", "K3"]


def test_the_example_of_the_guide_gives_each_row_to_its_parent(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "map-tables.md").read_text()
    (example,) = re.findall(r"```yaml\n(key: .*?)```", guide, re.DOTALL)
    written(tmp_path, "m.yaml", example)
    customers = "Kundennummer;Nachname;Anrede;Geburtstag;Lieferstelle;LS Straße;Bemerkung\n"
    customers += "K1;Groß;F;1980-02-01;1;Ringweg;x\nK1;Groß;F;1980-02-01;2;Am Markt;\nK2;Böhm;H;NULL;1;Allee;\n"
    file = written(tmp_path, "kunden.csv", customers.encode("cp1252"))
    meters = "Kundennummer;LS-Nr;MaLo;MeLo;Zähler\nK1;1;M1;E1;Z1\nK1;2;M2;E2;Z2\nK1;2;M2;E2;Z3\nK2;1;M3;E3;Z4\n"
    written(tmp_path, "zaehler.csv", meters)
    readings = [("K1", "Z1", 1), ("K1", "Z2", 2), ("K1", "Z3", 3), ("K1", "Z3", 4), ("K2", "Z4", 5)]
    rows = "".join(f"{key},{meter},{value}\n" for key, meter, value in readings)
    written(tmp_path, "ablesungen.csv", f"Kundennummer,Zähler,Stand\n{rows}")
    made = accounts_of(source_of(tmp_path / "m.yaml", file, supplier="NORDWIND"))
    found = [
        (account["external_account_number"], address["supply_address1"], meter["meter_number"], reading["value"])
        for account in made
        for address in account["supply_addresses"]
        for point in address["supply_points"]
        for location in point["melos"]
        for meter in location["meters"]
        for register in meter["registers"]
        for reading in register["readings"]
    ]
    assert found == [
        ("K1", "Ringweg", "Z1", "1"),
        ("K1", "Am Markt", "Z2", "2"),
        ("K1", "Am Markt", "Z3", "3"),
        ("K1", "Am Markt", "Z3", "4"),
        ("K2", "Allee", "Z4", "5"),
    ]
    assert [account["billing_address1"] for account in made] == ["Ringweg", "Allee"]
    assert [account["customers"][0]["title"] for account in made] == ["Frau", "Herr"]
    assert {(account["import_supplier"], account["sales_channel"]) for account in made} == {("NORDWIND", "DIRECT")}


IN_ITEMS = "each, from, on, where, first and last must stand in an item of a list"
OPTIONS = "which takes decimals, default, first, format, from, last, on, table, where."
NAMES = "among account, key, where, dates, decimals, empty, texts, tables, values, files, ignore, source."
SOURCE_NAMES = "The names there must be among delimiter, encoding, sheets, ignore_sheets."


@pytest.mark.parametrize(
    ("account", "options", "sentence"),
    [
        ({"notes": [{"from": "z", "body": "x"}]}, {}, "notes.from: z must be the name of a table in `files`"),
        ({"notes": [{"on": "x", "body": "x"}]}, {}, "notes.on: must stand beside `from`"),
        ({"notes": {"each": "x", "body": "x"}}, {}, f"notes: {IN_ITEMS}"),
        ({"each": "x"}, {}, f"account: {IN_ITEMS}"),
        ({"transfer_balance": {"column": "x", "fromat": "y"}}, {}, f"fromat must not stand beside column, {OPTIONS}"),
        ({"sales_channel": {"column": "x", "format": "DD.MM.YYYY"}}, {}, "format must be YYYY-MM-DD for a text"),
        ({"transfer_balance": {"column": "x", "table": "y"}}, {}, "y must be the name of a table in `tables`"),
        ({"transfer_balance": {"constant": "1,5"}}, {}, "the constant '1,5' must be written like 1234.56"),
        ({"transfer_balance": {"column": "x", "first": "S"}}, {}, "first must be written like `first: by COLUMN`"),
        *(
            ({}, {"decimals": form}, "decimals must be written like 1.234,56")
            for form in ("deutsch", "1.234.56", "1,234,56", "")
        ),
        ({"external_account_number": {"constant": "1"}}, {}, "must name the column of the account's number"),
        ({}, {"files": {"": {"path": "z.csv", "key": "Nr"}}}, "has a further table without a name"),
        ({}, {"dates": "DD.MM."}, "dates must be written like DD.MM.YYYY"),
        ({}, {"emtpy": ["x"]}, NAMES),
        ({}, {"source": {"encodign": "cp1252"}}, SOURCE_NAMES),
        ({}, {"files": {"z": {"path": "z.csv", "kye": "Nr"}}}, "among path, key, where, unmatched, repeated, source."),
        ({}, {"files": {"z": {"path": "z", "key": "Nr", "source": {"x": "y"}}}}, SOURCE_NAMES),
    ],
)
def test_a_mapping_with_a_mistake_is_refused(
    tmp_path: Path, account: dict[str, Any], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(MappingError, match=re.escape(sentence)):
        read_mapping(mapping_at(tmp_path, ACCOUNT | account, **options))


def test_a_mapping_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("key: a\nkey: b\naccount: {external_account_number: a}\n")
    with pytest.raises(MappingError, match="has a name twice"):
        read_mapping(tmp_path / "m.yaml")


# The second count


def test_a_workbook_that_was_counted_otherwise_gives_no_manifest(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "Groß"], ["K2", "Böhm"]]))
    row = (b'<row r="3"><c r="A3"', b'<row r="2"><c r="A2"')
    twice = with_sheet_changed(file, row, (b'<c r="B3"', b'<c r="B2"'))
    mapping_at(tmp_path, ACCOUNT)
    shown = importbook("manifest", twice, "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert (shown.returncode, "1 row was read, and 2 counted" in shown.stderr) == (1, True)
    assert not (tmp_path / "m.json").exists()
    pushed = importbook("push", twice, "--mapping", "m.yaml", at=tmp_path, access=ACCESS)
    assert (pushed.returncode, "nothing is certified" in pushed.stdout) == (1, True)


@pytest.mark.parametrize("reader", [Delimited, Sheet, Columnar])
def test_cells_that_a_reader_loses_are_noticed_by_the_second_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: type[Delimited | Sheet | Columnar]
) -> None:
    """The reader is broken on purpose."""
    rows = [["Nr", "Name"], ["K1", "Groß"], ["K2", "Böhm"]]
    if reader is Delimited:
        file = written(tmp_path, "kunden.csv", "".join(";".join(row) + "\n" for row in rows))
    elif reader is Sheet:
        file = workbook(tmp_path, ("Kunden", rows))
    else:
        file = str(tmp_path / "kunden.parquet")
        parquet.write_table(pyarrow.table({"Nr": ["K1", "K2"], "Name": ["Groß", "Böhm"]}), file)
    whole = reader.rows
    monkeypatch.setattr(reader, "rows", lambda self: ((number, [*cells[:-1], None]) for number, cells in whole(self)))
    mapping_at(tmp_path, ACCOUNT)
    ended = importbook("manifest", file, "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert (ended.returncode, (tmp_path / "m.json").exists()) == (1, False)
    assert "column Name: 0 filled cells were read, and 2 counted" in ended.stderr


def test_cells_that_get_into_no_account_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is broken on purpose: it loses the last of several rows."""
    fill = Engine.fill
    monkeypatch.setattr(Engine, "fill", lambda self, name, kinds, rows: fill(self, name, kinds, iter([*rows][:-1])))
    written(tmp_path, "kunden.csv", "Nr;Name\nK1;Groß\nK2;Böhm\n")
    mapping_at(tmp_path, ACCOUNT)
    ended = importbook(*COUNT, at=tmp_path)
    assert (ended.returncode, (tmp_path / "m.json").exists()) == (1, False)
    assert "Nr: 2 filled cells were counted, 1 used and 0 ignored. Nothing is certified." in ended.stderr


@pytest.mark.parametrize("content", ["Nr;Name;Saldo\nK1;x;1,50\nK2;y;12.50\n", "Nr;Name;Saldo\nK1;x;1,50\n;y;2,50\n"])
def test_a_book_with_a_line_that_is_no_account_does_not_balance(tmp_path: Path, content: str) -> None:
    written(tmp_path, "kunden.csv", content)
    mapping_at(tmp_path, WITH_BALANCE, decimals="1.234,56")
    assert importbook(*COUNT, at=tmp_path).returncode == 1
    counted = msgspec.json.decode((tmp_path / "m.json").read_bytes())
    platform = {name: value for name, value in counted.items() if not name.endswith("_nowhere")}
    assert [found.name for found in compared(counted, platform).differences] == ["line 3 of kunden.csv"]


def test_lines_that_a_reader_loses_are_noticed_by_the_second_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is broken on purpose."""
    (tmp_path / "book.ndjson").write_bytes(b"".join(entry.body + b"\n" for entry in book("NORDWIND", 3)))
    whole = Source._numbered
    monkeypatch.setattr(Source, "_numbered", lambda self, stream: itertools.islice(whole(self, stream), 2))
    ended = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (ended.returncode, (tmp_path / "m.json").exists()) == (1, False)
    assert "2 lines were read, and 3 counted. Nothing is certified." in ended.stderr


@pytest.mark.parametrize("name", ["ledgers", "transfer_balance", "customers"])
def test_values_that_a_reader_loses_are_noticed_by_the_second_count(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is broken on purpose: it loses the last of several."""

    read: Any = manifest._decode_bare

    def losing(content: bytes) -> Any:
        account = read(content)
        if account.external_account_number == "NO-010000002":
            value = getattr(account, name)
            setattr(account, name, value[:-1] if isinstance(value, list) else None)
        return account

    (tmp_path / "book.ndjson").write_bytes(b"".join(entry.body + b"\n" for entry in book("NORDWIND", 3)))
    assert importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path).returncode == 0
    (tmp_path / "m.json").unlink()
    monkeypatch.setattr(manifest, "_decode_bare", losing)
    ended = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (ended.returncode, (tmp_path / "m.json").exists()) == (1, False)
    assert f"{name}: 2 values were read, and 3 counted. Nothing is certified." in ended.stderr


@given(
    st.lists(st.sampled_from([b'{"a":1}', b"", b" \t", b"\xef\xbb\xbf", b'\xef\xbb\xbf{"b":2}', b"x" * 50])),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.integers(1, 40),
)
def test_the_second_count_is_right_wherever_the_bytes_are_cut(
    written_lines: list[bytes], end: bytes, is_ended: bool, size: int
) -> None:
    content = end.join(written_lines) + (end if is_ended else b"")
    counted = _Counted(io.BytesIO(content))
    assert io.BufferedReader(counted, size).read() == content
    assert counted.lines == len(io.BytesIO(content).readlines())


@given(st.lists(st.dictionaries(st.sampled_from([*CONTRACT, "other", "a.b"]), VALUES)))
def test_two_readers_count_the_members_of_any_account_alike(some: list[dict[str, Any]]) -> None:
    counting = Counting()
    for number, account in enumerate(some):
        content = msgspec.json.encode({"payload": account} | {"x": 1} if number % 2 else account)
        with contextlib.suppress(NoAccount):
            counting.add(content)
    counting.manifest()
