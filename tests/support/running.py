"""Running services as their users do: processes, the command line, and HTTP."""

import contextlib
import http.client
import itertools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import psutil

from embedded.postgres import PostgresUrls
from tests.support.importing import Answer, ImportClient
from tests.support.make import encoded
from tests.support.prepared import prepare
from tests.support.verbs import run_verb

REQUEST_KEY = "r" * 32
"""Authenticates sessions and requests of users, of each service that tests start, so that tests can begin them."""
NICENESS = 1
"""Of relay and workers: many processes work beside them here, and tests wait for what they do."""

_names = itertools.count(1)


def free_port() -> int:
    """A port that nobody listens on, below those that the system gives to connections: these come and go meanwhile."""
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def listens(url: str) -> bool:
    """Return True if a server accepts connections on the Unix socket of this URL."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(unquote(url.removeprefix("unix://"))) == 0


def wait_for(claim: Callable[[], bool], claim_text: str, timeout_s: float = 60.0) -> None:
    """Return when the claim holds. Fails with `claim_text` if it does not hold in time.

    The pauses grow, since checking takes CPU time from the work that is waited for.
    """
    began = time.monotonic()
    while not claim():
        waited = time.monotonic() - began
        assert waited < timeout_s, f"not in {timeout_s} s: {claim_text}"
        time.sleep(min(max(0.05, waited / 10), 0.5))


def cli(*arguments: str, environment: Mapping[str, str], check: bool = True) -> subprocess.CompletedProcess[str]:
    """A verb of the command, in this process."""
    ended = run_verb(*arguments, environment=environment)
    assert not check or ended.returncode == 0, (arguments, ended.returncode, ended.stdout, ended.stderr)
    return ended


def program(*arguments: str, environment: Mapping[str, str], check: bool = True) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own: for what starts others, runs beside threads, or is about the process."""
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,  # a verb takes a second, and many on a machine that is busy
        check=check,
    )


def environment_on(database: PostgresUrls, folder: Path, **more: str) -> dict[str, str]:
    """The environment of verbs and roles on this database; data and checkpoints lie in the folder."""
    return {
        "DATABASE_URL": database.service,
        "DATABASE_ADMIN_URL": database.admin,
        "IMPORTLEDGER_CHECKPOINTS_URL": (folder / "checkpoints").as_uri(),
        "IMPORTLEDGER_DATA_DIR": str(folder / "data"),
        "IMPORTLEDGER_REQUEST_KEY": REQUEST_KEY,
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
        "IMPORTLEDGER_TOKEN_KEY": "k" * 40,
        **more,
    }


class Importer(msgspec.Struct, frozen=True):
    """A supplier of a test's own, and a client with a key for it."""

    supplier: str
    api_key: str
    client: ImportClient
    service: "RunningService"

    @property
    def fields(self) -> dict[str, str]:
        """Header fields of a request with the key."""
        return {"Authorization": f"Token {self.api_key}", "Content-Type": "application/json"}

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[Answer, Mapping[str, str]]:
        """One raw request with the key: no retries. A body that is not bytes is sent as JSON."""
        sent = body if isinstance(body, bytes | None) else encoded(body)
        return self.service.request(method, path, sent, self.fields | dict(headers or {}))

    def revoke(self) -> None:
        """Revoke the key, and wait until the api knows that."""
        self.service.cli("key", "revoke", self.api_key.split("_")[1], "--reason", "lost")
        path = f"/v2/data-import/runs/{self.supplier}/"
        wait_for(lambda: self.request("GET", path)[0].status == 401, "the key is refused")


