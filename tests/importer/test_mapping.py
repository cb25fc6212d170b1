"""From tables to accounts: what is proposed, what is open, and what comes out."""

import csv
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from importledger_client.comparing import compared
from importledger_client.mapped_source import MappedSource
from importledger_client.mapping import MappingError, read_mapping
from importledger_client.proposing import path_for
from importledger_client.values import converted
from tests.support.importbook import importbook

COLUMNS = ["Kundennummer", "Vorname", "Nachname", "E-Mail", "Straße", "Ort", "PLZ"]
PATHS = [
    "external_account_number",
    "customers.given_name",
    "customers.family_name",
    "customers.email",
    "billing_address1",
    "billing_address4",
    "billing_postcode",
]
ROWS = [["K1", "Käthe", "Müller", "k@example.com", "Ringweg 5", "Köln", "50667"]]


def table(folder: Path, columns: list[str], rows: list[list[str]], *, encoding: str = "cp1252") -> str:
    path = folder / "kunden.csv"
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=";").writerows([columns, *rows])
    return str(path)


def accounts(folder: Path, mapping: dict[str, Any], file: str) -> list[dict[str, Any]]:
    path = folder / "m.yaml"
    path.write_text(yaml.safe_dump(mapping, allow_unicode=True), encoding="utf-8")
    lines = MappedSource([file], read_mapping(path), path, "NORDWIND").lines()
    return [msgspec.json.decode(line.content) for line in lines]


def test_german_columns_are_known() -> None:
    assert [path_for(column) for column in COLUMNS] == PATHS


def test_english_columns_are_known() -> None:
    english = ["Customer Number", "First Name", "Last Name", "email", "Street", "City", "Postcode"]
    assert [path_for(column) for column in english] == PATHS


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_a_proposed_mapping_is_whole_where_all_columns_are_known(tmp_path: Path, encoding: str) -> None:
    file = table(tmp_path, COLUMNS, ROWS, encoding=encoding)
    made = importbook("map", "init", file)
    assert made.returncode == 0
    (tmp_path / "m.yaml").write_text(made.stdout, encoding="utf-8")
    checked = importbook("map", "check", "m.yaml", file, at=tmp_path)
    assert checked.returncode == 0, checked.stdout
    assert '"family_name": "Müller"' in checked.stdout


def test_what_goes_nowhere_and_what_nothing_fills_is_named(tmp_path: Path) -> None:
    file = table(tmp_path, ["Kundennummer", "Vorname", "Bemerkung", "MaLo"], [["K1", "Käthe", "x", "5"]])
    made = importbook("map", "init", file)
    assert made.returncode == 0  # with gaps
    (tmp_path / "m.yaml").write_text(made.stdout, encoding="utf-8")
    checked = importbook("map", "check", "m.yaml", file, at=tmp_path)
    assert checked.returncode == 1
    assert "column Bemerkung: This column goes nowhere." in checked.stdout
    for path in (
        "customers.family_name",
        "supply_addresses.supply_address1",
        "supply_addresses.supply_points.supply_type",
    ):
        assert f"{path}: This field must be given." in checked.stdout


def test_constants_look_up_tables_dates_and_decimals(tmp_path: Path) -> None:
    mapping = {
        "dates": "DD.MM.YYYY",
        "decimals": "1.234,56",
        "tables": {"anrede": {"H": "Herr", "F": "Frau"}},
        "account": {
            "external_account_number": "Nr",
            "sales_channel": {"constant": "DIRECT"},
            "transfer_balance": "Saldo",
            "customers": [
                {
                    "family_name": "Name",
                    "title": {"column": "Anrede", "table": "anrede", "default": ""},
                    "date_of_birth": "Geb",
                }
            ],
        },
    }
    file = table(tmp_path, ["Nr", "Name", "Anrede", "Geb", "Saldo"], [["K1", "Groß", "F", "01.02.1980", "-1.234,50"]])
    assert accounts(tmp_path, mapping, file) == [
        {
            "external_account_number": "K1",
            "sales_channel": "DIRECT",
            "transfer_balance": "-1234.50",
            "customers": [{"family_name": "Groß", "title": "Frau", "date_of_birth": "1980-02-01"}],
            "import_supplier": "NORDWIND",
        }
    ]


def checked_mapping(folder: Path, account: dict[str, Any], rows: list[list[str]]) -> tuple[int, str]:
    """The exit code of `map check`, and what it has printed."""
    file = table(folder, COLUMNS, rows)
    mapping = {"key": "Kundennummer", "ignore": COLUMNS, "decimals": "1.234,56", "account": account}
    (folder / "m.yaml").write_text(yaml.safe_dump(mapping, allow_unicode=True), encoding="utf-8")
    checked = importbook("map", "check", "m.yaml", file, at=folder)
    return checked.returncode, checked.stdout


WHOLE: dict[str, Any] = {
    "external_account_number": "Kundennummer",
    "customers": [{"family_name": "Nachname"}],
    "billing_address1": "Straße",
}


