"""Erased persons are in no table of any schema, whatever versions of projections exist or are being built."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.sql import SQL, Identifier, Literal

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport, FailImport, stream_of
from eventstore.aggregates.participant import stream_of as participant_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import INLINE, MARKET, PLATFORM, PROJECTIONS
from projections.auxiliary.refused_attempts import Attempt, write_attempts
from projections.retention import erasure
from projections.retention.erasure import erase, erase_contacts
from projections.retention.reverting import Selection, revert
from projections.versions import versions as module
from projections.versions.build import administrator
from projections.versions.compare import verify
from projections.versions.install import install
from projections.versions.projection import Projection, Rows
from projections.versions.versions import build_version, catch_up, drop_version, switch, version_lock, versions
from projections.views.account_search import ACCOUNT_SEARCH
from projections.views.import_status import IMPORT_STATUS
from tests.support.eventful_log import import_participant
from tests.support.following import attach, follow
from tests.support.make import an_account, changed, start
from tests.support.pre_account import a_participant
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor

NAME, EMAIL = "Vogelsang-Canary", "canary@vogelsang.example"
CANARIES = (NAME, NAME.casefold(), "canary@")
CODE = 9_900_000_000_001
OF_PERSONS = [ACCOUNT_SEARCH, PLATFORM, MARKET]
each = pytest.mark.parametrize("projection", OF_PERSONS, ids=lambda projection: projection.name)


def a_canary(number: int = 1) -> dict[str, Any]:
    account = changed(an_account(SUPPLIER, number), NAME, "customers", 0, "family_name")
    return changed(account, EMAIL, "customers", 0, "email")


EXTERNAL = str(an_account(SUPPLIER, 1)["external_account_number"])


@pytest.fixture
def log(ledger: Ledger, database: PostgresUrls) -> Ledger:
    """A log with an account full of canaries and a record, and another account; followers have applied it."""
    processor = ImportProcessor(ledger, worker=lambda: 7)
    processor.process([stage(ledger, a_canary()), stage(ledger, an_account(SUPPLIER, 2))])
    attach(ledger, database, 1, is_cancelled=False)
    import_participant(ledger, "O", changed(a_participant(CODE), EMAIL, "contact_details", 0, "email"))
    follow(ledger)
    return ledger


def places(connection: Connection[Any]) -> list[str]:
    """List the tables of all schemas that contain a canary, as text or as bytes."""
    tables = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'm', 'p') AND NOT c.relisshared ORDER BY 1, 2"
    ).fetchall()
    signs = sorted({sign for canary in CANARIES for sign in (canary.lower(), canary.encode().hex())})
    says = SQL(" OR ").join([SQL("strpos(said, {}) > 0").format(Literal(sign)) for sign in signs])
    query = SQL("SELECT count(*) FROM (SELECT lower(t::text) AS said FROM {} AS t OFFSET 0) AS t WHERE {}")
    found = []
    for schema, table in tables:
        row = connection.execute(query.format(Identifier(schema, table), says)).fetchone()
        if row and row[0]:
            found.append(f"{schema}.{table}")
    return found


def erase_canary(database: PostgresUrls) -> None:
    with closing(Ledger(database.admin, views=INLINE)) as owner:
        assert erase(owner, SUPPLIER, EXTERNAL, reason="DSR-1", at=now(), by="t") is not None
        if owner.history(contacts := participant_stream("O", CODE)):
            assert erase_contacts(owner, contacts, reason="DSR-1", at=now(), by="t") is not None


@pytest.mark.promise("erasing-reaches-every-version", "contacts-market-participants-erased")
def test_every_version_forgets_and_can_be_switched_in(
    admin: Connection[Any], log: Ledger, database: PostgresUrls
) -> None:
    for projection in PROJECTIONS:
        with version_lock(admin, projection):
            build_version(database.admin, admin, projection)
            switch(admin, projection, 2)
            build_version(database.admin, admin, projection)
    admin.execute("ANALYZE")
    assert {one.state for one in versions(admin, "platform")} == {"retired", "live", "ready"}
    before = places(admin)
    for schema in ("platform", "platform_v1", "platform_v3", "public", "account_search_v1", "account_search_v3"):
        assert any(place.startswith(f"{schema}.") for place in before), (schema, before)
    assert "pg_catalog.pg_statistic" not in before
    erase_canary(database)
    assert places(admin) == []
    for projection in PROJECTIONS:
        for version in (3, 1):
            with version_lock(admin, projection):
                switch(admin, projection, version)
            follow(log)
            assert verify(database.admin, admin, projection, limit=3).first == (), (projection.name, version)
    assert places(admin) == []


@pytest.mark.parametrize("change", [drop_version, switch])
@pytest.mark.parametrize("projection", [ACCOUNT_SEARCH, PLATFORM, IMPORT_STATUS], ids=lambda each: each.name)
def test_a_version_that_is_dropped_or_switched_in_meanwhile_fails_no_erasure(
    admin: Connection[Any],
    log: Ledger,
    database: PostgresUrls,
    monkeypatch: pytest.MonkeyPatch,
    projection: Projection,
    change: Callable[..., Any],
) -> None:
    with version_lock(admin, projection):
        built = build_version(database.admin, admin, projection)
    has_tables, threads = erasure._has_tables, list[threading.Thread]()

    def changing() -> None:
        with administrator(database.admin) as connection, version_lock(connection, projection):
            change(connection, projection, built.version)

    def has_tables_still(connection: Connection[Any], schema: str, tables: Sequence[str]) -> bool:
        if schema == built.schema and not threads:
            threads.append(threading.Thread(target=changing))
            found = has_tables(connection, schema, tables)
            threads[0].start()
            threads[0].join(1)
            return found
        return has_tables(connection, schema, tables)

    monkeypatch.setattr(erasure, "_has_tables", has_tables_still)
    erase_canary(database)
    threads[0].join()

    follow(log)
    assert places(admin) == []
    assert [version.state for version in versions(admin, projection.name)].count("live") == 1


@pytest.mark.promise("erasing-reaches-every-version")
@each
def test_a_build_that_is_running_forgets_before_it_is_ready(
    admin: Connection[Any],
    log: Ledger,
    database: PostgresUrls,
    projection: Projection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The person is erased after the build has read the payload and before it writes the rows."""
    has_read, may_write, loaded = threading.Event(), threading.Event(), []
    load, park = projection.load, module.park

    def slowly(connection: Connection[Any], schema: str, rows: Rows) -> None:
        if any(rows.values()):
            has_read.set()
            assert may_write.wait(60)
            loaded.append(sum(map(len, rows.values())))
        load(connection, schema, rows)

    def look(*arguments: Any) -> None:
        """Look for canaries when rows are committed and the build has not caught up: it may be killed here."""
        if not seen:  # later on, tables are locked for the switch
            with psycopg.connect(database.admin) as connection:
                seen.append(places(connection))
        park(*arguments)

    seen: list[list[str]] = []
    monkeypatch.setattr(projection, "load", slowly)
    monkeypatch.setattr(module, "park", look)
    with version_lock(admin, projection), ThreadPoolExecutor(1) as pool:
        built = pool.submit(build_version, database.admin, admin, projection)
        assert has_read.wait(60)
        erase_canary(database)
        may_write.set()
        version = built.result(timeout=120).version
        assert loaded
        assert seen
        assert not any(seen)
        switch(admin, projection, version)
    follow(log)
    assert places(admin) == []
    assert verify(database.admin, admin, projection, limit=3).first == ()


