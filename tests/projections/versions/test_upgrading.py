"""What a newer version does to projections is told before it is done."""

import psycopg
import pytest
from click.testing import CliRunner

from cli.projections import projections
from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.versions.install import projection_changes


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


@pytest.mark.promise("creates-go-while-new")
def test_an_inline_view_that_is_new_cannot_be_rolled_once_there_are_events(
    database: PostgresUrls, ledger: Ledger
) -> None:
    """Processes of the version before append without writing to it: their events would be missing."""
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("DROP TABLE disclosure; DELETE FROM projection_versions WHERE name = 'disclosure'")
        assert [(one.change, one.can_be_rolled) for one in projection_changes(connection)] == [("new", True)]
        ledger.execute("supplier/A", CreateSupplier(), at=now(), by="t")
        assert [(one.change, one.can_be_rolled) for one in projection_changes(connection)] == [("new", False)]


def test_what_an_upgrade_has_left_outdated_is_rebuilt_together(
    database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database.service)
    monkeypatch.setenv("DATABASE_ADMIN_URL", database.admin)
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute(
            "UPDATE projection_versions SET definition = 'other' WHERE name IN ('account_search', 'error_statistics')"
        )
        rebuilt = CliRunner().invoke(projections, ["rebuild", "--outdated"])
        assert rebuilt.exit_code == 0, rebuilt.output
        assert "account_search: the previous version had another definition; switched" in rebuilt.stdout
        assert "import_status" not in rebuilt.stdout
        assert projection_changes(connection) == []
    again = CliRunner().invoke(projections, ["rebuild", "--outdated"])
    assert (again.exit_code, again.stdout) == (0, "No projection is outdated.\n")
