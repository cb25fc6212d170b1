"""Projections that are made anew equal the live ones; differences are found and told."""

from typing import Any

import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from projections import PLATFORM, PROJECTIONS
from projections.versions.compare import verify
from projections.versions.projection import Projection
from projections.versions.versions import (
    live_version,
)

BY_NAME = {projection.name: projection for projection in PROJECTIONS}
STATUS = BY_NAME["import_status"]
each = pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.name)


@pytest.mark.promise("accounts-market-data-become-platform")
@each
def test_every_projection_has_rows_and_is_what_the_log_says(
    admin: Connection[Any], database: PostgresUrls, projection: Projection
) -> None:
    found = verify(database.admin, admin, projection, limit=3)
    assert found.first == ()
    rows = admin.execute(f"SELECT count(*) FROM {projection.home}.{projection.tables[0]}".encode()).fetchone()
    assert rows is not None
    assert rows[0] > 0
    assert live_version(admin, projection.name).differences == 0


def test_a_row_that_differs_is_told_with_the_event_that_was_not_applied(
    admin: Connection[Any], database: PostgresUrls
) -> None:
    admin.execute("UPDATE import_status SET status = 'IN_PROGRESS', position = 9 WHERE account_number LIKE 'A-%'")
    found = verify(database.admin, admin, STATUS, limit=5)
    assert (found.changed, found.added, found.removed) == (4, 0, 0)
    assert set(found.first[0].columns) == {"status", "position"}
    assert "the row was last written at 9; the event at" in found.first[0].cause
    assert "was not applied" in found.first[0].cause
    assert live_version(admin, "import_status").differences == 4
    admin.execute("DELETE FROM platform.customer")
    found = verify(database.admin, admin, PLATFORM, limit=2)
    assert found.added == 3
