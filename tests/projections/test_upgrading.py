"""What a newer version does to projections is told before it is done."""

import psycopg

from embedded.postgres import PostgresUrls
from projections.versioning.upgrading import projection_changes


def test_a_projection_that_is_new_or_behind_is_told(database: PostgresUrls) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        assert projection_changes(connection) == []
        connection.execute("DELETE FROM projection_versions WHERE name = 'account_search'")
        connection.execute("UPDATE projection_versions SET definition = 'other' WHERE name = 'error_statistics'")
        changes = {one.name: one for one in projection_changes(connection)}
    assert changes["account_search"].change == "new"
    assert changes["error_statistics"].change == "outdated"
    assert "projections rebuild error_statistics" in changes["error_statistics"].says
    assert all(one.can_be_rolled for one in changes.values())
