"""A real service under load, into which faults are injected: its processes, its load, a probe, and its invariants."""

import contextlib
import http.client
import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import psutil
import psycopg
from psycopg.rows import dict_row

from eventstore.errors import LedgerError, OperatorError
from eventstore.log.ledger import Ledger
from lab.faults.account import Findings, findings_of
from projections import INLINE
from projections.retention.reverting import Selection, revert
from tests.support.importing import ImportClient
from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, free_port, start_service, wait_for
from tests.support.whole import admin_url

WORKERS = 2
REST_TIMEOUT_S = 180.0
REVERT_PAUSE_S, REVERTED_AT_ONCE = 1.0, 20
"""Seconds between two reverts beside the load, and accounts of each."""
LOAD_PAUSE_S = 0.01
"""Seconds that an importer of the load waits after an account."""
ALREADY = ("account_import_process_already_imported",)


class Load:
    """Importers who send accounts continuously, repeat those without an answer, and record those acknowledged."""

    def __init__(self, base_url: str, importer: Importer, *, connections: int = 2, first: int = 1) -> None:
        self.importer = importer
        self.acknowledged: set[str] = set()
        self.unreadable = self.refused = 0
        self._base_url = base_url
        self._numbers = itertools.count(first)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(connections)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _send(self) -> None:
        with contextlib.closing(ImportClient(self._base_url, self.importer.api_key, tries=1)) as client:
            while not self._stop.is_set():
                number = next(self._numbers)
                account = an_account(self.importer.supplier, number)
                self._repeat_until_acknowledged(client, account["external_account_number"], encoded(account))
                self._stop.wait(LOAD_PAUSE_S)

    def _repeat_until_acknowledged(self, client: ImportClient, external: str, body: bytes) -> None:
        while not self._stop.is_set():
            if self._is_acknowledged(client, body):
                self.acknowledged.add(external)
                return
            self.refused += 1
            self._stop.wait(0.1)

    def _is_acknowledged(self, client: ImportClient, body: bytes) -> bool:
        try:
            answer = client.create(body)
        except (OSError, http.client.HTTPException, PermissionError):
            return False
        except ValueError:  # not JSON, which every answer must be, also that of an error
            self.unreadable += 1
            return False
        return answer.status == 201 or answer.codes == ALREADY


