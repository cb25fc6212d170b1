"""What importbook must not misread: each way in which a table can be read as something else ends in a sentence."""

import contextlib
import csv
import io
import itertools
import random
import re
import shutil
import subprocess
import tempfile
import zipfile
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest
import xlsxwriter
import yaml
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook
from pyarrow import parquet

from importledger_client import manifest
from importledger_client.book import book
from importledger_client.comparing import compared
from importledger_client.contract import ACCOUNT as CONTRACT
from importledger_client.manifest import Counting, NoAccount, Recount, decoded
from importledger_client.mapped_source import MappedSource
from importledger_client.mapping import MappingError, read_mapping, text_columns
from importledger_client.sources import Differs, Line, Source, Unreadable, _Counted
from importledger_client.tables.reading import Table
from importledger_client.tables.table import TableSource
from importledger_client.values import converted
from tests.support.importbook import importbook

ACCOUNT: dict[str, Any] = {"external_account_number": "Nr", "customers": [{"family_name": "Name"}]}
WITH_BALANCE = ACCOUNT | {"transfer_balance": "Saldo"}
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
ACCESS = {"IMPORTLEDGER_URL": "http://127.0.0.1:9", "IMPORTLEDGER_KEY": "ilk_x"}
"""A service that is not there: what is refused here never asks it."""


def written(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def mapped(folder: Path, account: dict[str, Any] = ACCOUNT, **options: Any) -> Path:
    path = folder / "m.yaml"
    path.write_text(yaml.safe_dump({"account": account, **options}, allow_unicode=True), encoding="utf-8")
    return path


def lines(folder: Path, file: str, account: dict[str, Any] = ACCOUNT, **options: Any) -> list[Line]:
    """The lines as `push` would send them."""
    path = mapped(folder, account, **options)
    return list(MappedSource([file], read_mapping(path), path, None, is_strict=True).lines())


def accounts(folder: Path, file: str, account: dict[str, Any] = ACCOUNT, **options: Any) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line.content) for line in lines(folder, file, account, **options)]


def refusal(folder: Path, content: str | bytes, **options: Any) -> str:
    """Why a CSV file with this content cannot be read."""
    file = written(folder, "kunden.csv", content)
    with pytest.raises(Unreadable) as error:
        lines(folder, file, **options)
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


def with_sheet_changed(file: str, old: bytes, new: bytes) -> str:
    """The workbook with this change in the XML of its first sheet."""
    changed = file.replace(".xlsx", "-changed.xlsx")
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("sheet1.xml"):
                assert old in content
                content = content.replace(old, new)
            target.writestr(name, content)
    return changed


# Numbers


@pytest.mark.parametrize("cell", ["12.50", "1.5", "1234.5", "1.2345", "12.345.67", "1.234.5", "0.123", "1 2", "1,2,3"])
def test_a_group_separator_stands_only_before_exactly_three_digits(tmp_path: Path, cell: str) -> None:
    file = written(tmp_path, "kunden.csv", f"Nr;Name;Saldo\nK1;Groß;1.234,50\nK2;Böhm;{cell}\n")
    first, second = lines(tmp_path, file, WITH_BALANCE, decimals="1.234,56")
    assert msgspec.json.decode(first.content)["transfer_balance"] == "1234.50"
    (error,) = second.errors
    assert (error.attr, error.code) == ("transfer_balance", "invalid")
    assert error.detail == "Row 3, column Saldo: the value must be written like 1.234,56."
    assert msgspec.json.decode(second.content)["transfer_balance"] == f"UNREADABLE: {cell}"  # no service takes it


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
def test_numbers_are_read_as_the_mapping_says(form: str, cell: str, number: str) -> None:
    assert converted(cell, "decimal", decimals=form) == number


@pytest.mark.parametrize("form", ["deutsch", "1.234.56", "1,234,56", ""])
def test_a_form_of_numbers_that_is_none_is_refused(tmp_path: Path, form: str) -> None:
    with pytest.raises(MappingError, match=r"decimals must be written like 1\.234,56"):
        read_mapping(mapped(tmp_path, decimals=form))


def test_a_boolean_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="True"):
        converted(True, "decimal")


# Encodings


def test_one_invalid_byte_in_utf_8_is_named_by_line_and_byte(tmp_path: Path) -> None:
    said = refusal(tmp_path, "Nr;Name\nK1;Köln\n".encode() + b"K2;Ren\xe9\n")
    assert "kunden.csv, line 3, byte 7 is 0xE9, which is not UTF-8." in said
    assert "source: {encoding: …}" in said


def test_an_encoding_is_chosen_by_all_of_the_file(tmp_path: Path) -> None:
    many = "".join(f"K{number};Muster\n" for number in range(20_000))  # more than any sample
    assert "line 20003, byte 6 is 0xF6" in refusal(tmp_path, f"Nr;Name\nK;Köln\n{many}".encode() + b"K-x;M\xf6\xf6\n")
    (first, *_, last) = accounts(
        tmp_path, written(tmp_path, "k.csv", f"Nr;Name\nK;Groß\n{many}L;Böhm\n".encode("cp1252"))
    )
    assert (first["customers"][0]["family_name"], last["customers"][0]["family_name"]) == ("Groß", "Böhm")


@pytest.mark.parametrize("encoding", ["cp850", "mac_roman", "iso8859-15"])
def test_an_encoding_that_cannot_be_found_out_is_asked_for(tmp_path: Path, encoding: str) -> None:
    content = "Nr;Name\nK1;Müller\nK2;Größer\nK3;Weiß\nK4;Straßen€er\n"
    content = content if encoding == "iso8859-15" else content.replace("€", "")
    assert "source: {encoding: …}" in refusal(tmp_path, content.encode(encoding))
    file = written(tmp_path, "kunden.csv", content.encode(encoding))
    named = accounts(tmp_path, file, source={"encoding": encoding})
    assert named[0]["customers"][0]["family_name"] == "Müller"


