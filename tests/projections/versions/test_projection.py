"""A projection's tables are what its declaration says, and take in what others have left."""

from typing import Any

import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log import copying
from eventstore.log.ledger import Ledger
from projections import INLINE, MARKET, PLATFORM, PROJECTIONS
from projections.versions.compare import verify
from projections.versions.install import install
from projections.versions.reading import Seen, head, read_ordered


def test_a_column_that_a_later_version_adds_does_not_stop_a_first_copy(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    view = next(one for one in INLINE if one.name == "account_record")
    admin.execute("ALTER TABLE account_record ADD COLUMN added_later text")
    copying._types.clear()  # as in a process that has copied nothing yet
    admin.execute("TRUNCATE account_record")
    found = read_ordered(admin, view.topics, after=0, upto=head(admin))
    seen = next(one for one in found if isinstance(one, Seen))
    view.load(admin, "public", {view.name: [view.project(seen.recorded, seen.position)]})
    assert admin.execute("SELECT count(*), max(added_later) FROM account_record").fetchone() == (1, None)


@pytest.mark.promise("accounts-market-data-become-platform")
def test_market_records_of_the_version_before_are_there_after_the_migration(
    admin: Connection[Any], database: PostgresUrls
) -> None:
    admin.execute("DELETE FROM projection_versions WHERE name = 'market'")
    for table in MARKET.tables:
        admin.execute(f"DELETE FROM platform.{table}".encode())
    install(admin, PROJECTIONS, None)
    assert verify(database.admin, admin, MARKET, limit=9).first == ()
    assert verify(database.admin, admin, PLATFORM, limit=9).first == ()
