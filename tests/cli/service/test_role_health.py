"""Health checks of a relay and a worker over HTTP."""

import json
import re
import socket
import socketserver
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
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


NO_REDIS = "redis://127.0.0.1:1/0"
WRONG: dict[str, tuple[Callable[[str, int], str], str]] = {
    "worker": (lambda url, port: re.sub(r":[^:@/]+@", ":wrong@", url), "password authentication failed"),
    "relay": (lambda url, port: "postgresql://importledger:secret@nowhere.invalid/importledger", "nowhere.invalid"),
    "api": (
        lambda url, port: f"postgresql://importledger:secret@127.0.0.1:{port}/importledger?sslmode=require",
        "server does not support SSL",
    ),
}
"""By role, a wrong database URL of the right one and of the port of a server without TLS, and the reason."""


class Started(msgspec.Struct, frozen=True):
    """A role that runs, the port of its health, and its log."""

    role: str
    pid: int
    port: int
    log: Path

    def asked(self, path: str, method: str = "GET") -> tuple[int, dict[str, object]]:
        return asked(self.port, path, method)

    def wait_for_status(self, status: int) -> None:
        wait_for(lambda: self.asked("/readyz")[0] == status, f"{self.role} is {status}")

    def wait_for_detail(self, reason: str) -> None:
        wait_for(lambda: reason in str(self.asked("/readyz")[1].get("detail")), f"{self.role} names {reason}")

    def wait_for_line(self, reason: str) -> None:
        wait_for(lambda: reason in self.log.read_text(), f"{self.role} logs {reason}")


@contextmanager
def started_roles(
    urls: dict[str, str], database: PostgresUrls, redis_url: str, folder: Path
) -> Iterator[list[Started]]:
    """Start these roles together, each with its database URL."""
    with ExitStack() as stack:
        roles = []
        for role, url in urls.items():
            port, log = free_port(), folder / f"{role}.log"
            more = {"DATABASE_URL": url, "REDIS_URL": redis_url, "IMPORTLEDGER_HEALTH_PORT": str(port)}
            environment = environment_on(database, folder, **more)
            command = (role, "--port", str(port)) if role == "api" else (role,)
            process = stack.enter_context(start_role(*command, environment=environment, log=log))
            roles.append(Started(role, process.pid, port, log))
        yield roles


@pytest.mark.promise("role-cannot-reach-database")
def test_roles_that_cannot_reach_their_database_name_the_reason(
    shared_database: PostgresUrls, folder: Path, without_tls: int
) -> None:
    """In its log, once, and where supervisors ask."""
    urls = {role: wrong(shared_database.service, without_tls) for role, (wrong, _) in WRONG.items()}
    with started_roles(urls, shared_database, NO_REDIS, folder) as roles:
        for it in roles:
            it.wait_for_detail(WRONG[it.role][1])
            assert (it.asked("/readyz")[0], it.asked("/livez/")[0]) == (503, 200)
    for it in roles:
        told = [line for line in it.log.read_text().splitlines() if "connection to the database waits" in line]
        assert len([line for line in told if WRONG[it.role][1] in line]) == 1


@pytest.mark.promise("role-cannot-reach-database")
def test_roles_that_are_started_before_the_schema_wait_and_say_what_to_do(
    postgres: PostgresUrls, redis_url: str, folder: Path
) -> None:
    database = PostgresUrls(renamed(postgres.service, "without_schema"), renamed(postgres.admin, "without_schema"))
    with psycopg.connect(renamed(postgres.admin, "postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE without_schema")
    reason = "the database has no schema yet: run `importledger migrate`"
    urls = dict.fromkeys(("worker", "relay", "api"), database.service)
    try:
        with started_roles(urls, database, redis_url, folder) as roles:
            for it in roles:
                it.wait_for_line(reason)
                it.wait_for_status(503)
            service = RunningService(f"http://127.0.0.1:{roles[-1].port}", {}, None)
            key = {"Authorization": f"Token ilk_{'a' * 8}_{'b' * 43}"}
            answer, _ = service.request("POST", "/v2/data-import/accounts/", encoded(an_account("S", 1)), key)
            assert (answer.status, answer.codes) == (503, ("service_unavailable",))
            migrate_all(database.admin, service_role="importledger")
            for it in roles[:2]:
                it.wait_for_status(200)
                assert it.asked("/readyz") == (200, {"status": "ready", "pid": it.pid})
                assert it.asked("/livez/") == (200, {"status": "alive", "pid": it.pid})
                assert it.asked("/metrics")[0] == 404
                assert [it.asked(place, "POST")[0] for place in ("/livez", "/readyz")] == [404, 404]
    finally:
        drop(database)
    for it in roles:
        text = it.log.read_text()
        assert (text.count(reason), "Traceback" in text) == (1, False)


@pytest.mark.promise("role-cannot-reach-database")
@pytest.mark.parametrize(("role", "given"), [("worker", "api"), ("relay", "worker"), ("api", "relay")])
def test_a_role_with_the_database_user_of_another_names_its_own_and_ends(
    role: str, given: str, shared_database: PostgresUrls, folder: Path
) -> None:
    environment = environment_on(shared_database, folder, DATABASE_URL=shared_database.roles[given], REDIS_URL=NO_REDIS)
    arguments = ("--port", str(free_port())) if role == "api" else ()
    ended = cli(role, *arguments, environment=environment, check=False)
    assert ended.returncode == 1
    assert f"name importledger_{role} there" in ended.stderr
    assert ended.stderr.count("importledger: ") == 1
    assert "InsufficientPrivilege" not in ended.stderr


@pytest.mark.parametrize("role", ["relay", "api"])
def test_a_role_alone_makes_no_request_key_of_its_own(role: str, shared_database: PostgresUrls, folder: Path) -> None:
    environment = {"DATABASE_URL": shared_database.service, "REDIS_URL": NO_REDIS, "IMPORTLEDGER_DATA_DIR": str(folder)}
    arguments = ("--port", str(free_port())) if role == "api" else ()
    ended = cli(role, *arguments, environment=environment, check=False)
    assert (ended.returncode, ended.stderr.count("IMPORTLEDGER_REQUEST_KEY is not set: give every api")) == (1, 1)
    assert not (folder / "secrets" / "request_key").exists()


def test_a_port_that_is_taken_is_named(shared_database: PostgresUrls, folder: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        environment = environment_on(shared_database, folder, IMPORTLEDGER_HEALTH_PORT=str(port))
        refused = cli("worker", environment=environment, check=False)
    assert refused.returncode == 1
    assert f"port {port} cannot be used" in refused.stderr