@pytest.mark.parametrize("encoding", ["cp850", "cp437", "mac_roman"])
@pytest.mark.parametrize("name", ["Bär", "Käthe", "Hülya"])
def test_an_umlaut_of_dos_or_a_mac_after_a_capital_letter_is_not_misread(
    tmp_path: Path, encoding: str, name: str
) -> None:
    assert "which is not UTF-8 or Windows-1252" in refusal(tmp_path, f"Nr;Name\nK1;{name}\n".encode(encoding))


@pytest.mark.parametrize("name", ["D’Angelo", "Šimic", "Köln", "MÜLLER", "Müller–Groß"])
def test_names_in_windows_1252_need_no_encoding_in_the_mapping(tmp_path: Path, name: str) -> None:
    file = written(tmp_path, "kunden.csv", f"Nr;Name\nK1;{name}\nK2;Groß\n".encode("cp1252"))
    assert accounts(tmp_path, file)[0]["customers"][0]["family_name"] == name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_the_encoding_is_printed(tmp_path: Path, encoding: str) -> None:
    written(tmp_path, "kunden.csv", "Nr;Name\nK1;Böhm\n".encode(encoding))
    mapped(tmp_path)
    shown = importbook("manifest", "kunden.csv", "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert shown.returncode == 0
    assert f"kunden.csv: CSV · {encoding.removesuffix('-sig')} · delimiter ;" in shown.stdout
    assert "kunden.csv: 1 rows, 2 filled cells" in shown.stdout


def test_an_encoding_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "'klingon' must be the name of an encoding" in refusal(tmp_path, "Nr;Name\n", source={"encoding": "klingon"})
    assert "must be the name of an encoding" in refusal(tmp_path, "Nr;Name\n", source={"encoding": "base64"})


def test_a_wrong_encoding_in_the_mapping_is_named_by_line_and_byte(tmp_path: Path) -> None:
    said = refusal(tmp_path, "Nr;Name\nK1;Groß\n".encode("cp1252"), source={"encoding": "utf-8"})
    assert "line 2, byte 7 is 0xDF, which is not utf-8" in said


def test_a_byte_order_mark_inside_a_table_is_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, "\ufeffNr;Name\nK1;Groß\n\ufeffNr;Name\nK2;Böhm\n")
    assert "line 3 has a byte order mark" in said
    assert "import each on its own" in said


def test_utf_16_without_a_mark_is_named(tmp_path: Path) -> None:
    assert "NUL byte: is it UTF-16?" in refusal(tmp_path, "Nr;Name\nK1;Muster\n".encode("utf-16-le"))


# Quotes, columns and rows of CSV


def test_a_quote_that_is_never_closed_is_named_by_its_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, 'Nr;Name\nK1;"a\nb"\nK2;"Zum Löwen\nK3;Böhm\n').endswith(
        "the quote opened in line 4 is not closed."
    )


@pytest.mark.parametrize(
    "row",
    [
        r'K1;"Müller \"Bau\" GmbH"',
        r"K1;Müller \"Bau\" GmbH",
        'K1;"Zum" Löwen',
        'K1; "Zum Löwen"',
        'K1;"a" ',
        r'K1;"\"B"',
    ],
)
def test_quotes_that_are_not_doubled_are_refused(tmp_path: Path, row: str) -> None:
    assert "row 2" in refusal(tmp_path, f"Nr;Name\n{row}\n")


def test_rows_between_two_stray_quotes_are_named(tmp_path: Path) -> None:
    rows = 'K1;Groß;Ulm\nK2;"Zum Löwen;Ulm\nK3;Böhm;Ulm\nK4;Zum Adler";Ulm\n'
    account = ACCOUNT | {"billing_address4": "Ort"}
    said = refusal(tmp_path, f"Nr;Name;Ort\n{rows}", account=account)
    assert "row 3 has whole rows inside a cell of column Name: is a quote missing?" in said
    file = written(tmp_path, "notes.csv", 'Nr;Name;Ort\nK1;"a;\nb\n; c";Ulm\n')
    assert accounts(tmp_path, file, account)[0]["customers"][0]["family_name"] == "a;\nb\n; c"


def test_a_quote_inside_of_a_cell_is_a_quote(tmp_path: Path) -> None:
    file = written(tmp_path, "kunden.csv", 'Nr;Name\nK1;Zum "Löwen"\nK2;"Zum ""Adler"""\n')
    assert [account["customers"][0]["family_name"] for account in accounts(tmp_path, file)] == [
        'Zum "Löwen"',
        'Zum "Adler"',
    ]


def test_two_columns_with_one_name_are_named(tmp_path: Path) -> None:
    content = "Nr;Name;Ort;Ort\nK1;Groß;Köln;Bonn\n"
    assert "has 2 columns with the name Ort" in refusal(tmp_path, content)
    assert "has 2 columns with the name Name" in refusal(tmp_path, "Nr;Name;Name\nK1;a;b\n", ignore=["Name"])
    (account,) = accounts(tmp_path, written(tmp_path, "kunden.csv", content), ignore=["Ort"])
    assert account["customers"] == [{"family_name": "Groß"}]


