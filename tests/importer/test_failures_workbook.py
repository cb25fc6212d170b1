"""RUN.failures.xlsx: an importer's own rows come back from Excel as they were, with the wrong cells marked."""

import csv
import errno
import json
import re
import tempfile
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
import xlsxwriter
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook
from openpyxl.worksheet.worksheet import Worksheet

from importledger_client.answers import FieldError, Suggestion
from importledger_client.book import ERRORS, book
from importledger_client.failures_workbook import WorkbookSource, sources_at, write_workbook
from importledger_client.notes import Note, save_note
from importledger_client.sources import Line, Unreadable
from tests.support.importbook import Verb, importbook
from tests.support.make import an_account, encoded
from tests.support.mapped_book import BOOK, OF_BOOK, WHOLE, mapped, mapping_at, source_of, spec_of
from tests.support.running import Importer

WRONG = (FieldError("customers.0.family_name", "blank", "must not be blank"),)
NUMBERS = st.integers(-(10**20), 10**20) | st.decimals(allow_nan=False, allow_infinity=False, places=3)
SCALARS = (
    st.none() | st.booleans() | NUMBERS | st.text(max_size=12) | st.sampled_from(["=1+1", "@x", "007", " a\n", ""])
)
NAMES = st.sampled_from(["a", "b_1", "customers", "x.y", "0", "²", "a_x0041_b", "a (JSON)", ""])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


