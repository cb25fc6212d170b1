"""From tables to accounts: the proposed mapping, its open points, and the accounts."""

import csv
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from importledger_client.comparing import compared
from importledger_client.mapping import MappingError, read_mapping
from importledger_client.proposing import path_for
from tests.support.importbook import importbook
from tests.support.mapped_book import mapping_at

COLUMNS = ["Kundennummer", "Vorname", "Nachname", "E-Mail", "Straße", "Ort", "PLZ"]
ENGLISH = ["Customer Number", "First Name", "Last Name", "email", "Street", "City", "Postcode"]
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
WHOLE: dict[str, Any] = {
    "external_account_number": "Kundennummer",
    "customers": [{"family_name": "Nachname"}],
    "billing_address1": "Straße",
}


def table(folder: Path, columns: list[str], rows: list[list[str]], *, encoding: str = "cp1252") -> str:
    path = folder / "kunden.csv"
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=";").writerows([columns, *rows])
    return str(path)


def checked(folder: Path, account: dict[str, Any], rows: list[list[str]] = ROWS) -> tuple[int, str]:
    """The exit code and the output of `map check`."""
    file = table(folder, COLUMNS, rows)
    mapping_at(folder, account, key="Kundennummer", ignore=COLUMNS, decimals="1.234,56")
    shown = importbook("map", "check", "m.yaml", file, at=folder)
    return shown.returncode, shown.stdout


@pytest.mark.parametrize("columns", [COLUMNS, ENGLISH])
def test_german_and_english_columns_are_known(columns: list[str]) -> None:
    assert [path_for(column) for column in columns] == PATHS


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_a_proposed_mapping_is_complete_if_all_columns_are_known(tmp_path: Path, encoding: str) -> None:
    file = table(tmp_path, COLUMNS, ROWS, encoding=encoding)
    (tmp_path / "m.yaml").write_text(importbook("map", "init", file).stdout, encoding="utf-8")
    shown = importbook("map", "check", "m.yaml", file, at=tmp_path)
    assert shown.returncode == 0, shown.stdout
    assert '"family_name": "Müller"' in shown.stdout
    assert "row 2: Kundennummer=" in shown.stdout


def test_unknown_columns_and_missing_fields_are_named(tmp_path: Path) -> None:
    file = table(tmp_path, ["Kundennummer", "Vorname", "Bemerkung", "MaLo"], [["K1", "Käthe", "x", "5"]])
    (tmp_path / "m.yaml").write_text(importbook("map", "init", file).stdout, encoding="utf-8")
    shown = importbook("map", "check", "m.yaml", file, at=tmp_path)
    assert shown.returncode == 1
    assert "column Bemerkung: No field uses this column." in shown.stdout
    point = "supply_addresses.supply_points.supply_type"
    for path in ("customers.family_name", "supply_addresses.supply_address1", point):
        assert f"{path}: This field must be given." in shown.stdout


NO_FIELD = "An account has no such field. Did you mean"


@pytest.mark.parametrize(
    ("account", "sentence"),
    [
        ({"billing_postcod": "PLZ"}, f"billing_postcod: {NO_FIELD} billing_postcode?"),
        ({"customers": [{"family_name": "Ort", "givn_name": "Ort"}]}, f"customers.givn_name: {NO_FIELD} given_name?"),
        ({"customers": [{"eahc": "Vorname", "family_name": "Nachname"}]}, f"customers.eahc: {NO_FIELD} each?"),
        ({"transfer_balance": "PLZ"}, "column PLZ: the value '50667.5' in row 2 must be written like 1.234,56."),
    ],
)
def test_an_unknown_field_or_a_value_in_another_form_is_open(
    tmp_path: Path, account: dict[str, Any], sentence: str
) -> None:
    code, shown = checked(tmp_path, WHOLE | account, [[*ROWS[0][:-1], "50667.5"]])
    assert code == 1
    assert sentence in shown.splitlines()
    assert "open: 1" in shown


def test_a_table_without_rows_is_open(tmp_path: Path) -> None:
    code, shown = checked(tmp_path, WHOLE, [])
    assert (code, "next:" in shown) == (1, False)
    assert "must have at least one row below its header." in shown