def test_a_column_without_a_name_is_named(tmp_path: Path) -> None:
    content = "Nr;Name;\nK1;Groß;\nK2;Böhm;x\n"
    assert "row 3: cell 3 stands below no column name" in refusal(tmp_path, content)
    assert len(accounts(tmp_path, written(tmp_path, "kunden.csv", content), ignore=[""])) == 2
    assert len(accounts(tmp_path, written(tmp_path, "kunden.csv", "Nr;Name;\nK1;Groß;\n"))) == 1


def test_a_mapped_column_that_the_file_lacks_is_named(tmp_path: Path) -> None:
    assert "There is no column Name in the table; there are Nr, Nachname." in refusal(tmp_path, "Nr;Nachname\nK1;x\n")
    written(tmp_path, "z.csv", "Nr;Stand\nK1;5\n")
    account = ACCOUNT | {"notes": [{"from": "z", "body": "Zähler"}]}
    said = refusal(tmp_path, "Nr;Name\nK1;x\n", account=account, files={"z": {"path": "z.csv", "key": "Nr"}})
    assert "There is no column Zähler in the table z; there are Nr, Stand." in said


@pytest.mark.parametrize(("row", "cells"), [("K2;Böhm;Bau;Köln", 4), ("K2;Böhm", 2), ("K2", 1), ("   ", 1)])
def test_a_row_longer_or_shorter_than_the_header_is_named(tmp_path: Path, row: str, cells: int) -> None:
    said = refusal(tmp_path, f"Nr;Name;Ort\nK1;Groß;Ulm\n{row}\n", ignore=["Ort"])
    assert said.endswith(f"kunden.csv, row 3 must have 3 cells like the header; it has {cells}.")


def test_rows_without_any_value_are_skipped(tmp_path: Path) -> None:
    assert len(accounts(tmp_path, written(tmp_path, "kunden.csv", "Nr;Name\n\nK1;Groß\n;\n\nK2;Böhm\n\n"))) == 2


def test_a_lone_carriage_return_splits_no_row(tmp_path: Path) -> None:
    assert "row 2 has a carriage return (CR) in a cell" in refusal(tmp_path, "Nr;Name\r\nK1;Gro\rß\r\n")
    assert len(accounts(tmp_path, written(tmp_path, "mac.csv", "Nr;Name\rK1;Groß\rK2;Böhm\r"))) == 2
    file = written(tmp_path, "kunden.csv", 'Nr;Name\nK1;"Gro\rß"\n')
    assert accounts(tmp_path, file)[0]["customers"][0]["family_name"] == "Gro\rß"


@pytest.mark.parametrize("line", ["sep=|", '"sep=|"', "SEP=|\r"])
def test_a_first_line_sep_names_the_delimiter_and_is_no_header(tmp_path: Path, line: str) -> None:
    file = written(tmp_path, "kunden.csv", f"{line}\nNr|Name\nK1|a;b;c\n")
    assert accounts(tmp_path, file)[0]["customers"][0]["family_name"] == "a;b;c"


def test_a_file_without_columns_is_refused(tmp_path: Path) -> None:
    for content in ("", "\n", ";;\n"):
        assert "must have the names of its columns" in refusal(tmp_path, content)


def test_delimiter_and_encoding_can_be_said_for_every_table(tmp_path: Path) -> None:
    written(tmp_path, "z.csv", "Nr#Text\nK1#Böhm, 5\n".encode("cp850"))
    further = {"path": "z.csv", "key": "Nr", "source": {"delimiter": "#", "encoding": "cp850"}}
    account = ACCOUNT | {"notes": [{"from": "z", "body": "Text"}]}
    file = written(tmp_path, "kunden.csv", "Nr!Name\nK1!Groß\n".encode("mac_roman"))
    source = {"delimiter": "!", "encoding": "mac_roman"}
    (made,) = accounts(tmp_path, file, account, files={"z": further}, source=source)
    assert (made["customers"][0]["family_name"], made["notes"][0]["body"]) == ("Groß", "Böhm, 5")


# Words for no value, keys


@pytest.mark.parametrize("word", ["NULL", "(null)", "\\N", "#NV", "#N/A", "NaN", "<NA>", "#WERT!"])
def test_a_word_that_may_mean_no_value_is_asked_about(tmp_path: Path, word: str) -> None:
    content = f"Nr;Name\nK1;Groß\nK2;{word}\n"
    said = refusal(tmp_path, content)
    assert f"column Name: row 3 has {word}, which may mean no value: list it in `empty` of the mapping" in said
    file = written(tmp_path, "kunden.csv", content)
    assert "customers" not in accounts(tmp_path, file, empty=[word])[1]
    assert accounts(tmp_path, file, texts=[word])[1]["customers"] == [{"family_name": word}]
    with pytest.raises(Differs, match="which may mean no value"):
        accounts(tmp_path, file, empty=["another word"])


def test_an_excel_text_formula_is_its_text(tmp_path: Path) -> None:
    file = written(tmp_path, "kunden.csv", 'Nr;Name\n="0001";"=""0002"""\n')
    (account,) = accounts(tmp_path, file)
    assert (account["external_account_number"], account["customers"][0]["family_name"]) == ("0001", "0002")


def test_blanks_around_a_key_make_no_other_account(tmp_path: Path) -> None:
    account = ACCOUNT | {"notes": [{"each": ["Notiz"], "body": "Notiz"}]}
    file = written(tmp_path, "kunden.csv", "Nr;Name;Notiz\nK1;Groß;a\nK1 ;Groß;a \n\u00a0K1;Groß;b\n")
    (made,) = accounts(tmp_path, file, account)
    assert [note["body"] for note in made["notes"]] == ["a", "b"]


