"""Several api processes on one port share suppliers, keys, readiness and metrics."""

import http.client
import re
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.access.api_key import API_KEY
from tests.support.folders import temporary_folder
from tests.support.make import an_account, encoded
from tests.support.running import RunningService, free_port, start_service, wait_for

ACCOUNTS = "/v2/data-import/accounts/"


def answering(running: RunningService) -> int:
    """The pid of the process that answers a new connection."""
    with urllib.request.urlopen(f"{running.base_url}/livez", timeout=30) as answer:
        return int(msgspec.json.decode(answer.read())["pid"])


@contextmanager
def connected(running: RunningService) -> Iterator[dict[int, http.client.HTTPConnection]]:
    """A connection to each of two api processes, by its pid."""
    found: dict[int, http.client.HTTPConnection] = {}
    try:
        while len(found) < 2:
            connection = http.client.HTTPConnection(running.base_url.removeprefix("http://"), timeout=30)
            pid = int(exchange(connection, "GET", "/livez")[1]["pid"])
            if pid in found:
                connection.close()
            else:
                found[pid] = connection
        yield found
    finally:
        for connection in found.values():
            connection.close()


def exchange(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None, api_key: str = ""
) -> tuple[int, Any]:
    connection.request(method, path, body, {"Authorization": f"Token {api_key}"} if api_key else {})
    response = connection.getresponse()
    return response.status, msgspec.json.decode(response.read())


@pytest.fixture(scope="module")
def running() -> Iterator[RunningService]:
    settings = {"IMPORTLEDGER_METRICS_PORT": str(free_port())}
    with temporary_folder() as folder, start_service(folder, "--api-processes", "2", environment=settings) as service:
        yield service


@pytest.mark.promise("metrics-port-their-own")
def test_a_metrics_port_shows_every_process_and_the_public_port_nothing(running: RunningService) -> None:
    assert running.raw("GET", "/metrics")[0] == 404
    port = running.environment["IMPORTLEDGER_METRICS_PORT"]

    def roles() -> set[str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            return set(re.findall(r'^importledger_append_queue\{role="([\w-]+)"\}', answer.read().decode(), re.M))

    wait_for(lambda: roles() == {"api-1", "api-2", "relay", "worker-1"}, "all roles count")


def test_two_api_processes_serve_one_port(running: RunningService) -> None:
    first, second = running.processes("api")
    assert {answering(running) for _ in range(20)} <= {first.pid, second.pid}
    assert all("api" in process.cmdline() for process in (first, second))
    first.suspend()
    try:
        wait_for(lambda: answering(running) == second.pid, "the other one answers")
    finally:
        first.resume()
    first.send_signal(signal.SIGKILL)
    assert answering(running) == second.pid
    wait_for(lambda: len(running.processes("api")) == 2, "the killed one is started again")


def test_each_of_two_api_processes_knows_what_the_other_does(running: RunningService) -> None:
    for role in ("api", "relay", "worker"):
        assert all(role in process.cmdline() for process in running.processes(role))
        assert running.processes(role)
    with connected(running) as connections:
        _directory_is_right(running, connections)
        _readiness_is_right(Path(running.environment["IMPORTLEDGER_DATA_DIR"]), connections)


def _directory_is_right(running: RunningService, connections: dict[int, http.client.HTTPConnection]) -> None:
    """A new supplier and key work at once in both, and so does the revocation of the key."""
    importer = running.importer()
    body = encoded(an_account(importer.supplier))

    def validated() -> set[int]:
        return {
            exchange(connection, "POST", f"{ACCOUNTS}validate/", body, importer.api_key)[0]
            for connection in connections.values()
        }

    assert validated() == {200}
    key_id = API_KEY.match(importer.api_key)
    assert key_id is not None
    running.cli("key", "revoke", key_id[1])
    wait_for(lambda: validated() == {401}, "the key is void in both")


def _readiness_is_right(folder: Path, connections: dict[int, http.client.HTTPConnection]) -> None:
    """Both report a role that ends after each start."""
    file = folder / "secrets" / "dying_roles.json"
    file.write_text('{"worker-1": "importledger: no."}')
    dying = [exchange(connection, "GET", "/readyz") for connection in connections.values()]
    file.write_text("{}")
    ready = [exchange(connection, "GET", "/readyz") for connection in connections.values()]
    assert [status for status, _ in dying + ready] == [503, 503, 200, 200]
    assert all("worker-1" in answer["detail"] for _, answer in dying)
