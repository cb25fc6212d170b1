"""The language of docs/reference/mapping.md: joins over several tables, expressions, filters, first and last."""

import contextlib
import csv
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from importledger_client import mapped_source, value_list
from importledger_client.engine import Engine
from importledger_client.mapped_source import MappedSource
from importledger_client.mapping import MappingError
from importledger_client.sources import Differs, Line, Unreadable
from importledger_client.tables.reading import Table
from importledger_client.tables.table import TableSource
from tests.support.importbook import importbook
from tests.support.mapped_book import BOOK, FORMS, NUMBER, OF_BOOK, WHOLE, accounts_of, mapped, mapping_at, source_of

NAMED = NUMBER | {"customers": [{"family_name": "NAME"}]}


def lines(folder: Path, account: dict[str, Any], tables: dict[str, str], /, **options: Any) -> list[Line]:
    return list(mapped(folder, account, tables, **options).lines())


def accounts(folder: Path, account: dict[str, Any], tables: dict[str, str], /, **options: Any) -> list[dict[str, Any]]:
    return accounts_of(mapped(folder, account, tables, **options))


def values_of(account: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Contract, meter and value of each reading."""
    return [
        (point["identifier"], meter["meter_number"], reading["value"])
        for address in account.get("supply_addresses", ())
        for point in address["supply_points"]
        for melo in point["melos"]
        for meter in melo["meters"]
        for register in meter["registers"]
        for reading in register["readings"]
    ]


@pytest.mark.promise("importbook-joins-any-column")
def test_tables_are_joined_by_any_column_over_several_steps(tmp_path: Path) -> None:
    first, second, third = accounts(tmp_path, WHOLE, BOOK, **OF_BOOK)
    assert [account["customers"] for account in (first, second, third)] == [
        [{"family_name": "Groß"}],
        [{"family_name": "Böhm"}],
        [{"family_name": "Groß"}],
    ]
    assert values_of(first) == [("T1", "E1", "5"), ("T1", "E1", "6"), ("T2", "E2", "9")]
    assert values_of(second) == [("T3", "E3", "8"), ("T3", "E4", "7.5")]
    assert "supply_addresses" not in third


@pytest.mark.parametrize(
    ("files", "tables", "sentence"),
    [
        ({"but000": {}}, {}, "table but000: 1 row is used more than once; the first is row 3."),
        ({}, {"eablg": BOOK["eablg"] + "E9;;1\n"}, "table eablg: 1 row belongs to no account; the first is row 7"),
        ({}, {"eastl": BOOK["eastl"] + ";E9\n"}, "table eastl: 1 row belongs to no account; the first is row 6."),
    ],
)
def test_a_row_of_a_joined_table_in_several_accounts_or_none_is_an_error(
    tmp_path: Path, files: dict[str, Any], tables: dict[str, str], sentence: str
) -> None:
    options = OF_BOOK | {"files": OF_BOOK["files"] | files}  # type: ignore[operator]
    with pytest.raises(Differs, match=re.escape(sentence)):
        lines(tmp_path, WHOLE, BOOK | tables, **options)


def test_a_table_without_key_needs_on(tmp_path: Path) -> None:
    account = NUMBER | {"customers": [{"from": "but000", "family_name": "NAME"}]}
    with pytest.raises(MappingError, match=r"files.but000 must have a `key`, or each `from: but000` must have `on`"):
        lines(tmp_path, account, {"fkkvkp": BOOK["fkkvkp"], "but000": BOOK["but000"]})


TABLE = "VKONT;NAME;STREET;BETRW;ADAT\nV1;Müller, Dr. Hans;Musterstr. 12a;1.200,50;01.02.2024\nV2;Groß;Allee;;\n"


@pytest.mark.parametrize(
    ("path", "spec", "expected"),
    [
        ("billing_address2", {"sql": r"regexp_extract(STREET, '^(.*?)\s+(\d.*)$', 2)"}, ["12a", None]),
        ("billing_address2", {"sql": "split_part(STREET, ' ', 2)", "default": "0"}, ["12a", "0"]),
        ("sales_channel", {"sql": "concat_ws('/', VKONT, \"BETRW\")"}, ["V1/1.200,50", "V2"]),
        ("sales_channel", {"sql": "coalesce(BETRW, 'none')", "table": "words"}, ["x", "y"]),
        ("sales_channel", {"sql": "month(day(ADAT))"}, ["2", None]),
        ("transfer_balance", {"sql": "-number(BETRW)"}, ["-1200.5", None]),
        ("transfer_balance", {"sql": "number(BETRW) / 7"}, ["171.5", None]),
        ("transfer_balance", {"sum": "-2 * number(BETRW)"}, ["-2401", None]),
        ("transfer_balance", {"sum": "number(BETRW)", "default": "0,5"}, ["1200.5", "0.5"]),
        ("sales_channel", {"sql": "ADAT"}, ["01.02.2024", None]),
        ("sales_channel", {"sql": "day(ADAT, 'DD.MM.YYYY') > DATE '2024-01-31'"}, ["true", None]),
        ("unknown_occupier", {"sql": "STREET IN ('Allee', 'Weg') AND BETRW IS NULL"}, [False, True]),
    ],
)
@pytest.mark.promise("importbook-expressions")
def test_expressions_compute_a_field_from_one_row(
    tmp_path: Path, path: str, spec: dict[str, Any], expected: list[Any]
) -> None:
    tables = {"words": {"1.200,50": "x", "none": "y"}}
    ignore = ["VKONT", "NAME", "STREET", "BETRW", "ADAT"]
    made = accounts(tmp_path, NUMBER | {path: spec}, {"t": TABLE}, ignore=ignore, tables=tables, **FORMS)
    assert [account.get(path) for account in made] == expected


def test_the_examples_of_the_reference_compute_what_they_promise(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "mapping.md").read_text(encoding="utf-8")
    rows = [row.strip("| ").split(" | ", 1) for row in page.splitlines() if row.endswith("}` |")]
    fields = [yaml.safe_load(field.strip("`").replace("\\|", "|")) for _, field in rows if '"' in field]
    table = "VKONT;NAME1;NAME2;NAME;STREET;BETRW;SPARTE;PLZ\nV1;Bau;GmbH;Müller, Dr. Hans;Musterstr. 12a;3,20;01;1067\n"
    account = NUMBER | {
        "notes": [{"body": spec} for spec in fields if "BETRW" not in str(spec)],
        "ledgers": [{"ledger_balance": spec} for spec in fields if "BETRW" in str(spec)],
    }
    (made,) = accounts(tmp_path, account, {"t": table}, **FORMS)
    expected = ["Bau GmbH", "Musterstr.", "12a", "Müller", "Hans", "Dr.", "01067", "electricity"]
    assert [note["body"] for note in made["notes"]] == expected
    assert made["ledgers"] == [{"ledger_balance": "-3.2"}] * 2


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{outside}')",
        "COPY (SELECT 1) TO '{outside}'",
        "ATTACH '{outside}' AS other",
        "SELECT * FROM 'https://192.0.2.1/x.csv'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ],
)
def test_the_engine_itself_reads_and_writes_nothing_outside_its_folder(tmp_path: Path, sql: str) -> None:
    """A second barrier behind the parts that an expression may have."""
    outside, folder = tmp_path / "outside.csv", tmp_path / "engine"
    outside.write_text("a\n1\n")
    folder.mkdir()
    with contextlib.closing(Engine(folder, [""])) as engine, pytest.raises(Unreadable, match="cannot be applied"):
        engine._run(sql.format(outside=outside))
    assert outside.read_text() == "a\n1\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("(SELECT 1)", "SUBQUERY is not a part of expressions"),
        ("row_number() OVER ()", "WINDOW is not a part of expressions"),
        ("getenv('HOME')", "getenv is not a part of expressions"),
        ("count(NAME)", "count is not a part of expressions"),
        ("NAME::INTEGER", "CAST is not a part of expressions"),
        ("t.NAME", "t.NAME must be the name of a column, without its table"),
        ("NAME FROM read_text('/etc/passwd')", "must be one expression"),
        ("NAME) FROM read_text('/etc/passwd') --", "must be an expression"),
        ("NAME, VKONT", "must be one expression"),
        ("NAME AS x", "must be one expression"),
        ("NAME; SELECT 2", "must be"),
        ("1 UNION SELECT 2", "must be one expression"),
        ("NAME +", "must be an expression"),
        ("number('1')", "number must have a column"),
        ("number(NAME, VKONT)", "number must have a column"),
        ("*", "STAR is not a part of expressions"),
        ("?", "must be one expression"),
        ("lower(DISTINCT NAME)", "lower is not a part of expressions"),
    ],
)
@pytest.mark.parametrize("form", ["sql", "sum"])
def test_an_expression_with_another_part_of_sql_is_refused(tmp_path: Path, text: str, sentence: str, form: str) -> None:
    with pytest.raises(MappingError, match=f"transfer_balance.*{re.escape(sentence)}"):
        mapped(tmp_path, NUMBER | {"transfer_balance": {form: text}}, {"t": TABLE})


@pytest.mark.parametrize(
    ("account", "options", "sentence"),
    [
        ({"sales_channel": {"sql": "NAM"}}, {}, "There is no column NAM in the table"),
        ({"sales_channel": {"sql": "name"}}, {}, "There is no column name in the table"),
        ({"sales_channel": {"sql": "current_date"}}, {}, "There is no column current_date in the table"),
        ({"transfer_balance": {"sum": "NAME"}}, {}, "'NAME' must be a number"),
        ({}, {"where": "NAME"}, "'NAME' must be true or false"),
        ({"sales_channel": {"sql": "NAME + 1"}}, {}, "The mapping cannot be applied to the tables"),
        ({"sales_channel": {"sql": "regexp_extract(NAME, '(')"}}, {}, "The mapping cannot be applied to the tables"),
    ],
)
def test_an_expression_that_does_not_fit_the_table_is_refused(
    tmp_path: Path, account: dict[str, Any], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Unreadable, match=re.escape(sentence)):
        lines(tmp_path, NAMED | account, {"t": TABLE}, ignore=["STREET", "BETRW", "ADAT"], **options)


@pytest.mark.parametrize(
    "spec", [{"sql": "-number(BETRW)"}, {"sum": "number(BETRW)"}, {"sql": "CASE WHEN false THEN number(BETRW) END"}]
)
def test_a_number_that_an_expression_cannot_read_refuses_its_account_with_row_and_column(
    tmp_path: Path, spec: dict[str, Any]
) -> None:
    table = "VKONT;BETRW\nV1;1,50\nV2;12.50\nV3;123456789012345678901234567890\n"
    first, second, third = lines(tmp_path, NUMBER | {"transfer_balance": spec}, {"t": table}, **FORMS)
    assert first.errors == ()
    for line, row in ((second, 3), (third, 4)):
        (error,) = line.errors
        assert (error.attr, error.code) == ("transfer_balance", "invalid")
        assert error.detail == f"Row {row}, column BETRW: the value must be written like 1.234,56."
        assert msgspec.json.decode(line.content)["transfer_balance"].startswith("UNREADABLE: 12")


@pytest.mark.parametrize("form", ["sql", "sum"])
def test_a_division_by_zero_refuses_its_account(tmp_path: Path, form: str) -> None:
    spec = {form: "number(A) / number(B)"}
    first, second = lines(tmp_path, NUMBER | {"transfer_balance": spec}, {"t": "VKONT;A;B\nV1;1;4\nV2;5;0\n"})
    assert msgspec.json.decode(first.content)["transfer_balance"] == "0.25"
    (error,) = second.errors
    assert error.detail == "Row 3, column number(A) / number(B): the value must not be infinite."


few = st.sampled_from(["", "a", "b", "c"])
pairs = st.lists(st.tuples(few, few), max_size=6)


@given(st.lists(st.tuples(few, few), min_size=1, max_size=6), st.lists(st.tuples(few, few), max_size=8), pairs, pairs)
def test_joins_give_each_account_its_rows_and_name_all_others(
    places: list[tuple[str, str]],
    points: list[tuple[str, str]],
    people: list[tuple[str, str]],
    consents: list[tuple[str, str]],
) -> None:
    """A place has the points with its key and name, an account its people, and each of these their consents."""
    consent = {"from": "m", "on": ["C"], "value": "N"}
    account = NUMBER | {
        "supply_addresses": [
            {"each": ["ORT"], "supply_address1": "ORT", "supply_points": [{"from": "z", "identifier": "Z"}]}
        ],
        "customers": [{"from": "c", "on": {"K": "VKONT"}, "family_name": "C", "consents": [consent]}],
    }
    tables = {
        "t": "VKONT;ORT;X\n" + "".join(f"{key};{place};x\n" for key, place in places),
        "z": "VKONT;ORT;Z\n" + "".join(f"{key};{place};Z{number}\n" for number, (key, place) in enumerate(points)),
        "c": "K;C;X\n" + "".join(f"{key};{name};x\n" for key, name in people),
        "m": "C;N\n" + "".join(f"{name};{number}{value}\n" for number, (name, value) in enumerate(consents)),
    }
    shared: dict[str, Any] = {"repeated": "allow", "unmatched": "ignore"}
    files = {"z": {"key": "VKONT"}, "c": shared, "m": shared}
    with tempfile.TemporaryDirectory() as name:
        strict = mapped(Path(name), account, tables, files=files, ignore=["X"])
        source = MappedSource(strict.files, strict.plan, Path(strict.mapping), None)
        decoded = [msgspec.json.decode(line.content) for line in source.lines() if line.content]
    made = {account["external_account_number"]: account for account in decoded}
    found = [
        (key, address["supply_address1"], point["identifier"])
        for key, account in made.items()
        for address in account.get("supply_addresses", ())
        for point in address.get("supply_points", ())
    ]
    known = {(key, place) for key, place in places if key and place}
    expected = [(key, place, f"Z{number}") for number, (key, place) in enumerate(points) if (key, place) in known]
    assert sorted(found) == sorted(expected)
    assert source.mapped is not None
    assert source.mapped.unused.repeated == {}
    assert len(source.mapped.unused.rows.get("z", ())) == len(points) - len(expected)
    assert {
        key: [
            (person["family_name"], [consent["value"] for consent in person.get("consents", ())])
            for person in account.get("customers", ())
        ]
        for key, account in made.items()
    } == {
        key: [
            (person, [f"{number}{value}" for number, (of, value) in enumerate(consents) if of == person])
            for of_account, person in people
            if of_account == key and person
        ]
        for key, _ in places
        if key
    }


def test_where_leaves_rows_out_and_counts_them(tmp_path: Path) -> None:
    table = "VKONT;NAME;LOEVM;AUSZDAT\nV1;Groß;;31.12.9999\nV2;Böhm;X;31.12.9999\nV3;Weiß;;01.01.2020\nV4;Lang;;\n"
    where = "LOEVM IS NULL AND coalesce(day(AUSZDAT) > DATE '2024-01-01', true)"
    source = mapped(tmp_path, NAMED, {"t": table}, where=where, **FORMS)
    assert [account["external_account_number"] for account in accounts_of(source)] == ["V1", "V4"]
    balance = "4 rows (2 left out by `where`), 12 filled cells, 7 of them ignored: AUSZDAT 2, LOEVM 1, NAME 2, VKONT 2"
    assert f"{tmp_path}/t.csv: {balance}" in [*source.written()]
    with pytest.raises(Unreadable, match=r"t\.csv, row 4, column AUSZDAT: the value must be written like DD\.MM\.YYYY"):
        lines(tmp_path, NAMED, {"t": table.replace("01.01.2020", "1.1.20")}, where=where, **FORMS)


@pytest.mark.parametrize("main", [True, False])
def test_rows_that_belong_only_to_rows_left_out_are_left_out(tmp_path: Path, main: bool) -> None:
    """The contract T3 is left out itself, or with its account; its meters E3 and E4 and their readings follow."""
    files = OF_BOOK["files"] | ({} if main else {"ever": {"key": "VKONTO", "where": "VERTRAG <> 'T3'"}})  # type: ignore[operator]
    options = OF_BOOK | {"files": files} | ({"where": "VKONT <> 'V2'"} if main else {})
    source = mapped(tmp_path, WHOLE, BOOK, **options)
    made = accounts_of(source)
    assert [account["external_account_number"] for account in made] == ["V1", "V3"] if main else ["V1", "V2", "V3"]
    assert values_of(made[0]) == [("T1", "E1", "5"), ("T1", "E1", "6"), ("T2", "E2", "9")]
    counts = [sentence for sentence in source.written() if "filled cells" in sentence]
    assert (
        "eablg: 5 rows (2 left out by `where`), 15 filled cells, 6 of them ignored: ADAT 2, EQUNR 2, STAND 2" in counts
    )
    assert "eastl: 4 rows (2 left out by `where`), 8 filled cells, 4 of them ignored: ANLAGE 2, EQUNR 2" in counts
    partner = "but000: 2 rows (1 left out by `where`), 4 filled cells, 2 of them ignored: NAME 1, PARTNER 1"
    assert (partner in counts) == main
    tables = BOOK | {"eablg": BOOK["eablg"] + "E9;01.01.2024;1\n"}
    with pytest.raises(Differs, match="table eablg: 1 row belongs to no account; the first is row 7"):
        lines(tmp_path, WHOLE, tables, **options)


def test_a_row_of_several_accounts_is_unread_only_if_none_of_them_reads_it(tmp_path: Path) -> None:
    account = NUMBER | {
        "customers": [{"from": "p", "on": {"NR": "GPART"}, "where": "ART = 'K'", "family_name": "NAME"}],
        "notes": [{"from": "p", "on": {"NR": "ABW"}, "body": "NAME"}],
    }
    tables = {"t": "VKONT;GPART;ABW\nV1;P1;\nV2;;P1\n", "p": "NR;ART;NAME\nP1;N;Groß\n"}
    options = {"files": {"p": {"repeated": "allow"}}}
    first, second = accounts(tmp_path, account, tables, **options)
    assert ("customers" in first, second["notes"]) == (False, [{"body": "Groß"}])
    with pytest.raises(Differs, match="table p: 1 row belongs to no account; the first is row 2"):
        lines(tmp_path, account, tables | {"t": "VKONT;GPART;ABW\nV1;P1;\nV2;P1;\n"}, **options)


def test_where_in_a_part_of_the_mapping_divides_the_rows_of_a_table(tmp_path: Path) -> None:
    account = NUMBER | {
        "customers": [{"from": "p", "on": ["VKONT"], "where": "ROLLE = 'K'", "family_name": "NAME"}],
        "notes": [{"from": "p", "on": ["VKONT"], "where": "ROLLE <> 'K'", "body": "NAME"}],
    }
    tables = {"t": "VKONT\nV1\nV2\n", "p": "VKONT;ROLLE;NAME\nV1;K;Groß\nV1;N;Notiz\nV2;K;Böhm\n"}
    first, second = accounts(tmp_path, account, tables)
    assert (first["customers"], first["notes"]) == ([{"family_name": "Groß"}], [{"body": "Notiz"}])
    assert "notes" not in second
    tables["p"] += "V2;;Rest\n"
    with pytest.raises(Differs, match="table p: 1 row belongs to no account; the first is row 5"):
        lines(tmp_path, account, tables)
    assert len(accounts(tmp_path, account, tables, files={"p": {"unmatched": "ignore"}})) == 2


@pytest.mark.parametrize(("option", "value"), [("first", "7"), ("last", "40")])
def test_first_and_last_choose_a_row_of_each_object(tmp_path: Path, option: str, value: str) -> None:
    reading = {"from": "r", "on": ["VKONT"], "each": ["Z"], option: "by ADAT", "body": "STAND"}
    of_parent = {name: content for name, content in reading.items() if name != "each"} | {"type": "Z"}
    tables = {"t": "VKONT\nV1\n", "r": "VKONT;Z;ADAT;STAND\nV1;a;01.02.2023;9\nV1;a;02.01.2023;7\nV1;a;03.12.2023;40\n"}
    source = mapped(tmp_path, NUMBER | {"notes": [reading]}, tables, **FORMS)
    assert [made["notes"] for made in accounts_of(source)] == [[{"body": value}]]
    assert "r: 3 rows, 12 filled cells, 4 of them ignored: ADAT 2, STAND 2" in [*source.written()]
    field = {"column": "STAND", option: "by ADAT"}
    (made,) = accounts(tmp_path, NUMBER | {"sales_channel": field}, {"t": tables["r"]}, ignore=["Z"], **FORMS)
    assert made["sales_channel"] == value
    tables["r"] += "V1;b;10.06.2023;3\n"
    (made,) = accounts(tmp_path, NUMBER | {"notes": [reading | {"type": "Z"}]}, tables, **FORMS)
    assert made["notes"] == [{"body": value, "type": "a"}, {"body": "3", "type": "b"}]
    (made,) = accounts(tmp_path, NUMBER | {"notes": [of_parent]}, tables, **FORMS)
    assert made["notes"] == [{"body": value, "type": "a"}]


def test_a_sum_adds_all_rows_of_its_object_exactly(tmp_path: Path) -> None:
    account = NUMBER | {
        "ledgers": [{"from": "op", "each": ["ART"], "ledger_code": "ART", "ledger_balance": {"sum": "-number(B)"}}]
    }
    tables = {"t": "VKONT\nV1\n", "op": "VKONT;ART;B\nV1;S;0,10\nV1;S;0,20\nV1;G;-5\nV1;S;0,10\n"}
    (made,) = accounts(tmp_path, account, tables, files={"op": {"key": "VKONT"}}, **FORMS)
    assert made["ledgers"] == [
        {"ledger_code": "S", "ledger_balance": "-0.4"},
        {"ledger_code": "G", "ledger_balance": "5"},
    ]


def test_a_value_without_an_entry_in_its_lookup_table_is_an_error_that_names_it(tmp_path: Path) -> None:
    title = {"column": "ANREDE", "table": "anrede"}
    account = NUMBER | {"customers": [{"family_name": "NAME", "title": title}]}
    table = {"t": "VKONT;NAME;ANREDE\nV1;Groß;1\nV2;Böhm;9\nV3;Weiß;\n"}
    tables = {"anrede": {"1": "Frau"}}
    first, second, third = lines(tmp_path, account, table, tables=tables)
    assert (first.errors, third.errors) == ((), ())
    (error,) = second.errors
    assert error.attr == "customers.0.title"
    detail = "Row 3, column ANREDE: the value must have an entry in the lookup table anrede: '9' has none."
    assert error.detail == detail
    title["default"] = ""
    made = accounts(tmp_path, account, table, tables=tables)
    assert [one["customers"][0].get("title") for one in made] == ["Frau", None, None]


def test_columns_whose_names_differ_in_case_only_are_two(tmp_path: Path) -> None:
    account = NUMBER | {"billing_address4": "Ort", "billing_address1": {"sql": "\"ORT\" || '!'"}}
    (made,) = accounts(tmp_path, account, {"t": "VKONT;Ort;ORT\nV1;Ulm;Bonn\n"})
    assert (made["billing_address4"], made["billing_address1"]) == ("Ulm", "Bonn!")


def test_numbers_of_a_workbook_need_no_form_in_expressions(tmp_path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    assert book.active is not None
    for row in (["VKONT", "BETRW"], ["V1", 1234.5], ["V2", "1.234,50"]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    path = mapping_at(tmp_path, NUMBER | {"transfer_balance": {"sql": "-number(BETRW)"}}, **FORMS)
    made = accounts_of(source_of(path, "t.xlsx"))
    assert [account["transfer_balance"] for account in made] == ["-1234.5", "-1234.5"]


def test_a_field_can_come_from_another_table(tmp_path: Path) -> None:
    street = {"from": "adrc", "on": {"PARTNER": "GPART"}, "column": "STREET", "where": "ART = 'R'"}
    tables = {"fkkvkp": BOOK["fkkvkp"], "adrc": "PARTNER;ART;STREET\nP1;R;Allee\nP2;R;Ring\n"}
    made = accounts(tmp_path, NUMBER | {"billing_address1": street}, tables, files={"adrc": {"repeated": "allow"}})
    assert [account["billing_address1"] for account in made] == ["Allee", "Ring", "Allee"]
    tables["adrc"] += "P2;R;Weg\n"
    with pytest.raises(Differs, match=r"column adrc\.STREET: a value is not used, in 1 account; the first is 'Weg'"):
        lines(tmp_path, NUMBER | {"billing_address1": street}, tables, files={"adrc": {"repeated": "allow"}})


# The list of values


def list_of(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines(), delimiter=";"))


@pytest.mark.promise("importbook-value-list")
def test_a_list_of_values_is_written_filled_in_and_used(tmp_path: Path) -> None:
    spec = {"column": "ANREDE", "table": "anrede"}
    account = NUMBER | {"customers": [{"family_name": "NAME", "title": spec}], "sales_channel": spec | {"column": "K"}}
    table = "VKONT;NAME;ANREDE;K\n01;Groß;01;=x\n02;Böhm;02;\n03;Weiß;01;\n04;Lang;09;\n"
    mapped(tmp_path, account, {"t": table}, values="w.csv", tables={"anrede": {"02": "Frau"}})
    made = importbook("map", "values", "m.yaml", "t.csv", at=tmp_path)
    assert (made.returncode, made.stdout) == (1, "4 values in w.csv · without a target: 3\n")
    assert list_of(tmp_path / "w.csv") == [
        ["table", "value", "target", "example", "rows"],
        ["anrede", '="01"', "", '="01"', "2"],
        ["anrede", '="02"', "Frau", '="02"', "1"],
        ["anrede", '="09"', "", '="04"', "1"],
        ["anrede", "'=x", "", '="01"', "1"],
    ]
    filled = (tmp_path / "w.csv").read_text(encoding="utf-8-sig")
    filled = (
        filled.replace('"=""01""";;', "01;Herr;", 1).replace('"=""09""";;', "09;-;").replace("'=x;;", "'=x;DIRECT;")
    )
    (tmp_path / "w.csv").write_text(filled, encoding="utf-8-sig")
    (tmp_path / "t.csv").write_text(table + "05;Neu;07;\n", encoding="utf-8")
    found = list(source_of(tmp_path / "m.yaml", "t.csv").lines())
    decoded = [msgspec.json.decode(line.content) for line in found]
    titles = [account["customers"][0].get("title") for account in decoded]
    assert titles == ["Herr", "Frau", "Herr", None, "UNREADABLE: 07"]
    assert decoded[0]["sales_channel"] == "DIRECT"
    (error,) = found[-1].errors
    assert "must have an entry in the lookup table anrede: '07' has none" in error.detail
    made = importbook("map", "values", "m.yaml", "t.csv", at=tmp_path)
    assert (made.returncode, made.stdout) == (1, "5 values in w.csv · without a target: 1\n")
    assert [row[1:3] for row in list_of(tmp_path / "w.csv")][1:] == [
        ['="01"', "Herr"],
        ['="02"', "Frau"],
        ['="07"', ""],
        ['="09"', "-"],
        ["'=x", "DIRECT"],
    ]


