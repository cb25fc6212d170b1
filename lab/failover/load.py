"""Importers on separate machines, which send at a steady rate and record when each api acknowledged an account."""

import contextlib
import http.client
import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence

from lab.failover.network import Machine
from tests.support.importing import ImportClient
from tests.support.make import an_account, encoded

THREADS = 6
TIMEOUT_S = 3.0
PAUSE_S = 0.25
ALREADY = ("account_import_process_already_imported",)


class Sender:
    """One machine of importers. They prefer the first api, and send to the others what it does not acknowledge."""

    def __init__(
        self, machine: Machine, apis: Sequence[Machine], *, supplier: str, api_key: str, per_s: float, first: int
    ) -> None:
        self.acknowledged: set[str] = set()
        self.times: dict[str, list[float]] = {api.name: [] for api in apis}
        """Times at which each api acknowledged an account, ascending [seconds of the monotonic clock]."""
        self.statuses: Counter[int] = Counter()
        self._apis = apis
        self._supplier = supplier
        self._api_key = api_key
        self._every_s = THREADS / per_s
        self._numbers = itertools.count(first)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(machine, n), daemon=True) for n in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, machine: Machine, thread: int) -> None:
        with machine.inside(), contextlib.ExitStack() as stack:
            clients = [(api.name, stack.enter_context(contextlib.closing(self._client(api)))) for api in self._apis]
            due = time.monotonic() + thread * self._every_s / THREADS
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                account = an_account(self._supplier, next(self._numbers))
                self._until_acknowledged(clients, account["external_account_number"], encoded(account))
                due = max(due + self._every_s, time.monotonic())

    def _client(self, api: Machine) -> ImportClient:
        return ImportClient(f"http://{api.address}:8000", self._api_key, tries=1, timeout_s=TIMEOUT_S)

    def _until_acknowledged(self, clients: Sequence[tuple[str, ImportClient]], external: str, body: bytes) -> None:
        for name, client in itertools.cycle(clients):
            if self._is_acknowledged(client, body):
                with self._lock:
                    self.acknowledged.add(external)
                    self.times[name].append(time.monotonic())
                return
            if self._stop.wait(PAUSE_S):
                return

    def _is_acknowledged(self, client: ImportClient, body: bytes) -> bool:
        try:
            answer = client.create(body)
        except (OSError, http.client.HTTPException, PermissionError):
            return False
        except ValueError:  # no JSON
            self.statuses[0] += 1
            return False
        self.statuses[answer.status] += 1
        return answer.status == 201 or answer.codes == ALREADY