def test_a_name_with_a_line_break_or_an_escape_stays_in_its_comment(tmp_path: Path) -> None:
    """Headers with line breaks are usual in workbooks; one could add lines to the mapping, or clear a screen."""
    file = table(tmp_path, ["Nr", "Mein\nkey: other", "a\x1b[2Jb"], [["K1", "x", "y"]])
    proposed = importbook("map", "init", file, at=tmp_path).stdout
    assert "# not used yet: Mein\\nkey: other" in proposed.splitlines()
    assert "# not used yet: a\\x1b[2Jb" in proposed.splitlines()
    assert "key" not in yaml.safe_load(proposed)


@pytest.mark.promise("importbook-column-mapping-drops")
def test_columns_values_and_rows_that_a_mapping_drops_keep_a_book_from_balancing(tmp_path: Path) -> None:
    (tmp_path / "z.csv").write_text("Kunde,Zähler,Ort,Alt\nK1,Z1,Bonn,\nK9,Z2,Köln,x\nK1,,Ulm,\n", encoding="utf-8")
    meter = {"from": "zaehler", "each": ["Zähler"], "meter_number": "Zähler", "location": "Ort"}
    account = {
        "external_account_number": "Nr",
        "customers": [{"family_name": "Name"}],
        "supply_addresses": [{"supply_points": [{"melos": [{"meters": [meter]}]}]}],
    }
    further = {"path": "z.csv", "key": "Kunde"}
    rows = [["K1", "Groß", "x"], ["K1", "Klein", ""], ["K2", "Lang", ""], ["K2", "Lang", ""]]
    file = table(tmp_path, ["Nr", "Name", "Bemerkung"], rows)
    mapping_at(tmp_path, account, key="Nr", files={"zaehler": further})
    count = ("manifest", file, "--mapping", "m.yaml", "-o", "m.json")
    shown = importbook(*count, at=tmp_path)
    assert shown.returncode == 1
    for sentence in (
        "column Name: a value is not used, in 1 account; the first is 'Klein' of account K1.",
        "column zaehler.Ort: a value is not used, in 1 account",
        "table zaehler: 1 row belongs to no account; the first is row 3.",
    ):
        assert sentence in shown.stdout
    manifest = msgspec.json.decode((tmp_path / "m.json").read_bytes())
    platform = {name: value for name, value in manifest.items() if not name.endswith("_nowhere")}
    assert [found.name for found in compared(manifest, platform).differences] == [
        "supply_addresses.supply_points.melos.meters.location",
        "column Bemerkung",
        "column zaehler.Alt",
        "values of column Name",
        "values of column zaehler.Ort",
        "rows of table zaehler",
    ]
    files = {"zaehler": further | {"unmatched": "ignore"}}
    mapping_at(tmp_path, account, key="Nr", files=files, ignore=["Bemerkung", "Alt", "Name", "Ort"])
    assert importbook(*count, at=tmp_path).returncode == 0


def test_a_table_needs_a_mapping_and_ndjson_needs_none(tmp_path: Path) -> None:
    refused = importbook("push", table(tmp_path, COLUMNS, ROWS), access={"IMPORTLEDGER_URL": "http://x"})
    assert (refused.returncode, "importbook map init" in refused.stderr) == (2, True)
    (tmp_path / "book.ndjson").write_text("{}\n")
    refused = importbook("map", "init", "book.ndjson", at=tmp_path)
    assert (refused.returncode, refused.stdout, "no table" in refused.stderr) == (2, "", True)


def test_an_alias_is_refused_before_it_stands_for_too_much(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    levels = "".join(f"  - &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]\n" for level in range(1, 12))
    path.write_text(f"key: K\nignore:\n  - &l0 x\n{levels}", encoding="utf-8")
    with pytest.raises(MappingError, match=r"an alias .* in line 4"):
        read_mapping(path)


@pytest.mark.parametrize("place", ["files", "values"])
@pytest.mark.parametrize(
    "name", ["{outside}/secret.csv", "../outside/secret.csv", "link.csv", "li*.csv", "linked/secret.csv"]
)
def test_a_mapping_names_only_files_in_its_folder(tmp_path: Path, place: str, name: str) -> None:
    folder, outside = tmp_path / "book", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.csv").write_text("list,value,target\n")
    (folder / "link.csv").symlink_to(outside / "secret.csv")
    (folder / "linked").symlink_to(outside)
    path = name.format(outside=outside)
    further = {"files": {"further": {"path": path, "key": "A"}}} if place == "files" else {"values": path}
    mapping = folder / "m.yaml"
    mapping.write_bytes(msgspec.json.encode({"account": {"external_account_number": "A"}, **further}))

    with pytest.raises(MappingError, match="in the folder of the mapping"):
        read_mapping(mapping)