class RunningService:
    """A service that listens, and the environment in which the command line finds it."""

    def __init__(self, base_url: str, environment: Mapping[str, str], process: subprocess.Popen[bytes] | None) -> None:
        self.base_url = base_url
        self.environment = environment
        self.process = process
        self._clients: list[ImportClient] = []
        self._operator = ""

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return cli(*arguments, environment=self.environment, check=check)

    def program(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return program(*arguments, environment=self.environment, check=check)

    def importer(self, *, role: str = "importer", organisation: str = "Testers", supplier: str = "") -> Importer:
        """An organisation's key for this supplier, or for a fresh one."""
        if not supplier:
            supplier = f"S{next(_names)}_{os.getpid()}"
            self.cli("supplier", "create", supplier)
        made = self.cli("key", "create", organisation, "--supplier", supplier, "--role", role, "--json")
        api_key = json.loads(made.stdout)["api_key"]
        return self.with_key(supplier, api_key)

    def with_key(self, supplier: str, api_key: str) -> Importer:
        client = ImportClient(self.base_url, api_key)
        self._clients.append(client)
        return Importer(supplier, api_key, client, self)

    def operator(self) -> dict[str, str]:
        """The header field with a key that may read the metrics."""
        if not self._operator:
            self._operator = self.importer(role="operator", supplier="*").api_key
        return {"Authorization": f"Token {self._operator}"}

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[Answer, Mapping[str, str]]:
        """One raw request: no token, no retries."""
        response, text = self._exchange(method, path, body, headers)
        is_lines = (response.getheader("content-type") or "").startswith("application/x-ndjson")
        found = [json.loads(line) for line in text.splitlines()] if is_lines else json.loads(text) if text else None
        return Answer(response.status, found), dict(response.headers)

    def raw(self, method: str, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Mapping[str, str]]:
        """Status and header fields of one request without a body, whatever the answer's body is."""
        response, _ = self._exchange(method, path, None, headers)
        return response.status, {name.lower(): value for name, value in response.headers.items()}

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return response, response.read()

    def connection(self, timeout_s: float = 30) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.base_url.removeprefix("http://"), timeout=timeout_s)

    def processes(self, role: str) -> list[psutil.Process]:
        """The processes of a role, or of a server, below the supervisor."""
        assert self.process is not None
        marks = {"postgres": "/bin/postgres", "redis": "redis-server"}
        mark = marks.get(role)
        found = []
        for child in psutil.Process(self.process.pid).children():
            try:
                command = child.cmdline()
            except psutil.NoSuchProcess:  # it has just died
                continue
            if (mark and any(mark in part for part in command)) or command[-1:] == [role] or role in command[3:4]:
                found.append(child)
        return found


def is_ready(base_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base_url}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@contextlib.contextmanager
def start_service(
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
    workers: int = 1,
    is_ready: Callable[[str], bool] = is_ready,
) -> Iterator[RunningService]:
    """`importledger up` on the folder until the end of the block, then SIGTERM. Its Postgres is made already."""
    if "DATABASE_URL" not in (environment or {}):
        prepare(folder)
    port = port or free_port()
    settings = {"IMPORTLEDGER_DATA_DIR": str(folder), "IMPORTLEDGER_LOG_LEVEL": "error"}
    settings |= {"IMPORTLEDGER_NICENESS": str(NICENESS), "IMPORTLEDGER_REQUEST_KEY": REQUEST_KEY}
    settings |= dict(environment or {})
    command = [sys.executable, "-m", "cli.main", "up", "--port", str(port), "--workers", str(workers)]
    command += ["--api-processes", "1", *options]  # the last of an option counts
    with (folder / "up.log").open("ab") as log:
        process = subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log)
    running = RunningService(f"http://127.0.0.1:{port}", settings, process)
    try:
        wait_for(
            lambda: is_ready(running.base_url) or process.poll() is not None,
            f"the service is ready, see {folder}",
            timeout_s=90,
        )
        assert process.poll() is None, (folder / "up.log").read_text()
        yield running
    finally:
        running.close()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        await_end(process, folder / "up.log")


@contextlib.contextmanager
def start_role(
    *arguments: str, module: str = "cli.main", environment: Mapping[str, str], log: Path, code: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """One role by hand until the end of the block; of the code in this folder, where one is named."""
    more = {"IMPORTLEDGER_NICENESS": str(NICENESS), "IMPORTLEDGER_REQUEST_KEY": REQUEST_KEY}
    more |= {"PYTHONPATH": str(code)} if code else {}
    command = [sys.executable, "-m", module, *arguments]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env=os.environ | more | dict(environment), cwd=code, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        await_end(process, log)


def await_end(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a process that was told to stop. If it does not stop, it is killed, and the test fails with its log."""
    try:
        process.wait(60)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.wait()
        output = log.read_text(errors="replace")[-5000:]
        raise AssertionError(f"{process.args!r} did not stop:\n{output}") from error


def processed(importer: Importer) -> int:
    """Return the number of the importer's accounts that exist."""
    body: list[Any] = importer.client.imported(importer.supplier).body
    return len(body)
