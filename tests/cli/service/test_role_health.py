"""Health checks of a relay and a worker over HTTP."""

import json
import re
import socket
import socketserver
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli.service.role_health import why_not_ready
from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from eventstore.operations.migrate import NEWEST
from projections import INLINE
from projections.versions.install import migrate_all
from tests.support.databases import Admin, drop, renamed
from tests.support.make import an_account, encoded
from tests.support.running import RunningService, cli, environment_on, free_port, start_role, wait_for


def asked(port: int, path: str, method: str = "GET") -> tuple[int, dict[str, object]]:
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except (urllib.error.URLError, ConnectionError):
        return 0, {}


def test_a_role_is_not_ready_where_it_cannot_do_its_work(database: PostgresUrls, admin: Admin) -> None:
    ledger = Ledger(database.service, views=INLINE, is_open=False)
    try:
        assert "does not answer" in (why_not_ready(ledger) or "")
        ledger.open()
        assert why_not_ready(ledger) is None
        admin.execute("DELETE FROM schema_migrations WHERE name = %s", (NEWEST,))
        assert why_not_ready(ledger) == "the schema is older than the code"
        admin.execute("ALTER TABLE schema_migrations RENAME TO elsewhere")
        assert why_not_ready(ledger) == "the schema is missing: run `importledger migrate`"
        admin.execute("CREATE TABLE schema_migrations (name text)")
        assert why_not_ready(ledger) == "the schema cannot be read (permission denied for table schema_migrations)"
    finally:
        ledger.close()


class _WithoutTls(socketserver.BaseRequestHandler):
    """Answers every client as a Postgres without TLS does."""

    def handle(self) -> None:
        self.request.recv(8)
        self.request.sendall(b"N")