def decoded(line: Line) -> Any:
    return msgspec.json.decode(line.content)


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=4))
def test_accounts_of_ndjson_come_back_from_excel_as_they_were(accounts: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        encode = msgspec.json.Encoder(decimal_format="number").encode
        lines = [encode({"external_account_number": f"N{n}", **account}) for n, account in enumerate(accounts)]
        (folder / "book.ndjson").write_bytes(b"\n".join(lines))
        save_note(Note("r", ["S"], files=[str(folder / "book.ndjson")]), folder)
        write_workbook("r", folder, {f"N{n}": WRONG for n in range(len(lines))})
        source = WorkbookSource(str(folder / "r.failures.xlsx"))
        assert [exact(line.content) for line in source.lines()] == [exact(line) for line in lines]


def exact(content: bytes) -> Any:
    """Return an account with its numbers as they are written."""
    return json.loads(content, parse_float=lambda text: ("number", text), parse_int=lambda text: ("number", text))


def written(folder: Path, failed: dict[str, tuple[FieldError, ...]]) -> str:
    """Write the workbook of the mapped book `m.yaml`, and return its path."""
    main = next(iter(BOOK))
    save_note(Note("r", ["S"], files=[str(folder / f"{main}.csv")], mapping=str(folder / "m.yaml")), folder)
    write_workbook("r", folder, failed)
    return str(folder / "r.failures.xlsx")


def test_rows_of_joined_tables_come_back_from_excel_as_the_same_accounts(tmp_path: Path) -> None:
    source = mapped(tmp_path, WHOLE, BOOK, **OF_BOOK)
    whole = {line.external: decoded(line) for line in source.lines()}
    name = written(tmp_path, {"V1": WRONG, "V2": WRONG})
    [again] = sources_at([name], str(tmp_path / "m.yaml"), None, is_strict=True)
    assert {line.external: decoded(line) for line in again.lines()} == {name: whole[name] for name in ("V1", "V2")}
    opened = load_workbook(name)
    assert opened.sheetnames == ["Fix first", "book", "but000", "eablg", "eastl", "ever"]
    assert next(iter(opened["eablg"].values)) == ("EQUNR", "ADAT", "STAND")
    assert list(opened["book"].values) == [("VKONT", "GPART"), ("V1", "P1"), ("V2", "P2")]


def marked(sheet: Worksheet) -> dict[str, str]:
    """Return the comments of the marked cells by coordinate."""
    return {
        cell.coordinate: cell.comment.text if cell.comment else ""
        for row in sheet.iter_rows()
        for cell in row
        if cell.fill.bgColor.rgb == "FFFFC7CE" or cell.fill.fgColor.rgb == "FFFFC7CE"
    }


def test_wrong_cells_are_marked_and_say_what_to_do(tmp_path: Path) -> None:
    list(mapped(tmp_path, WHOLE, BOOK, **OF_BOOK).lines())
    place = "supply_addresses.0.supply_points.0.melos.0.meters.0"
    errors = (
        FieldError(
            f"{place}.registers.0.readings.1.value", "wrong_value", "Too large.", Suggestion("date", "6", "Say 6.")
        ),
        FieldError(f"{place}.meter_number", "blank", "No meter."),
        FieldError("non_field_errors", "odd", "All is odd."),
        FieldError("supply_addresses.1.supply_points.0.unknown", "required", "It is missing."),
    )
    opened = load_workbook(written(tmp_path, {"V1": errors}))
    assert {name: marked(opened[name]) for name in opened.sheetnames if marked(opened[name])} == {
        "book": {"A2": "All is odd. [odd]"},
        "ever": {"B3": "It is missing. [required]"},
        "eastl": {"B2": "No meter. [blank]"},
        "eablg": {"C3": "Too large. [wrong_value]\n→ 6: Say 6."},
    }
    first = list(opened["Fix first"].values)
    assert first[0] == ("problem", "code", "field", "accounts", "example")
    assert (
        "Too large.",
        "wrong_value",
        f"{re.sub(r'[.][0-9]+', '[]', place)}.registers[].readings[].value",
        1,
        "V1",
    ) in first


def test_dates_and_numbers_of_a_workbook_come_back_as_such(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "kunden.xlsx")) as workbook:
        sheet = workbook.add_worksheet("Kunden")
        for place, cell in enumerate(["Nr", "Name", "Geburt", "Saldo", "Notiz"]):
            sheet.write(0, place, cell)
        sheet.write_string(1, 0, "000123456789012345678")
        sheet.write_string(1, 1, "=SUM(A1)")
        sheet.write_datetime(1, 2, date(1970, 2, 3), workbook.add_format({"num_format": "dd.mm.yyyy"}))
        sheet.write_number(1, 3, 12.5)
        sheet.write_number(1, 4, 7)
    account = {"external_account_number": "Nr", "transfer_balance": "Saldo"}
    account["customers"] = [{"family_name": "Name", "date_of_birth": "Geburt"}]  # type: ignore[assignment]
    path = mapping_at(tmp_path, account, dates="DD.MM.YYYY", ignore=["Notiz"])
    [line] = source_of(path, "kunden.xlsx").lines()
    save_note(Note("r", files=[str(tmp_path / "kunden.xlsx")], mapping=str(path)), tmp_path)
    write_workbook("r", tmp_path, {"000123456789012345678": WRONG})
    name = str(tmp_path / "r.failures.xlsx")
    [again] = sources_at([name], str(path), None, is_strict=True)
    assert [line.content for line in again.lines()] == [line.content]
    [_, row] = load_workbook(name)["book"].values
    assert row[1] == "=SUM(A1)"
    assert (row[3], row[4]) == (12.5, 7)
    with zipfile.ZipFile(name) as opened:
        assert not [part for part in opened.namelist() if b"<f>" in opened.read(part)], "no cell is a formula"


def ndjson(folder: Path, *accounts: dict[str, Any]) -> str:
    """Write a book with its note, and return the name of its workbook of failures."""
    (folder / "book.ndjson").write_bytes(b"\n".join(map(msgspec.json.encode, accounts)))
    save_note(Note("r", ["S"], files=[str(folder / "book.ndjson")]), folder)
    return str(folder / "r.failures.xlsx")


