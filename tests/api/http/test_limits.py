"""There is one table of limits, from which the operators' page is generated."""

import pytest

from api.http.limits import LIMITS
from checks.generated import LIMITS_PAGE, limits_page


@pytest.mark.promise("one-table-limits-one")
@pytest.mark.asvs("V2.1.3", "V5.1.1", "V15.1.3")
def test_the_page_for_operators_shows_the_table_of_limits() -> None:
    page = LIMITS_PAGE.read_text()
    assert limits_page(page) == page, "say `make docs`"
    assert all(f"| {limit.name} | {limit.value} |" in page for limit in LIMITS)