@pytest.fixture
def without_tls() -> Iterator[int]:
    """The port of a server without TLS."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _WithoutTls) as server:
        answering = threading.Thread(target=server.serve_forever, args=(0.05,))
        answering.start()
        yield server.server_address[1]
        server.shutdown()
        answering.join()


WRONG = {
    "password": "password authentication failed",
    "host": "nowhere.invalid",
    "TLS": "server does not support SSL",
}


@pytest.mark.promise("role-cannot-reach-database")
@pytest.mark.parametrize(("role", "wrong"), [("worker", "password"), ("relay", "host"), ("api", "TLS")])
def test_a_role_that_cannot_reach_its_database_names_the_reason(
    role: str, wrong: str, shared_database: PostgresUrls, redis_url: str, folder: Path, without_tls: int
) -> None:
    """In its log, once, and where supervisors ask."""
    reason, port = WRONG[wrong], free_port()
    urls = {
        "password": re.sub(r":[^:@/]+@", ":wrong@", shared_database.service),
        "host": "postgresql://importledger:secret@nowhere.invalid/importledger",
        "TLS": f"postgresql://importledger:secret@127.0.0.1:{without_tls}/importledger?sslmode=require",
    }
    urls = {"DATABASE_URL": urls[wrong], "REDIS_URL": redis_url}
    environment = environment_on(shared_database, folder, **urls, IMPORTLEDGER_HEALTH_PORT=str(port))
    arguments = ("--port", str(port)) if role == "api" else ()
    with start_role(role, *arguments, environment=environment, log=folder / "role.log"):
        wait_for(lambda: asked(port, "/readyz")[0] == 503, "the role answers", timeout_s=60)
        wait_for(lambda: reason in str(asked(port, "/readyz")[1].get("detail")), "it names the reason", timeout_s=60)
        assert asked(port, "/readyz")[0] == 503
        assert asked(port, "/livez/")[0] == 200
    lines = (folder / "role.log").read_text().splitlines()
    assert len([line for line in lines if "connection to the database waits" in line and reason in line]) == 1


@pytest.mark.promise("role-cannot-reach-database")
@pytest.mark.parametrize("role", ["worker", "relay", "api"])
def test_a_role_that_is_started_before_the_schema_waits_and_says_what_to_do(
    role: str, postgres: PostgresUrls, redis_url: str, folder: Path
) -> None:
    database = PostgresUrls(renamed(postgres.service, "without_schema"), renamed(postgres.admin, "without_schema"))
    with psycopg.connect(renamed(postgres.admin, "postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE without_schema")
    health, port, log = free_port(), free_port(), folder / "role.log"
    environment = environment_on(database, folder, REDIS_URL=redis_url, IMPORTLEDGER_HEALTH_PORT=str(health))
    arguments = ("--port", str(port)) if role == "api" else ()
    reason = "the database has no schema yet: run `importledger migrate`"
    try:
        with start_role(role, *arguments, environment=environment, log=log) as process:
            asking = port if role == "api" else health
            wait_for(lambda: reason in log.read_text(), "it names the reason", timeout_s=60)
            wait_for(lambda: asked(asking, "/readyz")[0] == 503, "it is not ready", timeout_s=60)
            if role == "api":
                service = RunningService(f"http://127.0.0.1:{port}", {}, None)
                key = {"Authorization": f"Token ilk_{'a' * 8}_{'b' * 43}"}
                answer, _ = service.request("POST", "/v2/data-import/accounts/", encoded(an_account("S", 1)), key)
                assert (answer.status, answer.codes) == (503, ("service_unavailable",))
            migrate_all(database.admin, service_role="importledger")
            if role != "api":
                wait_for(lambda: asked(asking, "/readyz")[0] == 200, "it begins", timeout_s=60)
                assert asked(asking, "/readyz") == (200, {"status": "ready", "pid": process.pid})
                assert asked(asking, "/livez/") == (200, {"status": "alive", "pid": process.pid})
                assert asked(asking, "/metrics")[0] == 404
                assert [asked(asking, place, "POST")[0] for place in ("/livez", "/readyz")] == [404, 404]
    finally:
        drop(database)
    assert len([line for line in log.read_text().splitlines() if reason in line]) == 1
    assert "Traceback" not in log.read_text()


@pytest.mark.promise("role-cannot-reach-database")
@pytest.mark.parametrize(("role", "given"), [("worker", "api"), ("relay", "worker"), ("api", "relay")])
def test_a_role_with_the_database_user_of_another_names_its_own_and_ends(
    role: str, given: str, shared_database: PostgresUrls, redis_url: str, folder: Path
) -> None:
    environment = environment_on(
        shared_database, folder, DATABASE_URL=shared_database.roles[given], REDIS_URL=redis_url
    )
    arguments = ("--port", str(free_port())) if role == "api" else ()
    ended = cli(role, *arguments, environment=environment, check=False)
    assert ended.returncode == 1
    assert f"name importledger_{role} there" in ended.stderr
    assert ended.stderr.count("importledger: ") == 1
    assert "InsufficientPrivilege" not in ended.stderr


@pytest.mark.parametrize("role", ["relay", "api"])
def test_a_role_alone_makes_no_request_key_of_its_own(
    role: str, database: PostgresUrls, redis_url: str, folder: Path
) -> None:
    environment = {"DATABASE_URL": database.service, "REDIS_URL": redis_url, "IMPORTLEDGER_DATA_DIR": str(folder)}
    arguments = ("--port", str(free_port())) if role == "api" else ()
    ended = cli(role, *arguments, environment=environment, check=False)
    assert (ended.returncode, ended.stderr.count("IMPORTLEDGER_REQUEST_KEY is not set: give every api")) == (1, 1)
    assert not (folder / "secrets" / "request_key").exists()


def test_a_port_that_is_taken_is_named(database: PostgresUrls, folder: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        environment = environment_on(database, folder, IMPORTLEDGER_HEALTH_PORT=str(port))
        refused = cli("worker", environment=environment, check=False)
    assert refused.returncode == 1
    assert f"port {port} cannot be used" in refused.stderr
