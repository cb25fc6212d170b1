"""Migrations are applied once, in order, and never change."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from eventstore.operations import migrate as module
from eventstore.operations.fitness import UnsafeStore, refuse_unsafe
from eventstore.operations.migrate import MigrationError, migrate, role_of
from projections.versions.install import migrate_all
from tests.support.databases import Admin, renamed
from tests.support.make import stage
from tests.support.running import wait_for
from tests.support.times import set_log_time

APPLIED = {"0001_baseline.sql": "73b8a9943ea142abca178d722284f7aceb57ead81ac7fbc0698b49e922ab1f39"}
"""Digests of the migrations that databases have. A change of the schema is a new file, and a new line here."""


def test_applied_migrations_never_change() -> None:
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in module.MIGRATIONS.glob("*.sql")}
    assert files == APPLIED


def test_two_at_once_apply_each_file_once(shared_admin: Admin, postgres: PostgresUrls) -> None:
    name = "without_schema"
    shared_admin.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    url = renamed(postgres.admin, name)
    with ThreadPoolExecutor(2) as pool:
        applied = list(pool.map(lambda _: migrate(url), range(2)))
    assert sorted(map(len, applied)) == [0, len(list(module.MIGRATIONS.glob("*.sql")))]
    shared_admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def test_an_edited_migration_stops_the_start(
    postgres: PostgresUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in module.MIGRATIONS.glob("*.sql"):
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "0001_baseline.sql").write_text("-- other\n")
    monkeypatch.setattr(module, "MIGRATIONS", tmp_path)
    with pytest.raises(MigrationError, match=r"0001_baseline\.sql was edited"):
        migrate(postgres.admin)


def test_a_schema_newer_than_the_code_stops_the_start(database: PostgresUrls, admin: Admin) -> None:
    admin.execute("INSERT INTO schema_migrations VALUES ('9999_future.sql', '')")
    with pytest.raises(MigrationError, match=r"9999_future\.sql"):
        migrate(database.admin)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_store_that_may_lose_what_it_acknowledged_stops_the_start(
    postgres: PostgresUrls, setting: str, shared_admin: Admin
) -> None:
    refuse_unsafe(postgres.service)
    shared_admin.execute(SQL("ALTER SYSTEM SET {} = off").format(Identifier(setting)))
    shared_admin.execute("SELECT pg_reload_conf()")
    try:
        wait_for(lambda: _is_refused(postgres), f"{setting}=off is refused")
    finally:
        shared_admin.execute(SQL("ALTER SYSTEM RESET {}").format(Identifier(setting)))
        shared_admin.execute("SELECT pg_reload_conf()")
    wait_for(lambda: not _is_refused(postgres), "and on is not")


def _is_refused(postgres: PostgresUrls) -> bool:
    try:
        refuse_unsafe(postgres.service)
    except UnsafeStore:
        return True
    return False


def test_a_clock_behind_the_newest_event_stops_the_start(database: PostgresUrls, ledger: Ledger) -> None:
    ahead = timedelta(seconds=50)
    set_log_time(database, now() + ahead)
    ledger.execute("supplier/A", CreateSupplier(), at=now(), by="t")
    refuse_unsafe(database.service)
    set_log_time(database, now() + 2 * ahead)
    ledger.execute("supplier/B", CreateSupplier(), at=now(), by="t")
    with pytest.raises(UnsafeStore, match="clock is"):
        refuse_unsafe(database.service)


def test_a_database_that_is_still_empty_is_not_judged_by_its_clock(postgres: PostgresUrls) -> None:
    refuse_unsafe(renamed(postgres.admin, "postgres"))


@pytest.mark.promise("service-s-role-right")
@pytest.mark.asvs("V13.2.2")
def test_the_services_role_has_no_right_that_it_does_not_need(database: PostgresUrls, admin: Admin) -> None:
    """Also if it had the right before."""
    role = role_of(database.service)
    assert role
    for _ in range(2):
        with psycopg.connect(database.service, autocommit=True) as connection:
            connection.execute("SELECT FROM access_key, platform.account_number_key")
            for statement in (
                "INSERT INTO access_key SELECT * FROM access_key",
                "UPDATE access_key SET role = 'operator'",
                "DELETE FROM access_key",
                "INSERT INTO platform.account_number_key SELECT * FROM platform.account_number_key",
                "UPDATE platform.account_number_key SET key = ''",
                "DELETE FROM platform.account_number_key",
                "DELETE FROM events",
                "UPDATE payload_keys SET key = NULL",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
        for table in ("access_key", "platform.account_number_key"):
            admin.execute(f"GRANT INSERT, UPDATE, DELETE ON {table} TO {role}".encode())
        migrate_all(database.admin, service_role=role)


@pytest.mark.promise("erasure-planner-s-statistics")
def test_statistics_hold_no_samples_of_keys(ledger: Ledger, admin: Admin) -> None:
    for number in range(50):
        payload = Payload.of(b"%d" % number)
        ledger.execute(f"import/S/{number}", stage(payload.sha256.hex()), at=now(), by="t", payload=payload)
    admin.execute("ANALYZE payload_keys, payloads, remembered_answers")
    found = admin.execute(
        "SELECT tablename, attname FROM pg_stats WHERE tablename IN ('payload_keys', 'payloads')"
    ).fetchall()
    assert ("payload_keys", "stream") in found
    assert not {("payload_keys", "key"), ("payloads", "content")} & set(found)
