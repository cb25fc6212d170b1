"""Rows that differ between two versions of a projection: key, columns, and masked values."""

from projections import PLATFORM
from projections.versions.compare import Comparison, Difference
from projections.views.account_search import ACCOUNT_SEARCH
from projections.views.import_status import IMPORT_STATUS
from workers.row_differences import MAX_VALUE, ROWS, differing_rows

KEY = {"supplier": "NW", "external_account_number": "1"}


def test_a_changed_row_has_the_columns_that_differ() -> None:
    before, after = ({"status": status, "position": 7, **KEY} for status in ("PENDING", "ERRORED"))
    changed = Difference("import_status", KEY, before, after)
    result = differing_rows(Comparison(1, 0, 0, (changed,) * (ROWS + 1)), IMPORT_STATUS)
    assert (result["changed"], len(result["rows"])) == (1, ROWS)
    assert result["rows"][0] == {
        "table": "import_status",
        "kind": "changed",
        "key": KEY,
        "columns": [["status", "PENDING", "ERRORED"]],
        "cause": "the event at 7 was applied, and the row was changed since",
    }


def test_an_added_or_removed_row_has_all_columns() -> None:
    row = {**KEY, "status": "PENDING", "error_code": None, "attempt": 2}
    sides = (("added", Difference("t", KEY, None, row)), ("removed", Difference("t", KEY, row, None)))
    for kind, difference in sides:
        [result] = differing_rows(Comparison(first=(difference,)), IMPORT_STATUS)["rows"]
        columns = {name: (before, after) for name, before, after in result["columns"]}
        assert result["kind"] == kind
        assert columns.keys() == {"status", "attempt"}
        assert columns["attempt"] == ((None, "2") if kind == "added" else ("2", None))


def test_values_about_persons_are_masked_and_long_values_are_cut() -> None:
    key = {"account_number": "A-1", "customer_ordinal": 0}
    before, after = ({**key, "family_name": name, "notes": [name]} for name in ("Zauberwald", "Zauberberg"))
    [result] = differing_rows(Comparison(first=(Difference("customer", key, before, after),)), PLATFORM)["rows"]
    assert result["key"] == {"account_number": "A-1", "customer_ordinal": "0"}
    assert result["columns"] == [["family_name", "Z•••", "Z•••"], ["notes", '["Z•••"]', '["Z•••"]']]
    stream = {"stream": "import/NW/1"}
    found = Difference("account_search", stream, {**stream, "names": "anna"}, None)
    [result] = differing_rows(Comparison(first=(found,)), ACCOUNT_SEARCH)["rows"]
    assert result["columns"] == [["names", "a•••", None]]
    long = Difference("t", KEY, {**KEY, "error_detail": "x" * 999}, None)
    [result] = differing_rows(Comparison(first=(long,)), IMPORT_STATUS)["rows"]
    assert len(result["columns"][0][1]) == MAX_VALUE + 1