@pytest.mark.parametrize(
    ("account", "sentence"),
    [
        ({"billing_postcod": "PLZ"}, "billing_postcod: An account has no such field. Did you mean billing_postcode?"),
        (
            {"customers": [{"family_name": "Nachname", "givn_name": "Vorname"}]},
            "customers.givn_name: An account has no such field. Did you mean given_name?",
        ),
        (
            {"customers": [{"eahc": "Vorname", "family_name": "Nachname"}]},
            "customers.eahc: An account has no such field. Did you mean each?",
        ),
    ],
)
def test_a_field_that_accounts_do_not_have_is_open(tmp_path: Path, account: dict[str, Any], sentence: str) -> None:
    code, shown = checked_mapping(tmp_path, WHOLE | account, ROWS)
    assert code == 1
    assert sentence in shown.splitlines()
    assert "open: 1" in shown


def test_a_name_with_a_line_break_or_an_escape_stays_in_its_comment(tmp_path: Path) -> None:
    """Headers with line breaks are usual in workbooks; one could add lines to the mapping, or clear a screen."""
    file = table(tmp_path, ["Nr", "Mein\nkey: other", "a\x1b[2Jb"], [["K1", "x", "y"]])
    proposed = importbook("map", "init", file, at=tmp_path).stdout
    assert "# goes nowhere yet: Mein\\nkey: other" in proposed.splitlines()
    assert "# goes nowhere yet: a\\x1b[2Jb" in proposed.splitlines()
    assert "key" not in yaml.safe_load(proposed)


def test_a_table_without_rows_is_open(tmp_path: Path) -> None:
    code, shown = checked_mapping(tmp_path, WHOLE, [])
    assert code == 1
    assert "must have at least one row below its header." in shown
    assert "next:" not in shown


def test_a_value_that_does_not_fit_is_shown_with_its_row_and_the_form(tmp_path: Path) -> None:
    code, shown = checked_mapping(tmp_path, WHOLE | {"transfer_balance": "PLZ"}, [[*ROWS[0][:-1], "12.50"]])
    assert code == 1
    assert "column PLZ: the value '12.50' in row 2 must be written like 1.234,56." in shown.splitlines()