def test_a_filled_in_list_outlives_a_list_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped(
        tmp_path, NUMBER | {"sales_channel": {"column": "K", "table": "k"}}, {"t": "VKONT;K\n01;a\n"}, values="w.csv"
    )
    path = tmp_path / "w.csv"
    path.write_text("table;value;target\nk;a;DIRECT\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(value_list, "_unchanged", lambda cell: 1 / 0)
        assert importbook("map", "values", "m.yaml", "t.csv", at=tmp_path).returncode == 2
    assert path.read_text(encoding="utf-8") == "table;value;target\nk;a;DIRECT\n"
    assert importbook("map", "values", "m.yaml", "t.csv", at=tmp_path).returncode == 0
    assert list_of(path)[1:] == [["k", "a", "DIRECT", '="01"', "1"]]
    assert (path.stat().st_mode & 0o777, sorted(found.name for found in tmp_path.iterdir())) == (
        0o600,
        ["m.yaml", "t.csv", "w.csv"],
    )


def test_a_list_in_a_workbook_is_not_replaced_by_csv(tmp_path: Path) -> None:
    mapped(
        tmp_path, NUMBER | {"sales_channel": {"column": "K", "table": "k"}}, {"t": "VKONT;K\n01;a\n"}, values="w.xlsx"
    )
    refused = importbook("map", "values", "m.yaml", "t.csv", at=tmp_path)
    assert (refused.returncode, "w.xlsx is a workbook, but the list is written as CSV" in refused.stderr) == (2, True)
    assert not (tmp_path / "w.xlsx").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("table;value\nx;1\n", "must have the columns table, value and target"),
        ("table;value;target\nx;1;a\nx;1;b\n", "row 3: '1' must have one target"),
    ],
)
def test_a_list_that_does_not_decide_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "w.csv").write_text(content, encoding="utf-8")
    with pytest.raises(Unreadable, match=re.escape(sentence)):
        mapped(tmp_path, NUMBER, {"t": "VKONT\nV1\n"}, values="w.csv")