def test_every_row_without_a_key_is_named(tmp_path: Path) -> None:
    written(tmp_path, "kunden.csv", "Nr;Name\nK1;Groß\n;Böhm\n ;Weiß\n")
    path = mapped(tmp_path)
    found = lines(tmp_path, str(tmp_path / "kunden.csv"))
    assert [error.detail for line in found for error in line.errors] == [
        "Row 3 must have a value in column Nr.",
        "Row 4 must have a value in column Nr.",
    ]
    checked = importbook("map", "check", path.name, "kunden.csv", at=tmp_path)
    assert (checked.returncode, "2 rows must have a value in column Nr." in checked.stdout) == (1, True)
    assert importbook("manifest", "kunden.csv", "--mapping", "m.yaml", "-o", "m.json", at=tmp_path).returncode == 1


def test_a_row_of_a_further_table_without_a_key_belongs_to_no_account(tmp_path: Path) -> None:
    written(tmp_path, "z.csv", "Nr;Text\nK1;a\n;b\n")
    account = ACCOUNT | {"notes": [{"from": "z", "body": "Text"}]}
    said = refusal(tmp_path, "Nr;Name\nK1;x\n;y\n", account=account, files={"z": {"path": "z.csv", "key": "Nr"}})
    assert "table z: 1 rows belong to no account; the first is row 3." in said


# Dates


def test_a_moment_in_utc_is_its_german_day(tmp_path: Path) -> None:
    account = ACCOUNT | {"customers": [{"family_name": "Name", "date_of_birth": "Tag"}]}
    days = {
        "2024-12-31T23:00:00Z": "2025-01-01",
        "2024-06-30T22:00:00+00:00": "2024-07-01",
        "2025-01-01T00:00:00+01:00": "2025-01-01",
        "2025-01-01": "2025-01-01",
    }
    rows = "".join(f"K{number};x;{day}\n" for number, day in enumerate(days))
    made = accounts(tmp_path, written(tmp_path, "kunden.csv", f"Nr;Name;Tag\n{rows}"), account)
    assert [one["customers"][0]["date_of_birth"] for one in made] == list(days.values())


def test_a_birth_date_with_a_year_of_two_digits_is_not_in_the_future() -> None:
    assert converted("15.03.45", "date", dates="DD.MM.YY", field="date_of_birth") == "1945-03-15"
    with pytest.raises(ValueError, match=r"15\.03\.12"):
        converted("15.03.12", "date", dates="DD.MM.YY", field="date_of_birth")
    assert converted("15.03.24", "date", dates="DD.MM.YY") == "2024-03-15"
    assert converted("15.03.1945", "date", dates="DD.MM.YYYY", field="date_of_birth") == "1945-03-15"


def test_a_birth_date_of_two_possible_centuries_asks_for_four_digits(tmp_path: Path) -> None:
    account = ACCOUNT | {"customers": [{"family_name": "Name", "date_of_birth": "Geb"}]}
    file = written(tmp_path, "kunden.csv", f"Nr;Name;Geb\nK1;x;15.03.{datetime.now(UTC):%y}\n")
    (line,) = lines(tmp_path, file, account, dates="DD.MM.YY")
    assert "a birth date must have a year of four digits" in line.errors[0].detail
    assert line.errors[0].attr == "customers.0.date_of_birth"


@pytest.mark.parametrize(
    ("form", "cell"), [("YYYY-DD-MM", "2024-01-15"), ("DDMMYYYY", "2024-W01-1"), ("DD.MM.YYYY", "1.2.24")]
)
def test_a_date_in_another_form_is_no_date(form: str, cell: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        converted(cell, "date", dates=form)
    assert converted("10121205", "date", dates="DDMMYYYY") == "1205-12-10"


# Workbooks


def test_a_wrong_dimension_hides_no_row(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "Groß"], ["K2", "Böhm"]]))
    wrong = with_sheet_changed(file, b'<dimension ref="A1:B3"/>', b'<dimension ref="A1"/>')
    assert len(accounts(tmp_path, wrong)) == 2


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
    mapped(tmp_path)
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


def test_a_sheet_of_the_same_workbook_can_be_a_further_table(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "x"]]), ("Notizen", [["Nr", "Text"], ["K1", "y"]]))
    further = {"path": "kunden.xlsx", "key": "Nr", "source": {"sheets": ["Notizen"], "ignore_sheets": ["Kunden"]}}
    account = ACCOUNT | {"notes": [{"from": "n", "body": "Text"}]}
    (made,) = accounts(tmp_path, file, account, files={"n": further}, source={"sheets": ["Kunden"]})
    assert made["notes"] == [{"body": "y"}]


def test_formulas_without_stored_values_are_named_and_refused(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name", "Saldo"], ["K1", "x", "=1+0.5"], ["K2", "y", "=1+1"]]))
    said = "cell C2 has a formula without a stored value: open the file in Excel and save it"
    with pytest.raises(Differs, match=said):
        lines(tmp_path, file, WITH_BALANCE)
    mapped(tmp_path, WITH_BALANCE)
    checked = importbook("map", "check", "m.yaml", "kunden.xlsx", at=tmp_path)
    assert (checked.returncode, said in checked.stdout, "(2 cells)" in checked.stdout) == (1, True, True)
    assert len(accounts(tmp_path, file, ignore=["Saldo"])) == 2


def test_formulas_with_stored_values_are_read(tmp_path: Path) -> None:
    file = str(tmp_path / "kunden.xlsx")
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Nr", "Name", "Saldo"])
        sheet.write_row(1, 0, ["K1", "x"])
        sheet.write_formula(1, 2, "=1+0.5", None, 1.5)
    assert accounts(tmp_path, file, WITH_BALANCE)[0]["transfer_balance"] == "1.5"


def test_a_cell_with_an_error_is_named(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name", "Saldo"], ["K1", "x", "#N/A"]]))
    with pytest.raises(Differs, match="cell C2 has the error #N/A: fix it, or list it in `empty`"):
        lines(tmp_path, file, WITH_BALANCE)
    assert "transfer_balance" not in accounts(tmp_path, file, WITH_BALANCE, empty=["#N/A"])[0]


def test_a_number_that_excel_has_rounded_is_named(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], [1234567890123456789, "x"]]))
    with pytest.raises(Differs, match="row 2 has a number of more than 15 digits"):
        lines(tmp_path, file)