@pytest.mark.parametrize("text", ["x" * 32_768, "\U0001f600" * 20_000])
def test_an_account_that_excel_cannot_hold_is_left_out_and_named(tmp_path: Path, text: str) -> None:
    good = {"external_account_number": "G", "a": "_x0041_\1\r"}
    name = ndjson(tmp_path, {"external_account_number": "N", "a": text}, good)
    _, [sentence] = write_workbook("r", tmp_path, {"N": WRONG, "G": WRONG})
    assert (
        sentence == "Account N is not in it: a (JSON): Excel cannot hold this text unchanged. Correct it in the book."
    )
    assert [decoded(line) for line in WorkbookSource(name).lines()] == [good]


def test_a_row_that_excel_cannot_hold_is_left_out_unless_its_column_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("K;N;X\nA;Groß;\2\nB;\2;ok\n")
    account = {"external_account_number": "K", "customers": [{"family_name": "N"}]}
    path = mapping_at(tmp_path, account, ignore=["X"])
    save_note(Note("r", files=[str(tmp_path / "m.csv")], mapping=str(path)), tmp_path)
    _, [sentence] = write_workbook("r", tmp_path, {"A": WRONG, "B": WRONG})
    assert sentence.startswith("Account B is not in it: row 3, column N: Excel cannot hold")
    assert list(load_workbook(tmp_path / "r.failures.xlsx")["book"].values) == [("K", "N", "X"), ("A", "Groß", None)]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = xlsxwriter.Workbook._store_workbook

    def full(book: xlsxwriter.Workbook) -> None:
        store(book)
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "book.ndjson").write_bytes(b'{"external_account_number":"K1"}\n')
    save_note(Note("go", files=["book.ndjson"], pushed=["book.ndjson"]), tmp_path)
    monkeypatch.setattr(xlsxwriter.Workbook, "_store_workbook", full)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="No space left on device") as error:
        write_workbook("go", tmp_path, {"K1": [FieldError("customers", "required", "Required.")]})
    assert error.value.errno == errno.ENOSPC
    assert sorted(path.name for path in tmp_path.iterdir()) == [".importbook", "book.ndjson"]


def test_more_columns_than_a_sheet_has_are_refused_and_no_file_is_written(tmp_path: Path) -> None:
    ndjson(tmp_path, {"external_account_number": "N", "a": [{"b": 1}] * 20_000})
    with pytest.raises(Unreadable, match="more columns than Excel allows"):
        write_workbook("r", tmp_path, {"N": WRONG})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".importbook", "book.ndjson"]


@pytest.mark.parametrize(
    ("cell", "sentence"), [('=C2&"1"', "formula without a stored value"), (12345678901234567890, "15 digits")]
)
def test_a_cell_that_could_be_misread_is_refused(tmp_path: Path, cell: Any, sentence: str) -> None:
    name = ndjson(tmp_path, {"external_account_number": "N", "a": "x", "b": "y"})
    write_workbook("r", tmp_path, {"N": WRONG})
    workbook = load_workbook(name)
    workbook["accounts"]["B2"] = cell
    workbook.save(name)
    with pytest.raises(Unreadable, match=sentence):
        list(WorkbookSource(name).lines())


def test_a_column_that_was_renamed_is_another_field(tmp_path: Path) -> None:
    name = ndjson(tmp_path, {"external_account_number": "N", "a": "x"})
    write_workbook("r", tmp_path, {"N": WRONG})
    workbook = load_workbook(name)
    workbook["accounts"]["B1"] = "a.²"
    workbook.save(name)
    assert [decoded(line) for line in WorkbookSource(name).lines()] == [
        {"external_account_number": "N", "a": {"²": "x"}}
    ]


