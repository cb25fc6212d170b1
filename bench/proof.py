"""Push a book, certify it, name seven altered accounts, revert the run, push again and certify: each with its bar.

The service runs as `importledger up` does.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import psycopg

from bench.results import Bar
from bench.service import OTHER, SUPPLIER
from bench.usage import most_memory_of, run_measured
from tests.support.running import RunningService, start_service

INTAKE = 500
"""Creates of another supplier while the run is reverted [1/s]."""
IMPORTBOOK = (sys.executable, "-m", "importledger_client")


class Proof:
    """A book, its service, and the importer's commands."""

    def __init__(self, folder: Path, service: RunningService, accounts: int, counted: float) -> None:
        self._folder, self._service, self._accounts, self._counted = folder, service, accounts, counted
        self._client_mb = 0.0
        for supplier in (SUPPLIER, OTHER):
            service.cli("supplier", "create", supplier)
        importer = service.importer(supplier=SUPPLIER)
        access = {"IMPORTLEDGER_URL": service.base_url, "IMPORTLEDGER_KEY": importer.api_key}
        self._environment = os.environ | access

    def importbook(self, *words: str, code: int = 0) -> tuple[float, str]:
        """Run a verb, and return its seconds and its output. Raises AssertionError for another exit code."""
        output = self._folder / "output"
        with output.open("wb") as file:
            command = [*IMPORTBOOK, *words]
            ended, seconds, kib = run_measured(command, self._folder, env=self._environment, stdout=file)
        self._client_mb = max(self._client_mb, kib / 1e3)
        assert ended == code, output.read_text()[-2000:]
        return seconds, output.read_text()

    def bars(self) -> list[Bar]:
        """Measure everything once."""
        share = self._accounts / 100_000
        pushed, _ = self.importbook("push", "book.ndjson", "--run", "go", "--wait", "--manifest", "go.manifest.json")
        certified, _ = self.importbook("reconcile", "go", "--manifest", "go.manifest.json")
        altered = self._alter()
        self.importbook("manifest", "book.ndjson", "-o", "go.manifest.json")
        before = _loopback_bytes()
        named, shown = self.importbook("reconcile", "go", "--manifest", "go.manifest.json", code=1)
        wire = (_loopback_bytes() - before) / 1e6
        found = set(re.findall(r"^  (\S+): (?:missing|additional|different), ", shown, re.MULTILINE))
        memory = most_memory_of({"service": self._processes()})["service"]
        reverted = self._reverted()
        again, _ = self.importbook("push", "book.ndjson", "--run", "go", "--wait", "--manifest", "go.manifest.json")
        balanced, shown = self.importbook("reconcile", "go", "--manifest", "go.manifest.json")
        assert "BALANCED" in shown, shown[-2000:]
        return [
            Bar("manifest alone, accounts/s", self._accounts / self._counted, 10_000),
            Bar("push with manifest and certificate [s]", pushed + certified, 90 * share, is_most=True),
            Bar("certificate [s]", certified, 10 * max(1.0, share), is_most=True),
            Bar("naming seven accounts [s]", named, 12 * max(1.0, share), is_most=True),
            Bar("naming seven accounts, MB over the wire", wire, 5, is_most=True),
            Bar("accounts named wrongly or not at all", len(found ^ altered), 0, is_most=True),
            Bar(f"reverted beside {INTAKE} creates a second, accounts/s", reverted, 1_000),
            Bar("push after the revert, and certificate [s]", again + balanced, 90 * share, is_most=True),
            Bar("MB of the largest process of the service", memory, 200, is_most=True),
            Bar("MB of the largest process of the importer", self._client_mb, 200, is_most=True),
        ]

    def _reverted(self) -> float:
        """Revert the run while another supplier's accounts are created, and return the accounts a second."""
        token, port = self._service.importer(supplier=OTHER).api_key, self._service.base_url.rsplit(":", 1)[1]
        words = ["--port", port, "--path", "/v2/data-import/accounts/", "--token", token, "--supplier", OTHER]
        command = [sys.executable, "-m", "bench.load", *words, "--seconds", "3600", "--rate", str(INTAKE)]
        with subprocess.Popen(command) as loading:
            began = time.monotonic()
            reverting = self._service.cli("revert", SUPPLIER, "--run", "go", "--yes", "--reason", "measured", "--json")
            seconds, is_loading = time.monotonic() - began, loading.poll() is None
            loading.kill()
        assert is_loading, "the intake must run until the end"
        assert json.loads(reverting.stdout)["reverted"] == self._accounts, reverting.stdout
        return self._accounts / seconds

    def _alter(self) -> set[str]:
        """Alter three accounts on the platform and four in the source, and return their numbers."""
        secrets = Path(self._service.environment["IMPORTLEDGER_DATA_DIR"]) / "secrets" / "connections.json"
        with psycopg.connect(json.loads(secrets.read_text())["admin_url"]) as connection:
            query = "SELECT account_number, external_account_number FROM platform.service_account ORDER BY 1 LIMIT 3"
            (first, a), (second, b), (third, c) = connection.execute(query).fetchall()
            connection.execute("UPDATE platform.reading SET value = value + 1 WHERE account_number = %s", (first,))
            connection.execute("DELETE FROM platform.customer WHERE account_number = %s", (second,))
            connection.execute("DELETE FROM platform.service_account WHERE account_number = %s", (third,))
        book, altered = self._folder / "book.ndjson", self._folder / "altered.ndjson"
        numbers = {a, b, c}
        with book.open("rb") as lines, altered.open("wb") as written:
            for index, line in enumerate(lines):
                account = json.loads(line) if index in (0, self._accounts // 2, self._accounts - 1) else None
                external = account["external_account_number"] if account is not None else ""
                if account is None or external in numbers:
                    written.write(line)
                    continue
                numbers.add(external)
                if index:
                    account["notes"].append({"body": "added"})
                    written.write(json.dumps(account).encode() + b"\n")
            written.write(json.dumps(json.loads(line) | {"external_account_number": "added"}).encode() + b"\n")
        altered.replace(book)
        return numbers | {"added"}

    def _processes(self) -> list[int]:
        """Return the processes of the service, without Postgres and Redis."""
        assert self._service.process is not None
        children = psutil.Process(self._service.process.pid).children(recursive=True)
        return [child.pid for child in children if "python" in child.name()]


def proved(accounts: int) -> list[Bar]:
    """Measure a book of so many accounts on a new service."""
    with tempfile.TemporaryDirectory(prefix="bench-proof-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # if this runs as root, the servers run as another user
        (folder / "data").mkdir(mode=0o755)
        counted = _counted_alone(folder, accounts)
        with start_service(folder / "data", "--api-processes", "2", workers=2) as service:
            return Proof(folder, service, accounts, counted).bars()


def _counted_alone(folder: Path, accounts: int) -> float:
    """Write a book, and return the seconds of its manifest, before the service runs on this machine."""
    words = ["generate", "--accounts", str(accounts), "--supplier", SUPPLIER, "--errors", "0"]
    with (folder / "book.ndjson").open("wb") as book:
        subprocess.run([*IMPORTBOOK, *words], check=True, stdout=book)
    words = ["manifest", "book.ndjson", "-o", "go.manifest.json"]
    ended, seconds, _ = run_measured([*IMPORTBOOK, *words], folder, stdout=subprocess.DEVNULL)
    assert ended == 0
    return seconds


def _loopback_bytes() -> int:
    """Return the bytes that this machine has sent to itself: the service and importbook, as nothing else runs here."""
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent
