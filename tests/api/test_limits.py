"""One table of limits, and what the operators read is made from it."""

from api.generated import OPERATIONS_PAGE, RESTATED, contract_changes, operations_page
from api.limits import LIMITS


def test_the_page_for_operators_shows_the_table_of_limits() -> None:
    page = OPERATIONS_PAGE.read_text()
    assert operations_page(page) == page, "say `make docs`"
    assert all(f"| {limit.name} | {limit.value} |" in page for limit in LIMITS)


def test_a_bound_of_a_request_may_be_restated_only_where_a_reason_is_listed() -> None:
    for row in RESTATED:
        assert row.reason
        released = {"schema": {"type": "string", "pattern": row.was}}
        present = {"schema": {"type": "string"} | ({"pattern": row.now} if row.now else {})}
        assert list(contract_changes(released, present)) == []
        assert list(contract_changes(released, {"schema": {"type": "string", "pattern": "^other$"}}))
    assert list(contract_changes({"schema": {"pattern": "^a$"}}, {"schema": {}}))


def test_a_bound_of_a_request_is_never_narrowed() -> None:
    assert [row.now for row in RESTATED] == [r"^[\s\S]{1,254}$", None]