def test_map_values_needs_a_name_for_its_list(tmp_path: Path) -> None:
    mapped(tmp_path, NUMBER, {"t": "VKONT\nV1\n"})
    shown = importbook("map", "values", "m.yaml", "t.csv", at=tmp_path)
    assert (shown.returncode, "pass -o, or name it in the mapping" in shown.stderr) == (2, True)


# Proposals

SAP = {
    "FKKVKP": "VKONT;GPART\n0001;P1\n0002;P2\n0003;P1\n",
    "BUT000": "PARTNER;NAME_LAST;GEBDAT;CITY1\nP2;Böhm;01.02.1980;Ulm\nP1;Groß;00.00.0000;Bonn\n",
    "EVER": "VERTRAG;VKONTO;ANLAGE;AUSZDAT;EXT_UI;STRASSE\n"
    "1;0001;A1;31.12.9999;M1;Allee\n2;0003;A2;31.12.9999;M2;Weg\n",
    "EASTL": "ANLAGE;EQUNR;AB\nA1;E1;01.01.2020\nA2;E2;01.01.2020\nA2;E3;01.01.2020\n",
    "EABL": "EQUNR;ADAT;V_ZWSTAND\nE1;01.01.2024;5\nE3;01.02.2024;7,5\nE2;01.02.2024;6\n",
}