def test_leading_zeros_that_only_excel_shows_are_named(tmp_path: Path) -> None:
    file = str(tmp_path / "kunden.xlsx")
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Nr", "Name"])
        sheet.write_row(1, 0, [10115, "x"], book.add_format({"num_format": "00000"}))
        sheet.write_row(2, 0, [1067, "y"], book.add_format({"num_format": "00000"}))
    with pytest.raises(Differs, match="cell A3 has a number that Excel shows with leading zeros"):
        lines(tmp_path, file)


@pytest.mark.parametrize("cell", [date(2024, 2, 1), datetime.fromisoformat("2024-02-01T08:00:00"), time(3, 10)])
def test_a_text_that_excel_made_a_date_is_named_unless_the_mapping_says_it(tmp_path: Path, cell: Any) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "Groß"], ["K2", cell]]))
    with pytest.raises(Differs, match=r"column Name: .*row 3 has the date .*family_name is a text") as refused:
        lines(tmp_path, file)
    assert "Format the column as text and type its values again" in str(refused.value)
    counted = importbook("manifest", file, "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert (counted.returncode, "next:  importbook map check m.yaml" in counted.stdout) == (1, True)
    said = ACCOUNT | {"customers": [{"family_name": {"column": "Name", "format": "YYYY-MM-DD"}}]}
    assert accounts(tmp_path, file, said)[1]["customers"] == [
        {"family_name": cell.isoformat().removesuffix("T00:00:00")}
    ]
    for field in ("date_of_birth", "given_name"):
        birth = {"external_account_number": "Nr", "customers": [{"family_name": "Nr", field: "Name"}]}
        texts = list(text_columns(birth))
        assert (("", "Name", f"customers.{field}") in texts) is (field == "given_name")


@pytest.mark.parametrize("cell", ["5,12387E+10", "5.1E+10", "-1,2E+15"])
def test_a_long_number_that_excel_has_shortened_in_csv_is_named(tmp_path: Path, cell: str) -> None:
    file = written(tmp_path, "kunden.csv", f"Nr;Name\nK1;x\nK2;{cell}\n")
    with pytest.raises(
        Differs, match=f"column Name: row 3 has {re.escape(cell)}, which Excel writes for a long number"
    ):
        lines(tmp_path, file)
    assert len(lines(tmp_path, file, texts=[cell])) == 2
    assert len(lines(tmp_path, written(tmp_path, "kunden.csv", "Nr;Name\nK1;1E10\nK2;5,1E\n"))) == 2


def test_a_row_longer_than_the_header_of_a_sheet_is_named(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "x", "y"]]))
    with pytest.raises(Unreadable, match="row 2: cell 3 stands below no column name"):
        lines(tmp_path, file)


# Parquet


def test_nan_and_infinity_are_no_numbers(tmp_path: Path) -> None:
    file = str(tmp_path / "kunden.parquet")
    table = pyarrow.table({"Nr": ["K1", "K2"], "Name": ["x", "y"], "Saldo": [float("nan"), 1.5]})
    parquet.write_table(table, file)
    with pytest.raises(Differs, match="column Saldo: row 2 has NaN, which may mean no value"):
        lines(tmp_path, file, WITH_BALANCE)
    first, second = accounts(tmp_path, file, WITH_BALANCE, empty=["NaN"])
    assert ("transfer_balance" in first, second["transfer_balance"]) == (False, "1.5")
    parquet.write_table(table.set_column(2, "Saldo", [[float("inf"), 1.5]]), file)
    with pytest.raises(Differs, match="has Infinity"):
        lines(tmp_path, file, WITH_BALANCE)


def test_a_float32_is_written_in_its_shortest_form(tmp_path: Path) -> None:
    file = str(tmp_path / "kunden.parquet")
    values = pyarrow.array([0.1, 1234.56, 16777216.0, -7.7], pyarrow.float32())
    parquet.write_table(pyarrow.table({"Nr": ["a", "b", "c", "d"], "Name": ["x"] * 4, "Saldo": values}), file)
    made = accounts(tmp_path, file, WITH_BALANCE)
    assert [account["transfer_balance"] for account in made] == ["0.1", "1234.56", "16777216", "-7.7"]


def test_bytes_in_parquet_are_text(tmp_path: Path) -> None:
    file = str(tmp_path / "kunden.parquet")
    parquet.write_table(pyarrow.table({"Nr": ["K1"], "Name": [b"Gro\xc3\x9f"]}), file)
    assert accounts(tmp_path, file)[0]["customers"][0]["family_name"] == "Groß"
    parquet.write_table(pyarrow.table({"Nr": ["K1"], "Name": [b"Gro\xdf"]}), file)
    with pytest.raises(Unreadable, match="row 2, column Name must be text in UTF-8"):
        lines(tmp_path, file)


def test_nested_columns_are_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "kunden.parquet")
    parquet.write_table(pyarrow.table({"Nr": ["K1"], "Name": [["a", "b"]]}), file)
    with pytest.raises(Unreadable, match="the column Name is a list"):
        lines(tmp_path, file)