@pytest.mark.promise("erasing-reaches-every-version")
def test_a_version_that_catches_up_later_brings_nobody_back(
    admin: Connection[Any], log: Ledger, database: PostgresUrls
) -> None:
    built = []
    for projection in OF_PERSONS:
        with version_lock(admin, projection):
            built.append(build_version(database.admin, admin, projection).version)
    erase_canary(database)
    for projection, version in zip(OF_PERSONS, built, strict=True):
        with version_lock(admin, projection):
            catch_up(admin, projection, version)
    assert places(admin) == []


@pytest.mark.promise("erasing-reaches-every-version")
def test_a_version_that_a_killed_build_has_left_forgets_too(
    admin: Connection[Any], log: Ledger, database: PostgresUrls
) -> None:
    with version_lock(admin, PLATFORM):
        build_version(database.admin, admin, PLATFORM)
    admin.execute("UPDATE projection_versions SET state = 'building' WHERE name = 'platform' AND version = 2")
    admin.execute("ALTER TABLE platform_v2.customer DROP CONSTRAINT customer_pkey")
    erase_canary(database)
    assert places(admin) == []


@pytest.mark.promise("erasing-reaches-every-version")
def test_versions_that_do_not_follow_forget_a_person_whose_account_was_reverted(
    admin: Connection[Any], ledger: Ledger, owner: Ledger, database: PostgresUrls
) -> None:
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, a_canary())])
    follow(ledger)
    for projection in OF_PERSONS:
        with version_lock(admin, projection):
            build_version(database.admin, admin, projection)
            switch(admin, projection, 2)
            build_version(database.admin, admin, projection)
    revert(owner, Selection(supplier=SUPPLIER, externals=(EXTERNAL,)), "r", by="t")
    assert {"platform_v1.customer", "platform_v3.customer"} <= set(places(admin))
    erase_canary(database)
    assert places(admin) == []


def test_a_person_without_an_account_is_gone_with_reason_and_search(
    admin: Connection[Any], ledger: Ledger, database: PostgresUrls
) -> None:
    stage(ledger, a_canary())
    ledger.execute(stream_of(SUPPLIER, EXTERNAL), CancelImport(reason=f"{NAME} has moved"), at=now(), by="t")
    follow(ledger)
    assert "public.account_search" in places(admin)
    erase_canary(database)
    assert places(admin) == []