def test_errors_of_accounts_without_a_number_and_the_service_away_are_still_json(tmp_path: Path) -> None:
    errors = [{"attr": "a", "code": "c", "detail": "d"}]
    for run in ("r", "before"):
        line = {"line": 1, "payload": {"external_account_number": "N"}, "errors": errors}
        (tmp_path / f"{run}.failures.ndjson").write_text(json.dumps(line))
    away = {"IMPORTLEDGER_URL": "http://127.0.0.1:9", "IMPORTLEDGER_KEY": "ilk_x_y"}
    shown = json.loads(importbook("errors", "r", "--json", "--since", "before", at=tmp_path, access=away).stdout)
    assert shown["errors"] == shown["since"]["errors"]
    assert (shown["errors"]["accounts"], shown["since"]["run"]) == (1, "before")


def column_of(sheet: Worksheet, name: str) -> int:
    return next(cell.column for cell in sheet[1] if cell.value == name)


@pytest.mark.promise("failures-in-excel")
def test_refused_accounts_are_corrected_in_excel_and_pushed(tmp_path: Path, importer: Importer, verb: Verb) -> None:
    lines = []
    for number, entry in enumerate(book(importer.supplier, 20), 1):
        account = msgspec.json.decode(entry.body)
        if number in (3, 7):
            ERRORS[0][1](account)
        lines.append(msgspec.json.encode(account))
    (tmp_path / "book.ndjson").write_bytes(b"\n".join(lines))
    assert verb("push", "book.ndjson", "--run", "go").returncode == 1
    shown = json.loads(verb("errors", "go", "--json").stdout)["errors"]
    [cause] = shown["causes"]
    assert (shown["accounts"], cause["code"], cause["accounts"], cause["clears"]) == (
        2,
        "invalid_phone_number",
        2,
        100.0,
    )
    told = verb("errors", "go", "--excel").stdout
    assert load_workbook(tmp_path / "go.failures.xlsx").sheetnames == ["Fix first", "accounts"]
    assert "Correct the marked cells in go.failures.xlsx" in told
    assert "next:  importbook push go.failures.xlsx --run go" in told
    workbook = load_workbook(tmp_path / "go.failures.xlsx")
    sheet = workbook["accounts"]
    assert len(marked(sheet)) == 2
    for place in marked(sheet):
        sheet[place] = "+493023125123"
    sheet.cell(2, column_of(sheet, "customers.0.email")).value = "kunde@"
    workbook.save(tmp_path / "go.failures.xlsx")
    assert verb("push", "go.failures.xlsx", "--run", "go").returncode == 1
    verb("errors", "go", "--excel")
    workbook = load_workbook(tmp_path / "go.failures.xlsx")
    sheet = workbook["accounts"]
    assert sheet.max_row == 2, "only the account that was refused again is there"
    assert sheet.cell(2, column_of(sheet, "customers.0.mobile")).value == "+493023125123", "a correction stays"
    sheet.cell(2, column_of(sheet, "customers.0.email")).value = "kunde@example.com"
    workbook.save(tmp_path / "go.failures.xlsx")
    again = verb("push", "go.failures.xlsx", "--run", "go", "--wait")
    assert (again.returncode, "accepted 1 · replayed 0 · refused 0" in again.stdout) == (0, True), again.stdout