# Files that are something else


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("kunden.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Excel workbook (.xls), or has a password"),
        ("kunden.xls", b"<html><table><tr><td>Nr</td></tr></table>", "is an HTML or XML page, not a workbook"),
        ("kunden.xlsx", b"Nr;Name\n", "is not a workbook: if it is text, its name must end with .csv"),
        ("kunden.xlsx", b"PK\x03\x04 broken", "cannot be read as XLSX"),
        ("kunden.csv", b"PK\x03\x04\x14\0", "is a workbook or a ZIP archive, not CSV"),
        ("kunden.csv", b"<!DOCTYPE html>", "is an HTML or XML page, not CSV"),
        ("kunden.parquet", b"Nr;Name\n", "is not a Parquet file"),
        ("kunden.parquet", b"PAR1 broken PAR1", "cannot be read as Parquet"),
        ("kunden.csv.gz", b"\x1f\x8b\x08\0broken", "is damaged or cut off"),
    ],
)
def test_a_table_that_is_something_else_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    written(tmp_path, name, content)
    mapped(tmp_path)
    for words in (["map", "check", "m.yaml", name], ["map", "init", name]):
        shown = importbook(*words, at=tmp_path)
        assert shown.returncode == 2
        assert f"{name} {said}" in shown.stderr
        assert shown.stderr.count("\n") == 1


LINE = '{"external_account_number":"K1"}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"[{LINE}]".encode(), "is one JSON array."),
        (f"\ufeff[\n{LINE},\n{LINE}\n]".encode(), "is one JSON array."),
        (b'{\n  "external_account_number": "K1"\n}\n', "has an account on several lines."),
        (b'{"customers": [\n  {}\n]}', "has an account on several lines."),
        (LINE.encode("utf-16"), "is UTF-16: it must be UTF-8."),
        (LINE.encode("utf-16-le"), "is UTF-16: it must be UTF-8."),
        (b"PK\x03\x04", "is a binary file, not NDJSON"),
        (b"<html>", "is an HTML or XML page"),
    ],
)
def test_a_book_that_is_not_ndjson_is_named_in_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    written(tmp_path, "book.ndjson", content)
    shown = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert f"book.ndjson {said}" in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert not (tmp_path / "m.json").exists()


