"""Installing projections: their tables, columns, rights and rows, in a new database and in an upgrade."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import Connection
from psycopg.rows import TupleRow

from cli.projections import projections
from embedded.postgres import PostgresUrls
from eventstore.aggregates.organisation import CreateKey, RevokeKey
from eventstore.aggregates.supplier import SUPPLIER as OF_SUPPLIERS
from eventstore.aggregates.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log import copy_format
from eventstore.log.ledger import Ledger
from eventstore.operations.migrate import migrate, role_of
from eventstore.operations.rights import READ
from projections import INLINE, MARKET, PLATFORM, PROJECTIONS
from projections.versions.compare import heal, verify
from projections.versions.install import install, migrate_all, projection_changes
from projections.versions.versions import build_version, live_version, version_lock, versions
from projections.versions.view import View
from projections.views.import_supplier import IMPORT_SUPPLIER
from tests.support.databases import Admin, renamed
from tests.support.eventful_log import import_participant
from tests.support.make import NOON, an_account
from tests.support.pre_account import a_participant
from tests.support.staging import SUPPLIER, stage, status
from workers.actors.process_imports import ImportProcessor


def seen_in(recorded: Recorded) -> dict[str, Any]:
    return {"last_topic": recorded.topic}


def a_view(row: Callable[[Recorded], dict[str, Any]] = seen_in, **more: Any) -> View:
    """A view with the last event of each supplier."""
    columns = "code text NOT NULL, last_topic text NOT NULL, position bigint NOT NULL"
    changes = dict.fromkeys(OF_SUPPLIERS.topics.values(), lambda event, recorded: row(recorded))
    return View("supplier_seen", columns, changes, prefix="supplier", named=("code",), **more)


NEW = a_view(rights=READ)


def test_an_upgrade_adds_an_index_that_the_platform_lacks(database: PostgresUrls, admin: Connection[TupleRow]) -> None:
    admin.execute("DROP INDEX platform.service_account_referring")
    for _ in range(2):
        install(admin, PROJECTIONS, role_of(database.service))
        [(is_there,)] = admin.execute("SELECT to_regclass('platform.service_account_referring') IS NOT NULL").fetchall()
        assert is_there


def test_a_new_view_needs_no_migration(database: PostgresUrls, ledger: Ledger, admin: Connection[TupleRow]) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    ledger.execute("supplier/A", ConfigureSupplier(strictness="strict"), at=NOON, by="t")
    for _ in range(2):
        install(admin, (NEW,), role_of(database.service))
    with psycopg.connect(database.service, autocommit=True) as connection:
        rows = connection.execute("SELECT code, last_topic, position FROM supplier_seen").fetchall()
        assert rows == [("A", "supplier_configured.v1", 2)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM supplier_seen")
    with closing(Ledger(database.admin, views=(NEW,))) as opened:
        opened.execute("supplier/B", CreateSupplier(), at=NOON, by="t")
    assert admin.execute("SELECT code, position FROM supplier_seen ORDER BY position").fetchall() == [
        ("A", 2),
        ("B", 3),
    ]


class Waiting:
    """Makes rows of the new view, and blocks at one event."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.has_come, self.may_go_on = Event(), Event()

    def row(self, recorded: Recorded) -> dict[str, Any]:
        if recorded.position == self.last:
            self.has_come.set()
            assert self.may_go_on.wait(30)
        return seen_in(recorded)


@pytest.mark.promise("creates-go-while-new")
def test_creates_go_on_while_a_new_inline_view_takes_in_the_log(
    database: PostgresUrls, ledger: Ledger, admin: Connection[TupleRow]
) -> None:
    for number in range(3):
        ledger.execute(f"supplier/{number}", CreateSupplier(), at=NOON, by="t")
    waiting = Waiting(last=3)
    view = a_view(waiting.row)
    with ThreadPoolExecutor(1) as pool:
        installing = pool.submit(install, admin, (view,), role_of(database.service))
        assert waiting.has_come.wait(30)
        ledger.execute("supplier/meanwhile", CreateSupplier(), at=NOON, by="t")
        waiting.may_go_on.set()
        installing.result(timeout=30)
    assert admin.execute("SELECT code FROM supplier_seen ORDER BY position").fetchall() == [
        ("0",), ("1",), ("2",), ("meanwhile",),
    ]  # fmt: skip
    assert [(one.version, one.state) for one in versions(admin, "supplier_seen")] == [(1, "live")]


