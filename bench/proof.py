"""Push a book, certify it, name seven altered accounts, revert the run, push again and certify, and compare with bars.

    python -m bench.proof --accounts 100000

The service runs as `importledger up` does. Exit code 1 if a bar is missed or another account is named.
"""

import argparse
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import psycopg

from bench.results import Bar
from bench.usage import most_memory_of
from tests.support.running import RunningService, free_port, start_service

ACCOUNTS = 100_000
SUPPLIER, OTHER = "NORDWIND", "SUEDWIND"
INTAKE = 500
"""Creates of another supplier while the run is reverted [1/s]."""
_BUFFER_BYTES = 2**16


class Proxy:
    """Passes connections on to a service, and counts their bytes."""

    def __init__(self, port: int) -> None:
        self.bytes = 0
        self._service = port
        self._listening = socket.create_server(("127.0.0.1", free_port()))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client = self._listening.accept()[0]
            service = socket.create_connection(("127.0.0.1", self._service))
            for source, target in ((client, service), (service, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        while part := source.recv(_BUFFER_BYTES):
            self.bytes += len(part)
            target.sendall(part)
        target.close()


class Proof:
    """A book, its service, and the importer's commands."""

    def __init__(self, folder: Path, service: RunningService, accounts: int, counted: float) -> None:
        self._folder, self._service, self._accounts, self._counted = folder, service, accounts, counted
        self._proxy = Proxy(int(service.base_url.rsplit(":", 1)[1]))
        for supplier in (SUPPLIER, OTHER):
            service.cli("supplier", "create", supplier)
        importer = service.importer(supplier=SUPPLIER)
        access = {"IMPORTLEDGER_URL": f"http://127.0.0.1:{self._proxy.port}", "IMPORTLEDGER_KEY": importer.api_key}
        self._environment = os.environ | access

    def importbook(self, *words: str, code: int = 0) -> tuple[float, str]:
        """Run a verb, and return its seconds and its output. Raises AssertionError for another exit code."""
        began = time.monotonic()
        command = [sys.executable, "-m", "importledger_client", *words]
        ended = subprocess.run(command, cwd=self._folder, env=self._environment, capture_output=True, text=True)
        assert ended.returncode == code, ended.stdout[-2000:] + ended.stderr[-2000:]
        return time.monotonic() - began, ended.stdout

    def bars(self) -> list[Bar]:
        """Measure everything once."""
        share = self._accounts / 100_000
        pushed, _ = self.importbook("push", "book.ndjson", "--run", "go", "--wait", "--manifest", "go.manifest.json")
        certified, _ = self.importbook("reconcile", "go", "--manifest", "go.manifest.json")
        altered = self._alter()
        self.importbook("manifest", "book.ndjson", "-o", "go.manifest.json")
        before = self._proxy.bytes
        named, shown = self.importbook("reconcile", "go", "--manifest", "go.manifest.json", code=1)
        wire = (self._proxy.bytes - before) / 1e6
        found = set(re.findall(r"^  (\S+): (?:missing|additional|different), ", shown, re.MULTILINE))
        memory = most_memory_of({"service": self._processes()})["service"]
        reverted = self._reverted()
        again, _ = self.importbook("push", "book.ndjson", "--run", "go", "--wait", "--manifest", "go.manifest.json")
        balanced, shown = self.importbook("reconcile", "go", "--manifest", "go.manifest.json")
        assert "BALANCED" in shown, shown[-2000:]
        client = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
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
            Bar("MB of the largest process of the importer", client, 200, is_most=True),
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


def counted_alone(folder: Path, accounts: int) -> float:
    """Write a book, and return the seconds of its manifest, before the service runs on this machine."""
    importbook = [sys.executable, "-m", "importledger_client"]
    with (folder / "book.ndjson").open("wb") as book:
        words = ["generate", "--accounts", str(accounts), "--supplier", SUPPLIER, "--errors", "0"]
        subprocess.run([*importbook, *words], check=True, stdout=book)
    began = time.monotonic()
    subprocess.run(
        [*importbook, "manifest", "book.ndjson", "-o", "go.manifest.json"], cwd=folder, check=True, capture_output=True
    )
    return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the way from a book to its certificate.")
    parser.add_argument("--accounts", type=int, default=ACCOUNTS, help="accounts of the book [default: 100000]")
    accounts = parser.parse_args().accounts
    with tempfile.TemporaryDirectory(prefix="bench-proof-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # if this runs as root, the servers run as another user
        (folder / "data").mkdir(mode=0o755)
        counted = counted_alone(folder, accounts)
        with start_service(folder / "data", "--api-processes", "2", workers=2) as service:
            bars = Proof(folder, service, accounts, counted).bars()
    for bar in bars:
        print(f"{bar.name}: {bar.measured:,.1f} (bar {bar.bar:,.0f}) {'ok' if bar.is_met else 'MISSED'}")
    return int(not all(bar.is_met for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