def test_the_command_that_is_named_for_a_json_array_works(tmp_path: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    file = written(tmp_path, "book.json", f"[{LINE},\n {LINE}]")
    made = subprocess.run(["jq", "-c", ".[]", file], capture_output=True, check=True, text=True)
    assert made.stdout == f"{LINE}\n{LINE}\n"


def test_a_byte_order_mark_between_joined_books_is_skipped(tmp_path: Path) -> None:
    written(tmp_path, "book.ndjson", f"\ufeff{LINE}\n\ufeff{LINE.replace('K1', 'K2')}\n")
    shown = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (shown.returncode, "accounts 2" in shown.stdout) == (0, True)


# Joins


def book_of_three(folder: Path, meters: int, readings: int) -> None:
    """Customers with several places, meters of places, readings of meters, in three files."""
    chance = random.Random(388)
    places = [(f"K{number % 101}", f"L{number}") for number in range(150)]
    owned = [(*chance.choice(places), f"Z{number}") for number in range(meters)]
    read = [(*chance.choice(owned), str(number)) for number in range(readings)]
    rows = {
        "kunden.csv": [("Nr", "Name", "Lieferstelle"), *((key, f"Name {key}", place) for key, place in places)],
        "zaehler.csv": [("Nr", "LS-Nr", "Zähler"), *owned],
        "stand.csv": [("Nr", "Zähler", "Stand"), *((key, meter, value) for key, _, meter, value in read)],
    }
    for name, content in rows.items():
        text = io.StringIO()
        csv.writer(text, delimiter=";").writerows(content)
        written(folder, name, text.getvalue())


def three_tables(**meter: Any) -> dict[str, Any]:
    readings = {"from": "stand", "value": "Stand"}
    meters = {
        "from": "zaehler",
        **meter,
        "each": ["Zähler"],
        "meter_number": "Zähler",
        "registers": [{"obis_code": {"constant": "1-1:1.8.0"}, "readings": [readings]}],
    }
    address = {
        "each": ["Lieferstelle"],
        "supply_address1": "Lieferstelle",
        "supply_points": [{"melos": [{"meters": [meters]}]}],
    }
    return {
        "key": "Nr",
        "files": {"zaehler": {"path": "zaehler.csv", "key": "Nr"}, "stand": {"path": "stand.csv", "key": "Nr"}},
        "account": ACCOUNT | {"supply_addresses": [address]},
    }


def test_rows_of_a_further_table_join_their_parent(tmp_path: Path) -> None:
    book_of_three(tmp_path, 388, 2_328)
    mapped(tmp_path, **three_tables(on={"LS-Nr": "Lieferstelle"}))
    counted = importbook("manifest", "kunden.csv", "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert counted.returncode == 0, counted.stdout
    said = msgspec.json.decode((tmp_path / "m.json").read_bytes())
    assert (said["accounts"], said["meters"], said["readings"]) == (101, 388, 2_328)


few = st.sampled_from(["", "a", "b", "c"])


@given(st.lists(st.tuples(few, few), min_size=1, max_size=6), st.lists(st.tuples(few, few), max_size=8))
def test_each_row_of_a_further_table_is_in_one_place_or_named(
    places: list[tuple[str, str]], meters: list[tuple[str, str]]
) -> None:
    account = {
        "external_account_number": "Nr",
        "supply_addresses": [
            {"each": ["Ort"], "supply_address1": "Ort", "supply_points": [{"from": "z", "identifier": "Zähler"}]}
        ],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = written(folder, "kunden.csv", "Nr;Ort;x\n" + "".join(f"{key};{place};x\n" for key, place in places))
        rows = "".join(f"{key};{place};Z{number}\n" for number, (key, place) in enumerate(meters))
        written(folder, "z.csv", f"Nr;Ort;Zähler\n{rows}")
        path = mapped(folder, account, ignore=["x"], files={"z": {"path": "z.csv", "key": "Nr"}})
        source = MappedSource([file], read_mapping(path), path, None)
        made = [msgspec.json.decode(line.content) for line in source.lines() if line.content]
        assert source.mapped is not None
        losses = source.mapped.losses
    found = [
        (account["external_account_number"], address["supply_address1"], point["identifier"])
        for account in made
        for address in account.get("supply_addresses", ())
        for point in address.get("supply_points", ())
    ]
    known = {(key, place) for key, place in places if key and place}
    expected = [(key, place, f"Z{number}") for number, (key, place) in enumerate(meters) if (key, place) in known]
    assert sorted(found) == sorted(expected)
    assert losses.repeated == {}
    assert (losses.rows["z"].rows if "z" in losses.rows else 0) == len(meters) - len(expected)


def test_a_row_used_for_several_parents_is_an_error(tmp_path: Path) -> None:
    book_of_three(tmp_path, 388, 2_328)
    mapping = three_tables()  # no column says which place a meter belongs to
    mapped(tmp_path, **mapping)
    counted = importbook("manifest", "kunden.csv", "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert counted.returncode == 1
    assert "rows are used more than once" in counted.stdout
    assert msgspec.json.decode((tmp_path / "m.json").read_bytes())["rows_nowhere"] == ["stand", "zaehler"]
    pushed = importbook("push", "kunden.csv", "--mapping", "m.yaml", at=tmp_path, access=ACCESS)
    assert (pushed.returncode, "Nothing was sent" in pushed.stdout) == (1, True)
    for file in mapping["files"].values():
        file["repeated"] = "allow"
    assert len(accounts(tmp_path, str(tmp_path / "kunden.csv"), ignore=["LS-Nr"], **mapping)) == 101


def test_a_row_that_matches_no_parent_is_an_error(tmp_path: Path) -> None:
    book_of_three(tmp_path, 20, 40)
    meters = (tmp_path / "zaehler.csv").read_text() + "K1;L-unknown;Z-lost\n"
    written(tmp_path, "zaehler.csv", meters)
    mapping = three_tables(on={"LS-Nr": "Lieferstelle"})
    with pytest.raises(Differs, match="table zaehler: 1 rows belong to no account; the first is row 22"):
        accounts(tmp_path, str(tmp_path / "kunden.csv"), **mapping)
    mapping["files"]["zaehler"]["unmatched"] = "ignore"
    assert len(accounts(tmp_path, str(tmp_path / "kunden.csv"), **mapping)) == 101


def test_rows_that_differ_in_a_column_read_with_and_without_each_are_an_error(tmp_path: Path) -> None:
    account: dict[str, Any] = ACCOUNT | {
        "billing_address1": "Straße",
        "supply_addresses": [{"each": ["Ort"], "supply_address1": "Straße", "supply_address4": "Ort"}],
    }
    content = "Nr;Name;Ort;Straße;Stand\nK1;Groß;Ulm;Ringweg;02.01.2024\nK1;Groß;Bonn;Am Markt;31.12.2023\n"
    said = refusal(tmp_path, content, account=account, ignore=["Stand"])
    assert "column Straße: in 1 accounts rows have a value that gets into no account" in said
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
    account = ACCOUNT | {"notes": [{"from": "z", "body": "Text"}]}
    path = mapped(tmp_path, account, files={"z": {"path": "z.csv", "key": "Nr"}})
    source = MappedSource(files, read_mapping(path), path, None, is_strict=True)
    made = [msgspec.json.decode(line.content)["external_account_number"] for line in source.lines()]
    assert made == ["K1", "K2", "K3"]


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
    path = tmp_path / "m.yaml"
    source = MappedSource([file], read_mapping(path), path, "NORDWIND", is_strict=True)
    made = [msgspec.json.decode(line.content) for line in source.lines()]
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


@pytest.mark.parametrize(
    ("account", "said"),
    [
        ({"notes": [{"from": "z", "body": "x"}]}, "notes.from: z must be the name of a table in `files`"),
        ({"notes": [{"on": "x", "body": "x"}]}, "notes.on: must stand beside `from`"),
        (
            {"transfer_balance": {"column": "x", "fromat": "y"}},
            "fromat must not stand beside column, which takes decimals, default, first, format, table.",
        ),
        (
            {"sales_channel": {"column": "x", "format": "DD.MM.YYYY"}},
            "sales_channel: format must be YYYY-MM-DD for a text",
        ),
        ({"transfer_balance": {"column": "x", "table": "y"}}, "y must be the name of a table in `tables`"),
        ({"transfer_balance": {"constant": "1,5"}}, "the constant '1,5' must be written like 1234.56"),
        ({"transfer_balance": {"column": "x", "first": "Stand"}}, "first must be written like `first: by COLUMN`"),
    ],
)
def test_a_mapping_that_says_what_nothing_reads_is_refused(tmp_path: Path, account: dict[str, Any], said: str) -> None:
    with pytest.raises(MappingError) as error:
        read_mapping(mapped(tmp_path, ACCOUNT | account))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"emtpy": ["x"]}, "account, key, dates, decimals, empty, texts, tables, files, ignore, source"),
        ({"source": {"encodign": "cp1252"}}, "delimiter, encoding, sheets, ignore_sheets"),
        ({"files": {"z": {"path": "z.csv", "kye": "Nr"}}}, "path, key, unmatched, repeated, source"),
        (
            {"files": {"z": {"path": "z", "key": "Nr", "source": {"x": "y"}}}},
            "delimiter, encoding, sheets, ignore_sheets",
        ),
    ],
)
def test_a_misspelt_name_in_a_mapping_is_refused_with_the_allowed_ones(
    tmp_path: Path, options: dict[str, Any], allowed: str
) -> None:
    with pytest.raises(MappingError, match=f"The names there must be among {allowed}\\.$"):
        read_mapping(mapped(tmp_path, **options))


