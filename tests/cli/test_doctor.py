"""`doctor`: all checks of a healthy service are good; a failed check names the command that helps."""

import io
import json
import re
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from cli.checkup.database import free_space
from cli.checkup.finding import CheckInput, Finding
from cli.checkup.service import DECIDE, certificate, heal_command
from cli.doctor import doctor, examine
from cli.service.settings import Settings
from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import ConfigureSupplier, CreateSupplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.operations.fitness import NotChecked
from eventstore.proof.sealing import SealRefused
from schemas.sentence import german_of
from tests.support.certificates import self_signed
from tests.support.databases import Admin
from tests.support.make import NOON, an_account
from tests.support.running import RunningService, wait_for
from tests.support.sealed_log import KEY, Log
from tests.support.staging import stage
from tests.support.times import set_log_time


@pytest.fixture
def idle(database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch) -> PostgresUrls:
    """A database on which no role runs, and nothing else."""
    monkeypatch.setenv("DATABASE_URL", database.service)
    monkeypatch.setenv("IMPORTLEDGER_DATA_DIR", str(folder / "none"))
    return database


@pytest.fixture
def unchanged(shared_database: PostgresUrls, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of several tests, on which no role runs."""
    monkeypatch.setenv("DATABASE_URL", shared_database.service)
    monkeypatch.setenv("IMPORTLEDGER_DATA_DIR", str(folder / "none"))


def found(check: str, backups: Path | None = None) -> list[Finding]:
    return [finding for finding in examine(backups) if finding.check == check]


@pytest.mark.promise("doctor-goes-good-wrong")
def test_a_running_service_is_well_and_the_page_goes_from_good_to_wrong(service: RunningService) -> None:
    def findings() -> list[dict[str, str]]:
        return [json.loads(line) for line in service.cli("doctor", "--json", check=False).stdout.splitlines()]

    def is_well() -> bool:
        """Relay and worker take their places a moment after the api."""
        good = {finding["check"] for finding in findings() if finding["state"] == "good"}
        return {"settings", "database", "schema", "durability", "roles", "redis"} <= good

    wait_for(is_well, "the service is well")
    assert all(finding.keys() == {"check", "state", "says", "todo"} for finding in findings())
    assert all(finding["todo"] for finding in findings() if finding["state"] == "warned")
    page = service.cli("doctor", check=False).stdout
    states = [line.split()[0] for line in page.splitlines() if line.startswith(("good", "warned", "wrong"))]
    assert states == sorted(states, key=("good", "warned", "wrong").index)
    assert " good, " in page.splitlines()[-1]
    assert "→ importledger doctor --backups DIR" in page


def test_a_database_without_roles_is_wrong(unchanged: None) -> None:
    assert [finding.todo for finding in found("roles")] == ["importledger relay", "importledger worker"]


def test_a_role_that_may_alter_the_log_is_warned_of(idle: PostgresUrls, admin: Admin) -> None:
    assert found("rights")[0].state == "good"
    admin.execute("GRANT UPDATE ON events TO importledger")
    assert found("rights")[0].state == "warned"


def test_a_migration_that_is_missing_is_wrong(idle: PostgresUrls, admin: Admin) -> None:
    admin.execute("DELETE FROM schema_migrations WHERE name = (SELECT max(name) FROM schema_migrations)")
    [finding] = found("schema")
    assert (finding.state, finding.says, finding.todo) == (
        "wrong", "1 migration is not applied.", "importledger migrate",
    )  # fmt: skip


def test_what_waits_too_long_is_warned_of(idle: PostgresUrls, ledger: Ledger, admin: Admin) -> None:
    ledger.execute("supplier/FRESH", CreateSupplier(), at=now(), by="tester")
    stage(ledger, an_account("NORDWIND"))
    assert [finding.state for check in ("pending", "sealing") for finding in found(check)] == ["good", "good"]
    admin.execute("UPDATE import_status SET modified_at = modified_at - interval '11 minutes', due_at = NULL")
    assert found("pending")[0].state == "warned"


@pytest.mark.promise("doctor-metrics-call-sealed")
def test_a_log_that_cannot_be_signed_is_not_shown_as_sealed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", log.urls.service)
    monkeypatch.setenv("IMPORTLEDGER_DATA_DIR", str(log.folder / "none"))
    [signed] = found("sealing")
    assert (signed.state, signed.says, signed.todo) == ("good", "600 events are signed.", None)
    log.outside.keep(620, KEY.sign(620, bytes(32), NOON))
    log.add(301, 310)
    log.admin.execute("UPDATE events SET recorded_at = recorded_at - interval '1 hour' WHERE position > 600")
    with pytest.raises(SealRefused):
        log.seal()
    [stopped] = found("sealing")
    assert (stopped.state, stopped.todo) == ("wrong", DECIDE)
    assert "does not continue the checkpoint of 620 events" in stopped.says
    log.admin.execute("UPDATE intake_stops SET ended_at = now()")
    [waiting] = found("sealing")
    assert (waiting.state, "30 events are not signed" in waiting.says) == ("warned", True)


@pytest.mark.promise("doctor-goes-good-wrong")
def test_a_wrong_setting_and_a_database_that_is_away_are_findings(
    unchanged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody:secret@127.0.0.1:1/none")
    monkeypatch.setenv("REDIS_URL", "redis://:hidden@127.0.0.1:1/0")
    [good, away, redis, backups] = examine()
    assert (good.state, away.state) == ("good", "wrong")
    assert "127.0.0.1:1" in away.says
    assert "secret" not in away.says
    assert (redis.check, redis.state, backups.check) == ("redis", "warned", "backups")
    assert "hidden" not in redis.says
    monkeypatch.setenv("IMPORTLEDGER_DURABILITY", "perhaps")
    [wrong] = examine()
    assert "IMPORTLEDGER_DURABILITY" in wrong.says


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.promise("doctor-goes-good-wrong")
def test_on_a_terminal_the_page_goes_from_green_to_red(
    unchanged: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    assert doctor.callback is not None
    assert doctor.callback(backups=folder, as_json=False) == 1
    page = screen.getvalue()
    assert (
        page.index("\x1b[32mgood\x1b[0m ") < page.index("\x1b[33mwarned\x1b[0m") < page.index("\x1b[1;31mwrong\x1b[0m")
    )


def test_backups_are_looked_for_where_they_are_said_to_lie(unchanged: None, folder: Path) -> None:
    assert "were not checked" in found("backups")[0].says
    assert "no backup" in found("backups", folder)[0].says


@pytest.mark.parametrize(
    ("stream", "typed"),
    [
        ("import/NORDWIND/NW-1", "importledger projections heal NORDWIND NW-1"),
        ("participant//9900000000001", "importledger projections heal participant//9900000000001"),
        ("import/NORDWIND/a b/c", "importledger projections heal NORDWIND 'a b/c'"),
        ("customer-mail/NORDWIND/NW-1", "importledger projections heal NORDWIND NW-1"),
        ("price-sheet/A B/99/D-1", "importledger projections heal 'price-sheet/A B/99/D-1'"),
        ("supplier/NORDWIND", "importledger projections rebuild import_progress"),
    ],
)
def test_a_parked_stream_is_healed_by_what_the_verb_takes(stream: str, typed: str) -> None:
    assert heal_command("import_progress", stream) == typed


def test_a_database_that_takes_no_writes_is_told_from_one_that_was_away(
    unchanged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise NotChecked("no room")

    monkeypatch.setattr("cli.checkup.database.refuse_unsafe", away)
    says = "The database did not answer, so it could not be tested: no room."
    assert found("durability")[0].says == says
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    assert found("durability")[0].says == "The database takes no writes."


def test_versions_write_ahead_log_and_events_without_relay_and_seal_are_looked_at(
    idle: PostgresUrls, ledger: Ledger
) -> None:
    assert [found(check)[0].state for check in ("versions", "wal", "lag")] == ["good", "good", "good"]
    set_log_time(idle, now() - timedelta(hours=1))
    ledger.execute("supplier/NORDWIND", CreateSupplier(), at=now(), by="tester")
    assert found("lag")[0].says.startswith("The relay is 1 event and ")
    [finding] = found("sealing")
    assert finding.state == "warned"
    assert finding.says.startswith("1 event is not signed, the first since ")


def test_each_follower_has_its_own_lag_and_its_german_name(unchanged: None) -> None:
    says = " ".join(finding.says for finding in found("lag"))
    assert ("The relay is" in says, "The follower of ended imports is" in says) == (True, True)
    german = " ".join(german_of(finding.says) for finding in found("lag"))
    assert ("Das Relay liegt" in german, "Der Dienst für abgeschlossene Importe liegt" in german) == (True, True)


def test_customer_emails_without_a_mail_server_are_warned_of(idle: PostgresUrls, ledger: Ledger) -> None:
    assert found("mail")[0].state == "good"
    ledger.execute("supplier/NW", CreateSupplier(), at=now(), by="t")
    ledger.execute("supplier/NW", ConfigureSupplier(sends_customer_emails=True), at=now(), by="t")
    [finding] = found("mail")
    assert (finding.state, "no mail server is set" in finding.says) == ("warned", True)


def test_the_days_until_the_disk_is_full_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("IMPORTLEDGER_DATA_DIR", str(folder))
    context = CheckInput(settings=Settings.from_environment())
    free = shutil.disk_usage(folder).free
    states = {}
    for days in (3, 3_000):
        [finding] = free_space(context, day_bytes=free // days)
        assert re.search(r"enough for [0-9,]+ days of the last day's growth", finding.says)
        states[days] = finding.state
    [plain] = free_space(context)
    assert states[3_000] == plain.state  # of the share that is free
    assert states[3] != "good"


@pytest.mark.parametrize(("days", "state"), [(5, "warned"), (60, "good")])
def test_a_certificate_that_ends_soon_is_warned_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, days: int, state: str
) -> None:
    with serving_tls(folder, days) as address:
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "certificate.pem"))
        monkeypatch.setenv("IMPORTLEDGER_CONSOLE_URL", address)
        [finding] = certificate(CheckInput(settings=Settings.from_environment()))
        assert (finding.state, f"is valid for {days - 1} days" in finding.says) == (state, True)
        monkeypatch.delenv("SSL_CERT_FILE")
        [finding] = certificate(CheckInput(settings=Settings.from_environment()))
        assert (finding.state, "cannot be checked" in finding.says) == ("warned", True)
    monkeypatch.setenv("IMPORTLEDGER_CONSOLE_URL", "http://127.0.0.1:1")
    assert list(certificate(CheckInput(settings=Settings.from_environment()))) == []


@contextmanager
def serving_tls(folder: Path, days: int) -> Iterator[str]:
    """Serve TLS with a certificate of its own that is valid for these days. Yield the address."""
    self_signed(folder, "localhost", days=days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://localhost:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_mail_server_that_does_not_answer_is_named(unchanged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMPORTLEDGER_SMTP_URL", "smtp://user:secret@127.0.0.1:1")
    monkeypatch.setenv("IMPORTLEDGER_MAIL_FROM", "ledger@example.org")
    [finding] = found("mail")
    assert finding.state == "warned"
    assert "127.0.0.1:1" in finding.says
    assert "secret" not in finding.says


@pytest.mark.promise("documents-fetched-only-places")
def test_a_documents_root_outside_the_places_of_its_organisation_is_named(
    idle: PostgresUrls, ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose place was taken away since. Nobody misses documents that are not checked."""
    root = folder.as_uri()
    for code, organisation in (("A", "Mine"), ("B", "Other"), ("C", ""), ("D", "Other")):
        ledger.execute(f"supplier/{code}", CreateSupplier(), at=now(), by="t")
        command = ConfigureSupplier(
            documents_root=root, documents_organisation=organisation, documents_check="off" if code == "D" else "warn"
        )
        ledger.execute(f"supplier/{code}", command, at=now(), by="t")
    monkeypatch.setenv("IMPORTLEDGER_DOCUMENTS_PLACES", f"Mine={root}; Other={root}/sub")
    findings = found("documents")
    assert [finding.state for finding in findings] == ["good", "warned", "good"]
    assert findings[1].says == f"The documents of B are not checked: {root} is not allowed to Other."


@pytest.mark.promise("doctor-goes-good-wrong")
@pytest.mark.parametrize(
    ("statement", "checks"),
    [
        ("ALTER TABLE customer_mail RENAME TO elsewhere", {"pending", "mail"}),
        ("REVOKE ALL ON import_status FROM importledger, importledger_api, importledger_worker, importledger_relay",
         {"pending", "mail"}),
        ("ALTER TABLE troubles RENAME TO elsewhere", {"roles", "troubles"}),
        ("ALTER TABLE checkpoints RENAME TO elsewhere", {"lag", "projections", "sealing"}),
        ("ALTER FUNCTION synchronous_standbys() RENAME TO elsewhere", {"replication", "wal", "vacuum"}),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_wrong_and_other_checks_are_made(
    idle: PostgresUrls, statement: str, checks: set[str], admin: Admin
) -> None:
    before = {finding.check for finding in examine()}
    admin.execute(statement.encode())
    findings = list(examine())
    unread = {finding.check for finding in findings if finding.says.startswith("This cannot be checked: ")}
    assert checks <= unread <= checks | {"durability"}
    assert {finding.state for finding in findings if finding.check in checks} == {"wrong"}
    assert {finding.check for finding in findings} == before


def test_dead_rows_of_any_schema_are_warned_of_where_most_rows_are_dead(
    idle: PostgresUrls, monkeypatch: pytest.MonkeyPatch, admin: Admin
) -> None:
    monkeypatch.setattr("cli.checkup.database.WARNED_DEAD_ROWS", 10)
    for schema, deleted in (("public", 30), ("platform", 90)):
        table = f"{schema}.dying"
        admin.execute(
            f"CREATE TABLE {table} WITH (autovacuum_enabled = off) AS SELECT n FROM generate_series(1, 100) AS n;"
            f"DELETE FROM {table} WHERE n <= {deleted}; SELECT pg_stat_force_next_flush()".encode()
        )
    wait_for(lambda: len(found("vacuum")) > 1, "the statistics are there")
    warned = [finding for finding in found("vacuum") if finding.state == "warned"]
    assert [(finding.says, finding.todo) for finding in warned] == [
        ("platform.dying has 90 dead rows.", "VACUUM platform.dying")
    ]