@pytest.mark.promise("erasing-reaches-every-version")
def test_what_was_parked_tells_nothing_and_erasing_again_is_nothing_new(
    admin: Connection[Any], log: Ledger, owner: Ledger, database: PostgresUrls
) -> None:
    admin.execute(
        "INSERT INTO parked_streams (name, version, stream, position, error) VALUES ('platform', 1, %s, 1, %s)",
        (stream_of(SUPPLIER, EXTERNAL), f"ValueError: {NAME} is not a name"),
    )
    erase_canary(database)
    assert places(admin) == []
    assert admin.execute("SELECT error FROM parked_streams").fetchall() == [("ValueError",)]
    assert erase(owner, SUPPLIER, EXTERNAL, reason="DSR-1", at=now(), by="t") is None


UNREADABLE = """
SELECT append_events(ARRAY[%s], ARRAY[%s], ARRAY[%s], '{X}', '{""}', '{""}', '', ARRAY['not JSON'::bytea],
                     '{}', '{}', '{}', '{}', '{}', '{}', '{}')
"""


@pytest.mark.promise("erasing-reaches-every-version")
@pytest.mark.parametrize("version", [None, 2**31 - 1], ids=["next", "last"])
def test_an_event_that_cannot_be_read_keeps_nobody_from_being_erased(
    admin: Connection[Any], log: Ledger, owner: Ledger, database: PostgresUrls, version: int | None
) -> None:
    stream, contacts = stream_of(SUPPLIER, EXTERNAL), participant_stream("O", CODE)
    with psycopg.connect(database.roles["worker"], autocommit=True) as worker:
        length = len(log.history(stream))
        worker.execute(UNREADABLE, (stream, version or length + 1, "import_started.v1"))
    admin.execute(UNREADABLE, (contacts, version or 2, "participant_imported.v1"))
    follow(log)
    for _ in range(2):
        is_first = places(admin) != []
        assert (erase(owner, SUPPLIER, EXTERNAL, reason="DSR-1", at=now(), by="t") is not None) is is_first
        assert (erase_contacts(owner, contacts, reason="DSR-1", at=now(), by="t") is not None) is is_first
        assert places(admin) == []


def leaves(value: Any) -> Iterator[str]:
    """Yield every text, number and date of a payload."""
    match value:
        case dict():
            for below in value.values():
                yield from leaves(below)
        case list():
            for below in value:
                yield from leaves(below)
        case bool() | None:
            pass
        case _:
            yield str(value).lower()


@pytest.mark.promise("erasure-planner-s-statistics")
def test_statistics_hold_no_value_of_a_person_whose_account_is_there(
    admin: Connection[Any], log: Ledger, database: PostgresUrls
) -> None:
    """An erasure then need not clear statistics. Values that all accounts have are not personal."""
    failed = stage(log, changed(a_canary(3), "C-3", "external_account_number"))
    log.execute(failed, start(), at=now(), by="t")
    log.execute(failed, FailImport(start=2, code="x", detail=f"{NAME} is no name"), at=now(), by="t")
    refused = Attempt(
        supplier=SUPPLIER,
        external_account_number=NAME,
        attempted_at=now(),
        operation="create_account",
        code="invalid",
        problems=(f"x@{NAME}",),
    )
    write_attempts(admin, {uuid4(): refused})
    follow(log)
    for projection in PROJECTIONS:
        with version_lock(admin, projection):
            build_version(database.admin, admin, projection)
    admin.execute("ANALYZE")
    own = {one for one in leaves(a_canary()) if EXTERNAL.lower() not in one} - set(leaves(an_account(SUPPLIER, 2)))
    assert {NAME.lower(), EMAIL} < own
    columns = admin.execute(
        "SELECT format('%s.%s.%s', schemaname, tablename, attname), lower(format('%s %s %s', most_common_vals,"
        " histogram_bounds, most_common_elems)) FROM pg_stats WHERE schemaname NOT IN ('pg_catalog')"
    ).fetchall()
    assert any(name == "platform.customer.account_number" for name, _ in columns)
    words = re.compile("|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in own if len(one) > 3))
    assert [(name, words.findall(said)) for name, said in columns if words.search(said)] == []


def test_a_column_that_is_added_later_has_no_statistics(admin: Connection[Any], database: PostgresUrls) -> None:
    admin.execute("ALTER TABLE platform.customer DROP COLUMN family_name")
    install(admin, PROJECTIONS, None)
    query = "SELECT attstattarget FROM pg_attribute WHERE attrelid = 'platform.customer'::regclass AND attname = %s"
    assert admin.execute(query, ("family_name",)).fetchall() == [(0,)]