def test_a_mapping_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("key: a\nkey: b\naccount: {external_account_number: a}\n")
    with pytest.raises(MappingError, match="has a name twice"):
        read_mapping(tmp_path / "m.yaml")


# The second count


def test_a_file_that_was_counted_otherwise_gives_no_manifest(tmp_path: Path) -> None:
    file = written(tmp_path, "kunden.csv", "Nr;Name\nK1;Groß\nK2;Böhm\n")
    rows = Table([file], TableSource()).rows()
    next(rows)
    Path(written(tmp_path, "new.csv", "Nr;Name\nK1;Groß\nK2;Böhm\nK3;Weiß\n")).replace(file)
    with pytest.raises(Differs, match="2 rows were read and 3 were counted"):
        list(rows)


def test_a_workbook_that_was_counted_otherwise_gives_no_manifest(tmp_path: Path) -> None:
    file = workbook(tmp_path, ("Kunden", [["Nr", "Name"], ["K1", "Groß"], ["K2", "Böhm"]]))
    twice = with_sheet_changed(file, b'<row r="3"><c r="A3"', b'<row r="2"><c r="A2"')
    twice = with_sheet_changed(twice, b'<c r="B3"', b'<c r="B2"')
    mapped(tmp_path)
    shown = importbook("manifest", twice, "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert (shown.returncode, "1 rows were read and 2 were counted" in shown.stderr) == (1, True)
    assert not (tmp_path / "m.json").exists()
    pushed = importbook("push", twice, "--mapping", "m.yaml", at=tmp_path, access=ACCESS)
    assert (pushed.returncode, "nothing is certified" in pushed.stdout) == (1, True)


@pytest.mark.parametrize("content", ["Nr;Name;Saldo\nK1;x;1,50\nK2;y;12.50\n", "Nr;Name;Saldo\nK1;x;1,50\n;y;2,50\n"])
def test_a_book_with_a_line_that_is_no_account_does_not_balance(tmp_path: Path, content: str) -> None:
    written(tmp_path, "kunden.csv", content)
    mapped(tmp_path, WITH_BALANCE, decimals="1.234,56")
    assert importbook("manifest", "kunden.csv", "--mapping", "m.yaml", "-o", "m.json", at=tmp_path).returncode == 1
    said = msgspec.json.decode((tmp_path / "m.json").read_bytes())
    platform = {name: value for name, value in said.items() if not name.endswith("_nowhere")}
    assert [one.name for one in compared(said, platform).differences] == ["line 3 of kunden.csv"]


def test_lines_that_a_reader_loses_are_noticed_by_the_second_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is broken on purpose."""
    (tmp_path / "book.ndjson").write_bytes(b"".join(entry.body + b"\n" for entry in book("NORDWIND", 3)))
    whole = Source._numbered
    monkeypatch.setattr(Source, "_numbered", lambda self, stream: itertools.islice(whole(self, stream), 2))
    ended = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (ended.returncode, (tmp_path / "m.json").exists()) == (1, False)
    assert "2 lines were read and 3 were counted. Nothing is certified." in ended.stderr


@pytest.mark.parametrize("name", ["ledgers", "transfer_balance", "customers"])
def test_values_that_a_reader_loses_are_noticed_by_the_second_count(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is broken on purpose: it loses the last of several."""

    def losing(content: bytes) -> dict[str, Any]:
        account = decoded(content)
        if account["external_account_number"] == "NO-010000002":
            account[name] = account[name][:-1] if isinstance(account[name], list) else None
        return account

    (tmp_path / "book.ndjson").write_bytes(b"".join(entry.body + b"\n" for entry in book("NORDWIND", 3)))
    assert importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path).returncode == 0
    (tmp_path / "m.json").unlink()
    monkeypatch.setattr(manifest, "decoded", losing)
    ended = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (ended.returncode, (tmp_path / "m.json").exists()) == (1, False)
    assert f"{name}: 2 values were read and 3 were counted. Nothing is certified." in ended.stderr


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
    assert counted.lines == sum(line.strip(b" \t\xef\xbb\xbf") != b"" for line in written_lines)


@given(st.lists(st.dictionaries(st.sampled_from([*CONTRACT, "other", "a.b"]), VALUES)))
def test_two_readers_count_the_members_of_any_account_alike(some: list[dict[str, Any]]) -> None:
    counting, again = Counting(), Recount()
    for number, account in enumerate(some):
        content = msgspec.json.encode({"payload": account} | {"x": 1} if number % 2 else account)
        with contextlib.suppress(NoAccount):
            counting.add(content)
            again.add(content)
    again.check(counting.manifest())


def test_ignored_cells_are_counted_and_named(tmp_path: Path) -> None:
    written(tmp_path, "kunden.csv", "Nr;Name;Alt\nK1;NULL;x\nK2;Groß;\n")
    mapped(tmp_path, ignore=["Alt"], empty=["NULL"])
    shown = importbook("manifest", "kunden.csv", "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert shown.returncode == 0
    assert "kunden.csv: 2 rows, 5 filled cells, 2 of them ignored" in shown.stdout