@pytest.mark.promise("importbook-map-init-joins")
def test_map_init_proposes_joins_from_equal_values_and_names_of_sap(tmp_path: Path) -> None:
    for name, content in SAP.items():
        (tmp_path / f"{name}.csv").write_text(content, encoding="utf-8")
    files = [f"{name}.csv" for name in SAP]
    shown = importbook("map", "init", *files, "--preset", "sap-is-u", at=tmp_path)
    for joined in ("BUT000.PARTNER = GPART", "EVER.VKONTO = VKONT", "EASTL.ANLAGE = EVER.ANLAGE"):
        assert f"# joined: {joined}, which has 100% of its values" in shown.stdout.splitlines()
    assert "# not used yet: EVER.VERTRAG" in shown.stdout.splitlines()
    assert "# not used yet: GPART" not in shown.stdout
    path = tmp_path / "m.yaml"
    path.write_text(shown.stdout.replace("ignore: []", "ignore: [VERTRAG]"), encoding="utf-8")
    first, second, third = accounts_of(source_of(path, "FKKVKP.csv"))
    assert first["customers"] == [{"family_name": "Groß"}]
    assert second["customers"] == [{"family_name": "Böhm", "date_of_birth": "1980-02-01"}]
    assert [account["billing_address4"] for account in (first, second, third)] == ["Bonn", "Ulm", "Bonn"]
    assert third["supply_addresses"][0]["supply_address1"] == "Weg"
    (point,) = third["supply_addresses"][0]["supply_points"]
    assert point["identifier"] == "M2"
    meters = [meter for melo in point["melos"] for meter in melo["meters"]]
    assert [meter["meter_number"] for meter in meters] == ["E2", "E3"]
    values = [reading["value"] for meter in meters for place in meter["registers"] for reading in place["readings"]]
    assert values == ["6", "7.5"]


