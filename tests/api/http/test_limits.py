"""One table of limits, and what the operators read is made from it."""

from typing import Any

import pytest

from api.generated import OPERATIONS_PAGE, RESTATED, Restated, contract_changes, operations_page
from api.http.limits import LIMITS


@pytest.mark.promise("one-table-limits-one")
@pytest.mark.asvs("V2.1.3", "V5.1.1", "V15.1.3")
def test_the_page_for_operators_shows_the_table_of_limits() -> None:
    page = OPERATIONS_PAGE.read_text()
    assert operations_page(page) == page, "say `make docs`"
    assert all(f"| {limit.name} | {limit.value} |" in page for limit in LIMITS)


@pytest.mark.promise("description-s-patterns-say")
def test_a_part_may_be_restated_only_where_a_reason_is_listed() -> None:
    def described(row: Restated, value: Any) -> dict[str, Any]:
        """A description with nothing but this part, at the end of its place."""
        part: Any = {} if value is None else {(row.place or "/pattern").rpartition("/")[2]: value}
        for step in reversed((row.place or "/pattern").split("/")[1:-1]):
            part = {step: part}
        return {"components": {"schemas": {}}, "schema": part}

    for row in RESTATED:
        assert row.reason
        assert list(contract_changes(described(row, row.was), described(row, row.now))) == []
        if row.was is not None:
            assert list(contract_changes(described(row, row.was), described(row, "^other$")))
    assert list(contract_changes({"components": {"schemas": {}}, "schema": {"pattern": "^a$"}}, {"schema": {}}))
