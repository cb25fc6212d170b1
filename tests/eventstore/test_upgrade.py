"""`migrate` reports its steps, runs beside the service, and refuses a newer database."""

import json
import threading
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.log import locks
from eventstore.log.group_commit import ANSWER_TIMEOUT_S
from eventstore.log.ledger import Ledger
from eventstore.operations import migrate as module
from eventstore.operations.migrate import migrate
from projections.versions.install import migrate_all
from tests.support.databases import Admin, renamed
from tests.support.running import cli, environment_on, free_port, wait_for


@pytest.fixture
def further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with all migrations, to which a test adds."""
    for file in module.MIGRATIONS.glob("*.sql"):
        (tmp_path / file.name).write_text(file.read_text())
    monkeypatch.setattr(module, "MIGRATIONS", tmp_path)
    return tmp_path


def environment_of(database: PostgresUrls) -> dict[str, str]:
    return {"DATABASE_URL": database.service, "DATABASE_ADMIN_URL": database.admin}


@pytest.mark.promise("migrate-check-says-version")
def test_what_is_pending_is_told_and_rolled_where_it_says_so(database: PostgresUrls, further: Path) -> None:
    adding = "ALTER TABLE customer_mail ADD COLUMN {} text;\n"
    (further / "9000_more.sql").write_text(f"-- rollable: yes\n{adding.format('c')}")
    checked = cli("migrate", "--check", environment=environment_of(database), check=False)
    assert checked.returncode == 2
    assert "9000_more.sql" in checked.stdout
    assert "A rolling upgrade is possible" in checked.stdout
    (further / "9001_two.sql").write_text(f"-- rollable: no, workers forget colours\n{adding.format('d')}")
    (further / "9002_three.sql").write_text(adding.format("e"))
    checked = cli("migrate", "--check", environment=environment_of(database), check=False)
    assert checked.returncode == 3
    assert "9001_two.sql: workers forget colours" in checked.stdout
    assert "9002_three.sql: it does not say that it is rollable" in checked.stdout
    shown = cli("migrate", environment=environment_of(database))
    assert shown.stdout.index("A rolling upgrade is not possible") < shown.stdout.index("applied 9000_more.sql")
    assert cli("migrate", "--check", environment=environment_of(database)).returncode == 0


@pytest.mark.parametrize("file", sorted(module.MIGRATIONS.glob("*.sql")), ids=lambda file: file.name)
def test_every_migration_says_whether_it_can_be_rolled(file: Path) -> None:
    assert file.read_text().startswith(("-- rollable: yes\n", "-- rollable: no, ", module.ONLINE))


@pytest.mark.promise("migrate-check-says-version")
def test_tables_that_are_made_anew_cannot_be_rolled(database: PostgresUrls, ledger: Ledger, admin: Admin) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=now(), by="t")
    admin.execute("ALTER TABLE platform.meter ADD COLUMN of_another_form text")
    result = cli("migrate", "--check", "--json", environment=environment_of(database), check=False)
    assert result.returncode == 3
    plan = json.loads(result.stdout)
    assert [(change["name"], change["change"]) for change in plan["projections"]] == [("platform", "rebuilt")]
    assert not plan["can_be_rolled"]
    assert "processes of the previous version do not write to it" in plan["why_not_rolled"][0]


def test_a_database_that_is_still_empty_is_told_everything(database: PostgresUrls, admin: Admin) -> None:
    admin.execute("CREATE DATABASE not_migrated")
    url = renamed(database.admin, "not_migrated")
    try:
        result = json.loads(cli("migrate", "--check", "--json", environment={"DATABASE_URL": url}, check=False).stdout)
        assert len(result["pending"]) == len(list(module.MIGRATIONS.glob("*.sql")))
        assert result["schema"] is None
    finally:
        admin.execute("DROP DATABASE not_migrated WITH (FORCE)")


@pytest.mark.promise("migrate-lets-others-pass")
def test_a_migration_lets_others_pass_while_it_waits_for_a_lock(
    database: PostgresUrls, further: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_PAUSE_S", 0.05)
    (further / "9000_more.sql").write_text("-- More.\nALTER TABLE customer_mail ADD COLUMN c text;\n")
    applied: list[list[str]] = []
    thread = threading.Thread(target=lambda: applied.append(migrate(database.admin)))
    with psycopg.connect(database.admin) as holder, psycopg.connect(database.admin, autocommit=True) as other:
        holder.execute("SELECT FROM customer_mail")
        thread.start()
        wait_for(lambda: bool(other.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount), "it waits")
        other.execute(SQL("SET lock_timeout = {}").format(round(1000 * ANSWER_TIMEOUT_S)))
        other.execute("INSERT INTO import_supplier SELECT * FROM import_supplier")
        other.execute("SELECT FROM customer_mail")
        assert not applied
        holder.rollback()
    thread.join(30)
    assert applied == [["9000_more.sql"]]


def test_a_lock_that_is_never_let_go_ends_it_and_it_goes_on_later(
    database: PostgresUrls, further: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "WAIT_MS", 20)
    monkeypatch.setattr(module, "LOCK_PAUSE_S", 0.0)
    monkeypatch.setattr(module, "LOCK_TRIES", 3)
    (further / "9000_more.sql").write_text("-- More.\nCREATE TABLE more (a text);\n")
    (further / "9001_mails.sql").write_text("-- More.\nALTER TABLE customer_mail ADD COLUMN c text;\n")
    with psycopg.connect(database.admin) as holder:
        holder.execute("SELECT FROM customer_mail")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            migrate(database.admin)
    assert migrate(database.admin) == ["9001_mails.sql"], "what was applied before it ended stays so"


@pytest.mark.promise("migrate-lets-others-pass")
def test_an_index_of_a_large_table_is_built_beside_its_writers_and_anew_after_a_kill(
    database: PostgresUrls, further: Path, admin: Admin
) -> None:
    index = "CREATE INDEX CONCURRENTLY IF NOT EXISTS by_cause ON events (caused_by);\n"
    (further / "9000_by_cause.sql").write_text(f"-- online\n-- Events by their cause.\n{index}")
    admin.execute("CREATE INDEX by_cause ON events (caused_by)")
    admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'by_cause'::regclass")
    assert migrate(database.admin) == ["9000_by_cause.sql"]
    valid = admin.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'by_cause'::regclass")
    assert valid.fetchone() == (True,)


@pytest.mark.promise("online-migration-run-written")
def test_an_online_migration_is_run_as_it_is_written(database: PostgresUrls, further: Path, admin: Admin) -> None:
    index = "CREATE INDEX CONCURRENTLY IF NOT EXISTS waiting ON import_status (modified_at)\n"
    condition = "    WHERE status IN ('PENDING', 'IN -- PROGRESS; $$')  -- a comment; with 'quotes'\n;\n"
    (further / "9000_waiting.sql").write_text(f"-- online: imports that wait.\n{index}{condition}")
    migrate(database.admin)
    [(built,)] = admin.execute("SELECT pg_get_indexdef('waiting'::regclass)").fetchall()
    assert "'PENDING'::text, 'IN -- PROGRESS; $$'::text" in built


def test_an_online_migration_of_two_statements_changes_nothing(
    database: PostgresUrls, further: Path, admin: Admin
) -> None:
    build = "CREATE INDEX CONCURRENTLY IF NOT EXISTS {0} ON events ({0});\n"
    (further / "9000_two.sql").write_text(f"-- online\n{build.format('caused_by')}{build.format('supplier')}")
    with pytest.raises(psycopg.errors.ActiveSqlTransaction):
        migrate(database.admin)
    assert admin.execute("SELECT to_regclass('caused_by')").fetchone() == (None,)


def test_a_column_is_added_beside_whoever_writes(database: PostgresUrls, admin: Admin) -> None:
    admin.execute("ALTER TABLE platform.meter DROP COLUMN meter_type")
    result = json.loads(cli("migrate", "--check", "--json", environment=environment_of(database), check=False).stdout)
    assert ("platform", "columns") in [(change["name"], change["change"]) for change in result["projections"]]
    migrate_all(database.admin)
    admin.execute("SELECT meter_type FROM platform.meter")


@pytest.fixture(scope="module")
def newer(shared_database: PostgresUrls) -> PostgresUrls:
    with psycopg.connect(shared_database.admin, autocommit=True) as connection:
        connection.execute(SQL("INSERT INTO {} VALUES ('9999_future.sql', '')").format(Identifier("schema_migrations")))
    return shared_database


@pytest.mark.promise("migrate-check-says-version")
@pytest.mark.parametrize(
    "verb",
    [
        ("api",), ("relay",), ("worker",), ("migrate",), ("migrate", "--check"), ("supplier", "list"),
        ("key", "list"), ("status", "S"), ("search", "x"), ("verify", "--all"), ("projections",), ("seal",),
        ("backup", "backup-that-is-not-made"), ("history", "S", "E"), ("cancel", "S", "E"),
    ],
    ids=lambda verb: verb[0],
)  # fmt: skip
def test_an_older_version_is_refused_in_a_sentence(verb: tuple[str, ...], newer: PostgresUrls, folder: Path) -> None:
    environment = environment_on(newer, folder, REDIS_URL="redis://127.0.0.1:1")
    if verb[0] == "api":
        verb = ("api", "--port", str(free_port()))
    refused = cli(*verb, environment=environment, check=False)
    assert refused.returncode == 1
    assert "The database has schema 9999_future.sql, which this version does not know" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
