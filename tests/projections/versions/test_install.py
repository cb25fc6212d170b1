"""Projections bring their own tables, columns and rights."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import SUPPLIER, ConfigureSupplier, CreateSupplier
from eventstore.events import Recorded
from eventstore.log import copy_format
from eventstore.log.ledger import Ledger
from eventstore.operations.migrate import role_of
from eventstore.operations.rights import READ
from projections import MARKET, PLATFORM
from projections.versions.install import install
from projections.versions.versions import alone, build_version, versions
from projections.versions.view import View
from projections.views.import_supplier import IMPORT_SUPPLIER
from tests.support.eventful_log import import_participant
from tests.support.make import NOON
from tests.support.pre_account import a_participant


def seen_in(recorded: Recorded) -> dict[str, Any]:
    return {"last_topic": recorded.topic}


def a_view(row: Callable[[Recorded], dict[str, Any]] = seen_in, **more: Any) -> View:
    """The last event of each supplier."""
    columns = "code text NOT NULL, last_topic text NOT NULL, position bigint NOT NULL"
    changes = dict.fromkeys(SUPPLIER.topics.values(), lambda event, recorded: row(recorded))
    return View("supplier_seen", columns, changes, prefix="supplier", named=("code",), **more)


NEW = a_view(rights=READ)


@pytest.fixture
def admin(database: PostgresUrls) -> Iterator[Connection[TupleRow]]:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        yield connection


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
    opened = Ledger(database.admin, views=(NEW,))
    try:
        opened.execute("supplier/B", CreateSupplier(), at=NOON, by="t")
    finally:
        opened.close()
    assert admin.execute("SELECT code, position FROM supplier_seen ORDER BY position").fetchall() == [
        ("A", 2),
        ("B", 3),
    ]


class Waiting:
    """Makes rows of the new view, and waits at one event."""

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


def test_a_new_inline_view_that_was_built_before_a_kill_is_switched_in(
    ledger: Ledger, admin: Connection[TupleRow]
) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    with alone(admin, NEW):
        build_version("", admin, NEW)  # and killed before the switch
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
    ledger: Ledger, admin: Connection[TupleRow]
) -> None:
    import_participant(ledger, "O", a_participant(9_900_000_000_001))
    admin.execute("DELETE FROM projection_versions WHERE name = 'market'")
    for table in MARKET.tables:
        admin.execute(f"DELETE FROM platform.{table}".encode())
    install(admin, (MARKET,), None)
    assert admin.execute("SELECT organisation FROM platform.market_participant").fetchall() == [("O",)]