class Reverts:
    """An operator who reverts accounts continuously: some of those that were acknowledged, which nobody sends again."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._revert, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def _revert(self) -> None:
        while not self._stop.wait(REVERT_PAUSE_S):
            known = sorted(self._world.acknowledged())
            chosen = self._world.random.sample(known, min(REVERTED_AT_ONCE, len(known)))
            with contextlib.suppress(LedgerError, OperatorError, psycopg.Error):
                self.revert(chosen)

    def revert(self, externals: list[str]) -> None:
        with contextlib.closing(Ledger(admin_url(self._world.service), views=INLINE)) as ledger:
            selection = Selection(supplier=self._world.importer.supplier, externals=tuple(externals))
            revert(ledger, selection, "chaos", by="operator:chaos")


class World:
    """`importledger up` on a folder, with two workers, a load on it, and reverts beside the load."""

    def __init__(self, folder: Path, random: Random) -> None:
        folder.mkdir(mode=0o711, exist_ok=True)
        self.folder = folder
        self.random = random
        self.port = free_port()
        self._stack = contextlib.ExitStack()
        self.service = self._started()
        self.importer = self.service.importer()
        self._probes = self.service.importer()
        self._probe_numbers = itertools.count(1)
        self.load = Load(self.service.base_url, self.importer)
        self._further: list[Load] = []
        self.reverts = Reverts(self)

    def _started(self) -> RunningService:
        environment = {"IMPORTLEDGER_LOG_LEVEL": "warning"}
        return self._stack.enter_context(
            start_service(self.folder, environment=environment, port=self.port, workers=WORKERS)
        )

    def close(self) -> None:
        self.reverts.stop()
        for load in (self.load, *self._further):
            load.stop()
        self.importer.client.close()
        self._stack.close()

    def restart(self) -> None:
        """Start the service again after its whole tree was killed."""
        self._stack.close()
        self._stack = contextlib.ExitStack()
        self.service = self._started()

    def further_load(self, base_url: str) -> Load:
        """Start another load, through another api process, with other account numbers."""
        load = Load(base_url, self.importer, connections=1, first=1_000_000 * (len(self._further) + 1))
        self._further.append(load)
        return load

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        assert self.service.process is not None
        return self.service.process.pid

    def processes(self, role: str) -> list[psutil.Process]:
        return self.service.processes(role)

    def running(self, role: str) -> list[psutil.Process]:
        """Return the processes of the role. Waits while there is none, as after another fault."""
        wait_for(lambda: bool(self.processes(role)), f"{role} runs")
        return self.processes(role)

    def kill(self, role: str) -> None:
        """Kill one process of the role with SIGKILL."""
        self.random.choice(self.running(role)).kill()

    def connection(self) -> psycopg.Connection[dict[str, Any]]:
        """Open a connection as administrator."""
        return psycopg.connect(admin_url(self.service), autocommit=True, row_factory=dict_row)

    def environment(self) -> dict[str, str]:
        """Return the environment for a role that is started separately and joins this service."""
        connections = DataConnections(self.service)
        return {"DATABASE_URL": connections.database_url, "REDIS_URL": connections.redis_url} | dict(
            self.service.environment
        )

    def seconds_until_working(self, *, processed_within_s: float = 60.0, timeout_s: float = 120.0) -> float:
        """Return the seconds until a new account is acknowledged and processed.

        Each account gets `processed_within_s` seconds for that. Raises AssertionError after `timeout_s` seconds.
        """
        began = time.monotonic()
        with contextlib.closing(ImportClient(self.service.base_url, self._probes.api_key, tries=1)) as client:
            while time.monotonic() - began < timeout_s:
                account = an_account(self._probes.supplier, next(self._probe_numbers))
                if self._works(client, account, processed_within_s):
                    return time.monotonic() - began
                time.sleep(0.05)
        raise AssertionError(f"the service does not work again within {timeout_s} s")

    def _works(self, client: ImportClient, account: dict[str, Any], within_s: float) -> bool:
        try:
            if client.create(encoded(account)).status != 201:
                return False
            created = time.monotonic()
            while time.monotonic() - created < within_s:
                answer = client.status(self._probes.supplier, account["external_account_number"])
                if answer.status == 200 and answer.body["status"] == "PROCESSED":
                    return True
                time.sleep(0.02)
        except (OSError, http.client.HTTPException, PermissionError):
            return False
        return False

    def acknowledged(self) -> set[str]:
        """Return the external numbers of all accounts that were acknowledged."""
        return self.load.acknowledged.union(*(load.acknowledged for load in self._further))

    def come_to_rest(self) -> None:
        """Stop load and reverts, and wait until no import of the load is pending."""
        self.reverts.stop()
        for load in (self.load, *self._further):
            load.stop()

        def is_at_rest() -> bool:
            try:
                with self.connection() as connection:
                    row = connection.execute(
                        "SELECT count(*) AS n FROM import_status WHERE status IN ('PENDING', 'IN_PROGRESS')"
                    ).fetchone()
            except psycopg.OperationalError:
                return False
            return row is not None and row["n"] == 0

        wait_for(is_at_rest, "all work has ended", timeout_s=REST_TIMEOUT_S)

    def findings(self) -> Findings:
        """Check everything that must hold, at rest."""
        with self.connection() as connection:
            connection.execute("SET statement_timeout = 0")
            findings = findings_of(
                self.service, self.importer, connection, admin_url(self.service), self.acknowledged(), self.random
            )
        if unreadable := sum(load.unreadable for load in (self.load, *self._further)):
            findings.note(f"{unreadable} answers were no JSON")
        return findings


class DataConnections:
    """Addresses of the servers of a running service."""

    def __init__(self, service: RunningService) -> None:
        file = Path(service.environment["IMPORTLEDGER_DATA_DIR"]) / "secrets" / "connections.json"
        connections = json.loads(file.read_text())
        self.database_url: str = connections["database_url"]
        self.redis_url: str = connections.get("redis_url", "")


@contextlib.contextmanager
def suspended(processes: list[psutil.Process]) -> Iterator[None]:
    """Suspend the processes for the block: SIGSTOP at its begin, SIGCONT at its end. At least one must be running."""
    suspended = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
            suspended += 1
    try:
        assert suspended, "no process was suspended"
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def a_heavy_account(supplier: str, number: int) -> dict[str, Any]:
    """Return a very large account, which takes a worker long."""
    account = an_account(supplier, number)
    notes = [{"created_at": "2023-01-01T00:00:00Z", "body": f"note {n}", "is_pinned": False} for n in range(10_000)]
    metadata = [{"key": f"key-{n}", "value": {"n": list(range(20))}} for n in range(10_000)]
    return changed(changed(account, notes, "notes"), metadata, "metadata")