def test_creates_go_on_while_one_account_is_healed(
    database: PostgresUrls, ledger: Ledger, admin: Connection[TupleRow]
) -> None:
    for code in ("A", "B"):
        ledger.execute(f"supplier/{code}", CreateSupplier(), at=NOON, by="t")
    install(admin, (NEW,), role_of(database.service))
    admin.execute("UPDATE supplier_seen SET last_topic = 'wrong'")
    waiting = Waiting(last=1)
    view = a_view(waiting.row)
    with closing(Ledger(database.admin, views=(NEW,))) as appending, ThreadPoolExecutor(1) as pool:
        healing = pool.submit(heal, admin, view, ["supplier/A"])
        assert waiting.has_come.wait(30)
        appending.execute("supplier/A", ConfigureSupplier(strictness="strict"), at=NOON, by="t")
        waiting.may_go_on.set()
        assert healing.result(timeout=30).says == "rebuilt"
    assert admin.execute("SELECT code, last_topic, position FROM supplier_seen ORDER BY code").fetchall() == [
        ("A", "supplier_configured.v1", 3),
        ("B", "wrong", 2),
    ]


def test_a_new_inline_view_that_was_built_before_a_kill_is_switched_in(
    ledger: Ledger, admin: Connection[TupleRow]
) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    with version_lock(admin, NEW):
        build_version("", admin, NEW)  # killed before the switch
    install(admin, (NEW,), None)
    assert admin.execute("SELECT code FROM supplier_seen").fetchall() == [("A",)]
    assert [(one.version, one.state) for one in versions(admin, NEW.name)] == [(1, "live")]


def test_a_column_that_is_declared_later_is_added_with_its_default(ledger: Ledger, admin: Connection[TupleRow]) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    columns = ", ".join(f"{name} {declaration}" for name, declaration in IMPORT_SUPPLIER.declared.items())
    added = f"{columns}, greets_customers boolean NOT NULL DEFAULT false"
    wider = View("import_supplier", added, {}, prefix="supplier", named=("code",))
    install(admin, (wider,), None)
    assert admin.execute("SELECT code, greets_customers FROM import_supplier").fetchall() == [("A", False)]
    install(admin, (IMPORT_SUPPLIER,), None)


def test_a_field_of_the_account_that_is_declared_later_gets_its_column(admin: Connection[TupleRow]) -> None:
    admin.execute("ALTER TABLE platform.customer DROP COLUMN salutation")
    install(admin, (PLATFORM,), None)
    query = "SELECT data_type FROM information_schema.columns WHERE table_name = 'customer' AND column_name = %s"
    assert admin.execute(query, ("salutation",)).fetchall() == [("text",)]


def test_a_column_that_a_later_version_adds_does_not_stop_a_first_copy(
    ledger: Ledger, admin: Connection[TupleRow]
) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    install(admin, (NEW,), None)
    admin.execute("ALTER TABLE supplier_seen ADD COLUMN added_later text; TRUNCATE supplier_seen")
    copy_format._types.clear()  # as in a process that has copied nothing yet
    NEW.load(admin, "public", {NEW.name: [("A", "t", 1)]})
    assert admin.execute("SELECT count(*), max(added_later) FROM supplier_seen").fetchone() == (1, None)


@pytest.mark.promise("accounts-market-data-become-platform")
def test_market_records_of_the_version_before_are_there_after_the_migration(
    database: PostgresUrls, ledger: Ledger, processor: ImportProcessor, admin: Admin
) -> None:
    processor.process([stage(ledger, an_account(SUPPLIER, 1))])
    import_participant(ledger, "O", a_participant(9_900_000_000_001))
    admin.execute("DELETE FROM projection_versions WHERE name = 'market'")
    for table in MARKET.tables:
        admin.execute(f"DELETE FROM platform.{table}".encode())
    install(admin, PROJECTIONS, None)
    assert rows(admin, "SELECT organisation FROM platform.market_participant") == [("O",)]
    for projection in (MARKET, PLATFORM):
        assert verify(database.admin, admin, projection, limit=9).first == ()


def test_a_projection_that_is_new_or_behind_is_told(admin: Admin) -> None:
    assert projection_changes(admin) == []
    admin.execute("DELETE FROM projection_versions WHERE name = 'account_search'")
    admin.execute("UPDATE projection_versions SET definition = 'other' WHERE name = 'error_statistics'")
    changes = {one.name: one for one in projection_changes(admin)}
    assert changes["account_search"].change == "new"
    assert changes["error_statistics"].change == "outdated"
    assert "projections rebuild error_statistics" in changes["error_statistics"].says
    assert all(one.can_be_rolled for one in changes.values())