@pytest.mark.promise("importbook-column-mapping-drops")
def test_a_column_that_a_mapping_drops_keeps_a_book_from_balancing(tmp_path: Path) -> None:
    (tmp_path / "zaehler.csv").write_text("Kunde,Zähler,Stand\nK1,Z1,10\n", encoding="utf-8")
    meter = {"from": "zaehler", "meter_number": "Zähler"}
    mapping: dict[str, Any] = {
        "key": "Nr",
        "files": {"zaehler": {"path": "zaehler.csv", "key": "Kunde"}},
        "account": {
            "external_account_number": "Nr",
            "supply_addresses": [{"supply_points": [{"melos": [{"meters": [meter]}]}]}],
        },
    }
    file = table(tmp_path, ["Nr", "Bemerkung"], [["K1", "x"]])
    accounts(tmp_path, mapping, file)
    counted = importbook("manifest", file, "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert counted.returncode == 1
    said = msgspec.json.decode((tmp_path / "m.json").read_bytes())
    assert said["columns_nowhere"] == ["Bemerkung", "zaehler.Stand"]
    platform = {name: value for name, value in said.items() if name != "columns_nowhere"}
    assert [found.name for found in compared(said, platform).differences] == [
        "column Bemerkung",
        "column zaehler.Stand",
    ]
    accounts(tmp_path, mapping | {"ignore": ["Bemerkung", "Stand"]}, file)
    assert importbook("manifest", file, "--mapping", "m.yaml", "-o", "m.json", at=tmp_path).returncode == 0


def test_values_and_rows_that_a_mapping_would_lose_are_named(tmp_path: Path) -> None:
    (tmp_path / "zaehler.csv").write_text("Kunde,Zähler,Ort\nK1,Z1,Bonn\nK9,Z2,Köln\nK1,,Ulm\n", encoding="utf-8")
    meter: dict[str, Any] = {"from": "zaehler", "each": ["Zähler"], "meter_number": "Zähler", "location": "Ort"}
    further = {"path": "zaehler.csv", "key": "Kunde"}
    mapping: dict[str, Any] = {
        "key": "Nr",
        "files": {"zaehler": further},
        "account": {
            "external_account_number": "Nr",
            "customers": [{"family_name": "Name"}],
            "supply_addresses": [{"supply_points": [{"melos": [{"meters": [meter]}]}]}],
        },
    }
    file = table(tmp_path, ["Nr", "Name"], [["K1", "Groß"], ["K1", "Klein"], ["K2", "Lang"], ["K2", "Lang"]])
    accounts(tmp_path, mapping, file)
    checked = importbook("map", "check", "m.yaml", file, at=tmp_path)
    assert checked.returncode == 1
    assert (
        "column Name: in 1 accounts rows have a value that gets into no account; the first is 'Klein' of account K1."
        in checked.stdout
    )
    assert "column zaehler.Ort: in 1 accounts rows have a value" in checked.stdout
    assert "table zaehler: 1 rows belong to no account; the first is row 3." in checked.stdout
    counted = importbook("manifest", file, "--mapping", "m.yaml", "-o", "m.json", at=tmp_path)
    assert counted.returncode == 1
    said = msgspec.json.decode((tmp_path / "m.json").read_bytes())
    assert said["values_nowhere"] == ["Name", "zaehler.Ort"]
    assert said["rows_nowhere"] == ["zaehler"]
    platform = {name: value for name, value in said.items() if not name.endswith("_nowhere")}
    assert [found.name for found in compared(said, platform).differences] == [
        "values of column Name",
        "values of column zaehler.Ort",
        "rows of table zaehler",
    ]
    meant = {"files": {"zaehler": further | {"unmatched": "ignore"}}, "ignore": ["Name", "Ort"]}
    accounts(tmp_path, mapping | meant, file)
    assert importbook("manifest", file, "--mapping", "m.yaml", "-o", "m.json", at=tmp_path).returncode == 0


def test_repeated_rows_and_a_second_file_give_one_to_many(tmp_path: Path) -> None:
    (tmp_path / "zaehler.csv").write_text(
        "Kunde,Zähler,Stand\nK2,Z9,1\nK1,Z1,10\nK1,Z1,20\nK1,Z2,5\n", encoding="utf-8"
    )
    meter: dict[str, Any] = {"from": "zaehler", "each": ["Zähler"], "meter_number": "Zähler"}
    meter["registers"] = [{"obis_code": {"constant": "1-1:1.8.0"}, "readings": [{"each": ["Stand"], "value": "Stand"}]}]
    mapping = {
        "key": "Nr",
        "files": {"zaehler": {"path": "zaehler.csv", "key": "Kunde"}},
        "account": {
            "external_account_number": "Nr",
            "customers": [{"each": "Name", "family_name": "Name"}],
            "supply_addresses": [
                {"each": "Straße", "supply_address1": "Straße", "supply_points": [{"melos": [{"meters": [meter]}]}]}
            ],
        },
    }
    rows = [["K1", "Groß", "Ringweg"], ["K2", "Böhm", "Am Markt"], ["K1", "Weiß", "Ringweg"]]
    first, second = accounts(tmp_path, mapping, table(tmp_path, ["Nr", "Name", "Straße"], rows))
    assert [customer["family_name"] for customer in first["customers"]] == ["Groß", "Weiß"]
    (address,) = first["supply_addresses"]
    meters = address["supply_points"][0]["melos"][0]["meters"]
    assert [meter["meter_number"] for meter in meters] == ["Z1", "Z2"]
    assert [reading["value"] for reading in meters[0]["registers"][0]["readings"]] == ["10", "20"]
    assert second["external_account_number"] == "K2"


@pytest.mark.parametrize("kind", ["xlsx", "parquet"])
def test_other_tables_are_read_with_their_types(tmp_path: Path, kind: str) -> None:
    file = str(tmp_path / f"kunden.{kind}")
    if kind == "xlsx":
        from openpyxl import Workbook

        book = Workbook()
        book.active.append(["Nr", "Saldo"])  # type: ignore[union-attr]
        book.active.append([4711, 12.5])  # type: ignore[union-attr]
        book.save(file)
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"Nr": [4711], "Saldo": [12.5]}), file)
    mapping = {"decimals": "1.234,56", "account": {"external_account_number": "Nr", "transfer_balance": "Saldo"}}
    (account,) = accounts(tmp_path, mapping, file)
    assert (account["external_account_number"], account["transfer_balance"]) == ("4711", "12.5")


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [("1.234,56", "1.234,56", "1234.56"), ("1,234.56", "1,234.56", "1234.56"), ("12,30-", "1.234,56", "-12.30")],
)
def test_decimals_are_read_as_they_are_written(value: str, form: str, expected: str) -> None:
    assert converted(value, "decimal", decimals=form) == expected


def test_a_table_without_a_mapping_is_wrong_use(tmp_path: Path) -> None:
    refused = importbook("push", table(tmp_path, COLUMNS, ROWS), access={"IMPORTLEDGER_URL": "http://x"})
    assert refused.returncode == 2
    assert "importbook map init" in refused.stderr


def test_lines_of_json_need_no_mapping(tmp_path: Path) -> None:
    (tmp_path / "book.ndjson").write_text("{}\n")
    said = importbook("map", "init", "book.ndjson", at=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert "no table" in said.stderr


def test_an_alias_is_refused_before_it_stands_for_too_much(folder: Path) -> None:
    path = folder / "m.yaml"
    levels = "".join(f"  - &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]\n" for level in range(1, 12))
    path.write_text(f"key: K\nignore:\n  - &l0 x\n{levels}", encoding="utf-8")
    with pytest.raises(MappingError, match=r"an alias .* in line 4"):
        read_mapping(path)