@pytest.mark.promise("failures-in-excel")
def test_tables_are_rehearsed_corrected_in_excel_pushed_and_certified(
    tmp_path: Path, importer: Importer, verb: Verb
) -> None:
    account = an_account(importer.supplier, 1)
    plain = {name: value for name, value in account.items() if name not in ("metadata", "notes", "references")}
    spec = spec_of(plain) | {"external_account_number": "Nr"}
    spec["customers"][0] |= {
        "family_name": "Name",
        "date_of_birth": "Geburt",
        "mobile": {"column": "Mobil", "from": "mobil", "on": {"Kunde": "Nr"}},
    }
    mapping_at(tmp_path, spec, dates="DD.MM.YYYY", files={"mobil": {"path": "mobil.csv"}})
    (tmp_path / "kunden.csv").write_text("Nr;Name;Geburt\nK1;Groß;1.2.80\nK2;Böhm;\nK3;Weiß;\n")
    (tmp_path / "mobil.csv").write_text('Kunde;Mobil\nK1;+4915112345678\nK2;49 12\n"K3";"0151-23456789, abends"\n')
    book = ("kunden.csv", "--mapping", "m.yaml")
    rehearsed = verb("push", *book, "--mode", "validate", "--run", "reh")
    assert rehearsed.returncode == 1, rehearsed.stdout + rehearsed.stderr
    assert "K2" in verb("errors", "reh", "--excel").stdout
    unchanged = verb("push", "reh.failures.ndjson", "--run", "unchanged")
    assert "accepted 0 · replayed 0 · refused 3" in unchanged.stdout, "the service refuses a date that cannot be read"
    workbook = load_workbook(tmp_path / "reh.failures.xlsx")
    comments = marked(workbook["mobil"])
    assert [*comments] == ["B3", "B4"]
    assert "+4915123456789" in comments["B4"]
    assert [*marked(workbook["book"])] == ["C2"]
    workbook["book"]["C2"] = "01.02.1980"
    workbook["mobil"]["B3"], workbook["mobil"]["B4"] = "+4930123456", "+4915112345679"
    workbook.save(tmp_path / "reh.failures.xlsx")
    checked = verb("push", *book, "reh.failures.xlsx", "--mode", "validate", "--run", "reh-2")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    pushed = verb("push", *book, "reh.failures.xlsx", "--run", "go", "--manifest", "m.json", "--wait")
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    assert "accepted 3" in pushed.stdout
    balanced = verb("reconcile", "go", "--manifest", "m.json")
    assert (balanced.returncode, "BALANCED" in balanced.stdout) == (0, True), balanced.stdout + balanced.stderr


@pytest.mark.promise("suggestions-applied")
def test_fix_writes_a_book_with_the_suggested_corrections_and_sends_nothing(
    tmp_path: Path, importer: Importer, verb: Verb
) -> None:
    account = an_account(importer.supplier, 1)
    account["customers"][0]["mobile"] = "0151-23456789, abends"
    account["payment_instructions"][0]["bank_account"]["iban"] = "iban de89/3704/0044/0532/0130/00"
    (tmp_path / "book.ndjson").write_bytes(encoded(account))
    assert verb("push", "book.ndjson", "--run", "go").returncode == 1
    assert verb("fix", "go", "--only", "melo").returncode == 2
    assert not (tmp_path / "go.fixed.ndjson").exists()
    refused = verb("fix", "go", "--only", "names")
    assert (refused.returncode, "names must be among phone, iban" in refused.stderr) == (2, True)
    assert "1 account with 1 correction" in verb("fix", "go", "--only", "phone").stdout
    with (tmp_path / "go.fixed.csv").open(newline="") as file:
        [change] = csv.DictReader(file)
    assert (change["path"], change["before"], change["after"]) == (
        "customers.0.mobile", "0151-23456789, abends", "'+4915123456789",
    )  # fmt: skip
    fixed = json.loads((tmp_path / "go.fixed.ndjson").read_bytes())
    assert fixed["customers"][0]["mobile"] == "+4915123456789"
    assert "1 account has no other problem. Nothing was sent." in verb("fix", "go").stdout
    assert (tmp_path / "go.fixed.ndjson").stat().st_mode & 0o077 == 0
    edited = json.loads((tmp_path / "go.failures.ndjson").read_bytes())
    edited["payload"]["customers"][0]["mobile"] = "+4930123456"
    (tmp_path / "edited.failures.ndjson").write_text(json.dumps(edited))
    assert verb("fix", "edited", "--only", "phone").returncode == 2, "what was corrected by hand stays"
    del edited["payload"]["customers"]
    (tmp_path / "edited.failures.ndjson").write_text(json.dumps(edited))
    assert "1 account with 1 correction" in verb("fix", "edited").stdout
    assert verb("push", "go.fixed.ndjson", "--run", "go").returncode == 0
