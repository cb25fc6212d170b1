"""The filter of the list in addresses and queries, the CSV export, and encrypted searches."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.presentation.listing import CSV_COLUMNS, Filter, as_csv, csv_in, hidden, import_address, neutral, revealed
from importledger_client.failures import neutral as importers_neutral
from projections.queries.import_list import ListedRow


def test_an_address_is_read_and_said_again() -> None:
    values = {"supplier": "S", "status": "ERRORED", "code": "blank", "path": "customers[].email", "day": "2026-11-22"}
    chosen = Filter.of(values | {"after": "7"})
    assert chosen.query() == ("?supplier=S&status=ERRORED&code=blank&path=customers%5B%5D.email&day=2026-11-22")
    assert chosen.query(status="", after="9").endswith("&after=9")
    restricted_to = chosen.restricted_to(["R", "S"])
    assert (restricted_to.suppliers, restricted_to.day, restricted_to.is_problem) == (("S",), date(2026, 11, 22), True)
    assert Filter.of({"supplier": "FOREIGN"}).restricted_to(["R", "S"]).suppliers == ()
    assert not Filter.of({}).is_narrowed
    searched = Filter.of({"q": "Müller"}, "hidden")
    assert (searched.q, searched.query(), searched.restricted_to(["S"]).text) == ("Müller", "?search=hidden", "Müller")
    assert Filter.of({"q": ""}, "of another session").query() == ""


@pytest.mark.parametrize("day", ["22.11.2026", "2026-13-01", "x" * 10, "20261122"])
def test_what_is_not_understood_is_named(day: str) -> None:
    chosen = Filter.of({"day": day, "status": "GONE"})
    assert (chosen.misread, chosen.day, chosen.status) == (("status", "day"), "", "")


@pytest.mark.asvs("V1.2.1")
@pytest.mark.parametrize("neutral", [neutral, importers_neutral])
@given(st.text("=+-@＝＋－＠;,\t\r\n \"'ab", max_size=12))
@example("=1+1").via("a formula")
@example("a;=1").via("a formula of a German spreadsheet")
@example("a\t\u3000＝1").via("full-width")
@example("\nx").via("a line feed")
def test_no_cell_is_a_formula_whatever_separates_cells(neutral: Callable[[str], str], cell: str) -> None:
    written = neutral(cell)
    assert written[:1] not in ("\t", "\r", "\n")
    for part in re.split("[;\t\r\n]", written):
        assert re.sub(r'^[\s"]+', "", part)[:1] not in set("=+-@＝＋－＠")
    assert written.replace("'", "") == cell.replace("'", "")


def test_rows_are_written_as_csv() -> None:
    at = datetime(2026, 11, 22, 9, tzinfo=UTC)
    row = ListedRow(
        supplier="S", external_account_number='=A,"1"', status="ERRORED", account_number=None, created_at=at,
        modified_at=at, error_code="blank", error_path="customers[].email", attempt=1, sort_key=7,
    )  # fmt: skip
    assert csv_in("de").head == b"\xef\xbb\xbf" + ",".join(CSV_COLUMNS).encode() + b"\r\n"
    problem = "blank,customers[].email,Customers → email must not be blank."
    times = "2026-11-22T10:00:00+01:00,2026-11-22T10:00:00+01:00\r\n"  # German market time
    assert as_csv([row]).decode() == f'S,"\'=A,""1""",ERRORED,,{problem},{times}'
    assert "nicht leer" in csv_in("de").encode([row]).decode()
    clean = msgspec.structs.replace(row, error_code=None, error_path="")
    assert as_csv([clean]).decode() == f'S,"\'=A,""1""",ERRORED,,,,,{times}'
    assert neutral("NO-1") == "NO-1"


@pytest.mark.asvs("V1.2.2", "V1.2.5")
def test_an_address_holds_any_number() -> None:
    assert import_address("S", "a/b?<c>") == "/console/imports/S/a%2Fb%3F%3Cc%3E/"


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_a_search_in_an_address_is_read_by_its_session_alone(text: str, token: str, other: str) -> None:
    address = hidden(text, token)
    assert revealed(address, token) == text
    assert revealed(address, other) == (text if other == token else "")
    assert revealed(text, token) == ""