def test_map_init_names_a_table_without_equal_values_and_a_name_twice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("VKONT;NAME\n1;x\n2;y\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("NR;WERT\n8;1,5\n9;2,5\n", encoding="utf-8")
    shown = importbook("map", "init", "a.csv", "b.csv", at=tmp_path)
    assert "# not joined: b.csv: no column has the values of another table" in shown.stdout.splitlines()
    assert "files" not in yaml.safe_load(shown.stdout)
    again = importbook("map", "init", "a.csv", "b.csv", "b.csv", at=tmp_path)
    assert (again.returncode, "the name b must belong to one file" in again.stderr) == (2, True)


# JSON


@pytest.mark.promise("importbook-bo4e")
def test_bo4e_objects_are_read_like_tables(tmp_path: Path) -> None:
    contracts = [
        {"_typ": "VERTRAG", "vertragsnummer": "V1", "vertragspartner2": {"id": "P1"}, "malo": "M1"},
        {"_typ": "VERTRAG", "vertragsnummer": "V2", "vertragspartner2": {"id": "P2"}, "malo": None, "betrag": 1.50},
    ]
    (tmp_path / "VERTRAG.json").write_text(msgspec.json.encode(contracts).decode(), encoding="utf-8")
    (tmp_path / "gp").mkdir()
    for number, (name, town) in enumerate((("Groß", "Ulm"), ("Böhm", "")), 1):
        partner = {"id": f"P{number}", "name1": name, "partneradresse": {"ort": town}, "rollen": ["KUNDE"]}
        content = msgspec.json.format(msgspec.json.encode(partner), indent=2)
        (tmp_path / "gp" / f"{number}.json").write_bytes(content)
    partner = {"from": "gp", "on": {"id": "vertragspartner2.id"}}
    account = {
        "external_account_number": "vertragsnummer",
        "transfer_balance": "betrag",
        "customers": [partner | {"family_name": "name1"}],
        "billing_address4": {"from": "gp", "on": {"id": "vertragspartner2.id"}, "column": "partneradresse.ort"},
        "supply_addresses": [{"supply_points": [{"identifier": "malo"}]}],
    }
    path = mapping_at(tmp_path, account, files={"gp": {"path": "gp/*.json"}}, ignore=["_typ", "rollen.0"])
    assert accounts_of(source_of(path, "VERTRAG.json")) == [
        {
            "external_account_number": "V1",
            "customers": [{"family_name": "Groß"}],
            "billing_address4": "Ulm",
            "supply_addresses": [{"supply_points": [{"identifier": "M1"}]}],
        },
        {"external_account_number": "V2", "transfer_balance": "1.5", "customers": [{"family_name": "Böhm"}]},
    ]
    proposed = importbook("map", "init", "VERTRAG.json", "--preset", "bo4e", at=tmp_path)
    assert yaml.safe_load(proposed.stdout)["key"] == "vertragsnummer"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('[{"Nr": "1", "Nr": "2"}]', "column Nr: 1 filled cell was read, and 2 counted"),
        ('[{"Nr": "1"}, 2]', "row 3 must be a JSON object"),
        ('{"Nr": "1"', "row 2 must be a JSON object"),
        ('{"Nr": "1"}\n{"Nr": "2"', "row 3 must be a JSON object"),
        ('[{"Nr": "1"}', "row 1 must be a JSON object"),
        ('{"Nr": "\xff"}', "row 2 must be a JSON object"),
    ],
)
def test_json_that_could_be_misread_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    path = mapping_at(tmp_path, {"external_account_number": "Nr"})
    (tmp_path / "t.json").write_text(content, encoding="latin-1")
    with pytest.raises(Unreadable, match=re.escape(sentence)):
        accounts_of(source_of(path, "t.json"))


