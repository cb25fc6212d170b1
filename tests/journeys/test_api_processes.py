"""Several api processes on one port share suppliers, keys, limits, readiness and refused attempts."""

import http.client
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.access.api_key import API_KEY
from tests.support.folders import temporary_folder
from tests.support.make import an_account, changed, encoded
from tests.support.running import RunningService, start_service, wait_for

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
    with temporary_folder() as folder, start_service(folder, "--api-processes", "2") as service:
        yield service


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
        _limits_are_right(running, connections)
        _readiness_is_right(Path(running.environment["IMPORTLEDGER_DATA_DIR"]), connections)
        _attempts_are_right(running, connections)


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


def _limits_are_right(running: RunningService, connections: dict[int, http.client.HTTPConnection]) -> None:
    """The rate limit of a key counts requests to both."""
    supplier = running.importer().supplier
    path = f"/v1/data-import/pending-account-import-processes/{supplier}/"

    def is_shared() -> bool:
        """Measure with a new key. A process whose Redis does not answer in time counts alone."""
        made = running.cli("key", "create", "Slow", "--supplier", supplier, "--rate", "1/s", "--json")
        api_key = msgspec.json.decode(made.stdout)["api_key"]
        began, taken = time.monotonic(), 0
        for _ in range(10):
            answers = [exchange(connection, "GET", path, None, api_key) for connection in connections.values()]
            taken += [status for status, _ in answers].count(200)
        return 1 <= taken <= 1 + time.monotonic() - began

    wait_for(is_shared, "both processes together keep the rate")


def _readiness_is_right(folder: Path, connections: dict[int, http.client.HTTPConnection]) -> None:
    """Both report a role that ends after each start."""
    file = folder / "secrets" / "dying_roles.json"
    file.write_text('{"worker-1": "importledger: no."}')
    dying = [exchange(connection, "GET", "/readyz") for connection in connections.values()]
    file.write_text("{}")
    ready = [exchange(connection, "GET", "/readyz") for connection in connections.values()]
    assert [status for status, _ in dying + ready] == [503, 503, 200, 200]
    assert all("worker-1" in answer["detail"] for _, answer in dying)


def _attempts_are_right(running: RunningService, connections: dict[int, http.client.HTTPConnection]) -> None:
    """Attempts that either process has refused are found."""
    importer = running.importer()
    account = changed(an_account(importer.supplier), "x", "transfer_balance")
    for connection in connections.values():
        assert exchange(connection, "POST", ACCOUNTS, encoded(account), importer.api_key)[0] == 400

    def attempts() -> int:
        found = running.cli("search", account["external_account_number"], "--supplier", importer.supplier, "--json")
        return sum("refused" in msgspec.json.decode(line) for line in found.stdout.splitlines())

    wait_for(lambda: attempts() == 2, "both attempts are found")