@pytest.mark.promise("creates-go-while-new")
def test_an_inline_view_that_is_new_cannot_be_rolled_once_there_are_events(ledger: Ledger, admin: Admin) -> None:
    """Processes of the old version do not write to it, so their events would be missing."""
    admin.execute("DROP TABLE disclosure; DELETE FROM projection_versions WHERE name = 'disclosure'")
    assert [(one.change, one.can_be_rolled) for one in projection_changes(admin)] == [("new", True)]
    ledger.execute("supplier/A", CreateSupplier(), at=now(), by="t")
    assert [(one.change, one.can_be_rolled) for one in projection_changes(admin)] == [("new", False)]


def test_what_an_upgrade_has_left_outdated_is_rebuilt_together(
    database: PostgresUrls, monkeypatch: pytest.MonkeyPatch, admin: Admin
) -> None:
    monkeypatch.setenv("DATABASE_URL", database.service)
    monkeypatch.setenv("DATABASE_ADMIN_URL", database.admin)
    admin.execute(
        "UPDATE projection_versions SET definition = 'other' WHERE name IN ('account_search', 'error_statistics')"
    )
    rebuilt = CliRunner().invoke(projections, ["rebuild", "--outdated"])
    assert rebuilt.exit_code == 0, rebuilt.output
    assert "account_search: the previous version had another definition; switched" in rebuilt.stdout
    assert "import_status" not in rebuilt.stdout
    assert projection_changes(admin) == []
    again = CliRunner().invoke(projections, ["rebuild", "--outdated"])
    assert (again.exit_code, again.stdout) == (0, "No projection is outdated.\n")


def test_every_view_answers_every_event(ledger: Ledger, owner: Ledger) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    ledger.execute("supplier/A", ChangeSupplierStatus(status="paused", reason="r"), at=NOON, by="t")
    ledger.execute("supplier/A", ConfigureSupplier(strictness="strict"), at=NOON, by="t")
    key = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A", "B"))
    owner.execute("organisation/O", key, at=NOON, by="t")
    owner.execute("organisation/O", RevokeKey(key_id="k"), at=NOON, by="t")
    for recorded in [*ledger.history("supplier/A"), *ledger.history("organisation/O")]:
        assert sum(view.project(recorded, 1) is not None for view in INLINE) == 1


CANARY = "Kunde heißt Vogelsang"


@pytest.fixture
def processor(ledger: Ledger) -> ImportProcessor:
    return ImportProcessor(ledger, worker=lambda: 7)


@pytest.fixture
def another_form(admin: Connection[Any], ledger: Ledger, processor: ImportProcessor) -> None:
    """Three accounts in tables whose column `notes` has the type text."""
    processor.process([stage(ledger, an_account(SUPPLIER, number)) for number in (1, 2, 3)])
    admin.execute("ALTER TABLE platform.service_account DROP COLUMN notes, ADD COLUMN notes text")
    admin.execute("UPDATE platform.service_account SET notes = %s", (CANARY,))
    admin.execute("UPDATE projection_versions SET definition = 'of before' WHERE name = 'platform'")


def rows(connection: Connection[Any], query: str) -> list[Any]:
    return connection.execute(query.encode()).fetchall()


@pytest.mark.usefixtures("another_form")
def test_they_are_made_anew_from_the_log(
    admin: Connection[Any], ledger: Ledger, processor: ImportProcessor, database: PostgresUrls
) -> None:
    for _ in range(2):
        migrate_all(database.admin, service_role=role_of(database.service))
    assert [(one.version, one.state) for one in versions(admin, "platform")] == [(1, "retired"), (2, "live")]
    assert live_version(admin, "platform").definition == PLATFORM.definition
    assert rows(admin, "SELECT count(*) FROM platform.service_account WHERE notes #>> '{0,body}' <> ''") == [(3,)]
    assert verify(database.admin, admin, PLATFORM, limit=3).first == ()
    stream = stage(ledger, an_account(SUPPLIER, 4))
    processor.process([stream])
    assert status(ledger, stream) == "PROCESSED"
    with psycopg.connect(database.service) as connection:
        assert rows(connection, "SELECT count(*) FROM platform.service_account") == [(4,)]


def test_a_database_that_was_migrated_without_projections_gets_them(database: PostgresUrls, admin: Admin) -> None:
    """A migration that was stopped halfway is repeated."""
    admin.execute("CREATE DATABASE halfway")
    url = renamed(database.admin, "halfway")
    migrate(url)
    migrate_all(url)
    with psycopg.connect(url, autocommit=True) as connection:
        assert rows(connection, "SELECT to_regclass('platform.service_account') IS NULL") == [(False,)]
    admin.execute("DROP DATABASE halfway WITH (FORCE)")