json_cells = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)
json_values = json_cells | st.lists(json_cells, max_size=2)
json_objects = st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values, max_size=3)


@given(st.lists(json_objects, min_size=1, max_size=4), st.booleans())
def test_json_that_python_writes_reads_back_equal(objects: list[dict[str, Any]], is_list: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "t.json"
        path.write_text(json.dumps(objects) if is_list else "\n".join(map(json.dumps, objects)), encoding="utf-8")
        table = Table([str(path)], TableSource())
        found = [dict(zip(table.columns, row, strict=True)) for _, row in table.rows()]
    for row, written in zip(found, objects, strict=True):
        flat = {
            (f"{column}.{place}" if isinstance(value, list) else column): cell
            for column, value in written.items()
            for place, cell in enumerate(value if isinstance(value, list) else [value])
        }
        assert {column: cell for column, cell in row.items() if cell is not None} == {
            column: cell for column, cell in flat.items() if cell not in (None, "")
        }


def test_progress_is_shown_while_tables_are_read_and_accounts_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_source, "_SHOWN_ROWS", 2)
    monkeypatch.setattr(mapped_source, "_SHOWN_ACCOUNTS", 2)
    source = mapped(tmp_path, WHOLE, BOOK, **OF_BOOK)
    shown: list[tuple[str, float | None]] = []
    source.show = lambda text, share: shown.append((text.replace(f"{tmp_path}/", ""), share))
    assert next(source.lines()).external == "V1"
    assert ("reading eablg.csv: 4 rows", None) in shown
    assert shown[-1] == ("made 2 of 3 accounts", 2 / 3)


