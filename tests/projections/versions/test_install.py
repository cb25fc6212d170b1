"""Projections bring their own tables, columns and rights."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import msgspec
import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import SUPPLIER, ConfigureSupplier, CreateSupplier
from eventstore.events import Recorded
from eventstore.log.ledger import Ledger
from eventstore.operations.migrate import role_of
from eventstore.operations.rights import READ
from projections import MARKET, PLATFORM
from projections.retention.erasure import erase_contacts
from projections.versions.healing import heal
from projections.versions.install import install
from projections.versions.versions import alone, begin_version, build_version, versions
from projections.versions.view import View
from projections.views.import_supplier import IMPORT_SUPPLIER, SupplierRow
from tests.support.eventful_log import import_participant
from tests.support.make import NOON
from tests.support.pre_account import a_participant


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """How many events of a supplier there are."""

    code: str
    last_topic: str
    position: int


def _key_of(stream: str) -> dict[str, str] | None:
    return {"code": stream.split("/", 1)[1]} if stream.startswith("supplier/") else None


def _row(recorded: Recorded, position: int) -> Seen:
    return Seen(code=recorded.stream.split("/", 1)[1], last_topic=recorded.topic, position=position)


NEW = View("supplier_seen", Seen, _row, events=SUPPLIER.topics.values(), key=("code",), key_of=_key_of, rights=READ)


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

    def row(self, recorded: Recorded, position: int) -> Seen:
        if position == self.last:
            self.has_come.set()
            assert self.may_go_on.wait(30)
        return _row(recorded, position)


@pytest.mark.promise("creates-go-while-new")
def test_creates_go_on_while_a_new_inline_view_takes_in_the_log(
    database: PostgresUrls, ledger: Ledger, admin: Connection[TupleRow]
) -> None:
    for number in range(3):
        ledger.execute(f"supplier/{number}", CreateSupplier(), at=NOON, by="t")
    waiting = Waiting(last=3)
    view = View(
        "supplier_seen", Seen, waiting.row, events=SUPPLIER.topics.values(), key=("code",), key_of=_key_of
    )  # fmt: skip
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
    view = View("supplier_seen", Seen, waiting.row, events=SUPPLIER.topics.values(), key=("code",), key_of=_key_of)
    appending = Ledger(database.admin, views=(NEW,))
    with ThreadPoolExecutor(1) as pool:
        healing = pool.submit(heal, admin, view, ["supplier/A"])
        assert waiting.has_come.wait(30)
        appending.execute("supplier/A", ConfigureSupplier(strictness="strict"), at=NOON, by="t")
        waiting.may_go_on.set()
        assert healing.result(timeout=30).says == "made anew"
    appending.close()
    assert admin.execute("SELECT code, last_topic, position FROM supplier_seen ORDER BY code").fetchall() == [
        ("A", "supplier_configured.v1", 3),
        ("B", "wrong", 2),
    ]


def test_a_new_inline_view_that_was_built_before_a_kill_is_switched_in(
    ledger: Ledger, admin: Connection[TupleRow]
) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    with alone(admin, NEW):
        begin_version(admin, NEW)  # and killed
        build_version("", admin, NEW)  # and killed before the switch
    install(admin, (NEW,), None)
    assert admin.execute("SELECT code FROM supplier_seen").fetchall() == [("A",)]
    assert [(one.version, one.state) for one in versions(admin, NEW.name)] == [(1, "live")]


def test_a_column_that_is_declared_later_is_added_with_its_default(ledger: Ledger, admin: Connection[TupleRow]) -> None:
    before = [(one.name, one.type, one.default) for one in msgspec.structs.fields(SupplierRow)]
    wider_row = msgspec.defstruct("Wider", [*before, ("greets_customers", bool | None, None)], kw_only=True)
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    wider = View(
        "import_supplier", wider_row, lambda recorded, position: None, events=SUPPLIER.topics.values(), key=("code",),
        key_of=_key_of, leaves_none=True, defaults={"greets_customers": False},
    )  # fmt: skip
    install(admin, (wider,), None)
    assert admin.execute("SELECT code, greets_customers FROM import_supplier").fetchall() == [("A", False)]
    install(admin, (IMPORT_SUPPLIER,), None)


def test_a_field_of_the_account_that_is_declared_later_gets_its_column(admin: Connection[TupleRow]) -> None:
    admin.execute("ALTER TABLE platform.customer DROP COLUMN salutation")
    install(admin, (PLATFORM,), None)
    query = "SELECT data_type FROM information_schema.columns WHERE table_name = 'customer' AND column_name = %s"
    assert admin.execute(query, ("salutation",)).fetchall() == [("text",)]


def test_tables_of_a_former_key_are_made_anew(ledger: Ledger, owner: Ledger, admin: Connection[TupleRow]) -> None:
    """A column that is added later would be in no key: two organisations could not have one participant each."""
    for organisation in ("O", "P"):
        import_participant(ledger, organisation, a_participant(9_900_000_000_001))
    admin.execute("DELETE FROM platform.market_participant WHERE organisation = 'P'")
    for table in MARKET.tables:
        admin.execute(f"ALTER TABLE platform.{table} DROP COLUMN organisation".encode())
    install(admin, (MARKET,), None)
    rows = admin.execute("SELECT organisation FROM platform.market_participant ORDER BY organisation").fetchall()
    assert rows == [("O",), ("P",)]
    assert erase_contacts(owner, "participant/O/9900000000001", reason="r", at=NOON, by="t") is not None
    for schema, left in (("platform", [("P",)]), ("market_v1", [])):
        organisation = "organisation" if schema == "platform" else "NULL"
        contacts = f"SELECT {organisation} FROM {schema}.market_participant_contact"
        assert admin.execute(contacts.encode()).fetchall() == left