def test_the_sap_example_of_the_guide_makes_accounts(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "map-tables.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(where: .*?)```", guide, re.DOTALL)
    tables = {
        "FKKVKP": "VKONT;GPART;LOEVM\nV1;P1;\nV2;P1;X\n",
        "BUT000": "PARTNER;NAME_LAST;NAME_FIRST\nP1;Groß;Käthe\n",
        "EVER": "VERTRAG;VKONTO;ANLAGE\nT1;V1;A1\nT2;V2;A2\n",
        "EASTL": "ANLAGE;EQUNR;AB\nA1;E1;01.01.2020\nA1;E2;01.01.2022\nA2;E3;01.01.2022\n",
        "DFKKOP": "VKONT;BETRW\nV1;12,50\nV1;-2,00\nV2;7,00\n",
    }
    for name, content in tables.items():
        (tmp_path / f"{name}.csv").write_text(content, encoding="utf-8")
    path = tmp_path / "m.yaml"
    path.write_text(example, encoding="utf-8")
    (made,) = accounts_of(source_of(path, "FKKVKP.csv"))
    meters = [{"meter_number": "E2"}]
    assert made == {
        "external_account_number": "V1",
        "transfer_balance": "-10.5",
        "customers": [{"family_name": "Groß", "given_name": "Käthe"}],
        "supply_addresses": [{"supply_points": [{"identifier": "T1", "melos": [{"meters": meters}]}]}],
    }
