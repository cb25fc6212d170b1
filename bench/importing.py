"""A book that importbook sends into api, relay and worker: how fast, how cheap to repeat, in how much memory.

And what `reconcile` finds of three faults that are made on purpose.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import psycopg

from bench.service import SUPPLIER, Bench
from importledger_client.book import one_account

IMPORTBOOK = Path(sys.executable).parent / "importbook"
LOOK_EVERY_S = 0.25
FLAT_MB = 64
"""What a process may grow by in the second half of a push and still be called flat."""
FAULTY = 40
_READINGS = "supply_addresses.supply_points.melos.meters.registers.readings"
_Spoil = Callable[[list[dict[str, Any]]], None]


class Pushed(msgspec.Struct, frozen=True):
    """Accounts a second: of the push alone, until the last account is PROCESSED, and of the same push again."""

    first: float
    processed: float
    again: float


class Importing:
    """The measurements, on a bench's service. `memory` has the last push's looks at each kind of process."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._folder = folder
        self.memory: dict[str, list[tuple[float, float]]] = {}
        """When, and how many MB one of them had."""

    def pushed(self, book: Path, accounts: int) -> Pushed:
        """The book sent by importbook, all accounts processed, and the book sent again."""
        bench = self._bench
        bench.settle()
        with self._service() as access, self._watched():
            with bench.all_processed(accounts) as ended_at:
                started = time.monotonic()
                self._importbook(access, "push", str(book), "--run", "bench")
                first_s = time.monotonic() - started
            processed_s = ended_at() - started
            started = time.monotonic()
            self._importbook(access, "push", str(book), "--run", "bench")
            return Pushed(accounts / first_s, accounts / processed_s, accounts / (time.monotonic() - started))

    def most_memory(self, *names: str) -> float:
        """Of the processes of these kinds, the most that one had at a time."""
        return max(mb for name in names for _, mb in self.memory.get(name, [(0.0, 0.0)]))

    def growth(self, name: str) -> float:
        """By how many MB the most that such a process had was more in the second half than in the first."""
        looks = self.memory.get(name) or [(0.0, 0.0)]
        middle = (looks[0][0] + looks[-1][0]) / 2
        early = max((mb for at, mb in looks if at <= middle), default=0.0)
        return max(0.0, max((mb for at, mb in looks if at > middle), default=0.0) - early)

    def faults_found(self) -> dict[str, bool]:
        """Which of the faults `reconcile` names, in an exit code other than 0 and by the word that is wrong."""

        def dropped(sent: list[dict[str, Any]]) -> None:
            for account in sent:
                for point in account["supply_addresses"][0]["supply_points"]:
                    for reading in point["melos"][0]["meters"][0]["registers"][0]["readings"]:
                        del reading["qualifier"]

        def altered(sent: list[dict[str, Any]]) -> None:
            sent[FAULTY // 2]["customers"][0]["family_name"] += "x"

        faults: dict[str, tuple[_Spoil | None, str]] = {
            "a nested path that a mapping drops": (dropped, f"{_READINGS}.qualifier"),
            "a payload that is altered on the way": (altered, "customers.family_name"),
            "an account that is deleted by hand": (None, "accounts"),
        }
        with self._service() as access:
            return {
                name: self._is_found(access, f"fault-{number}", number, spoil, word)
                for number, (name, (spoil, word)) in enumerate(faults.items(), 1)
            }

    def _is_found(
        self,
        access: Mapping[str, str],
        run: str,
        number: int,
        spoil: _Spoil | None,
        word: str,
    ) -> bool:
        first = 9_000_000 + 1_000 * number
        numbers = range(first, first + FAULTY)
        self._write(f"{run}.ndjson", [one_account(SUPPLIER, one) for one in numbers])
        sent = [one_account(SUPPLIER, one) for one in numbers]
        if spoil is not None:
            spoil(sent)
        self._write(f"{run}.sent.ndjson", sent)
        self._importbook(access, "push", f"{run}.sent.ndjson", "--run", run, "--wait")
        if spoil is None:
            with psycopg.connect(self._bench.connections.admin_url) as connection:
                connection.execute(
                    "DELETE FROM platform.service_account WHERE external_account_number = %s",
                    (sent[0]["external_account_number"],),
                )
        self._importbook(access, "manifest", f"{run}.ndjson", "-o", f"{run}.json")
        said = self._importbook(access, "reconcile", run, "--manifest", f"{run}.json", code=1)
        return re.search(rf"^  {re.escape(word)}: source", said, re.MULTILINE) is not None

    def _write(self, name: str, accounts: list[dict[str, Any]]) -> None:
        (self._folder / name).write_bytes(b"".join(msgspec.json.encode(account) + b"\n" for account in accounts))

    def _importbook(self, access: Mapping[str, str], *words: str, code: int = 0) -> str:
        """What the verb prints. Raises RuntimeError where it ends otherwise."""
        command = [str(IMPORTBOOK), *words]
        done = subprocess.run(command, cwd=self._folder, env=os.environ | dict(access), capture_output=True, text=True)
        if done.returncode != code:
            raise RuntimeError(f"importbook {words[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    @contextmanager
    def _service(self) -> Iterator[dict[str, str]]:
        """Api, relay and worker, and the environment in which importbook finds them."""
        bench = self._bench
        with bench.apis() as port, bench.working():
            bench.warm_up(port)
            yield {"IMPORTLEDGER_URL": f"http://127.0.0.1:{port}", "IMPORTLEDGER_KEY": bench.key}

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Look at the memory of our child processes meanwhile, each by itself; Postgres shares its own."""
        stop = threading.Event()
        self.memory = {}

        def watch() -> None:
            while not stop.wait(LOOK_EVERY_S):
                for process in psutil.Process().children(recursive=True):
                    try:
                        name, mb = _kind_of(process), process.memory_info().rss / 2**20
                    except psutil.NoSuchProcess:
                        continue
                    if name:
                        self.memory.setdefault(name, []).append((time.monotonic(), mb))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _kind_of(process: psutil.Process) -> str:
    words = process.cmdline()
    if any(word.endswith("importbook") for word in words):
        return "client"
    if "api.bulk.helper" in words:
        return "helper"
    return next((word for word in words if word in ("api", "relay", "worker")), "")


def kills_are_survived(accounts: int, kills: int, seed: int) -> bool:
    """Whether a book is BALANCED after so many processes were killed while it was pushed, and pushed again."""
    sizes = {"accounts": accounts, "kills": kills, "seed": seed}
    words = [word for name, value in sizes.items() for word in (f"--{name}", json.dumps(value))]
    done = subprocess.run([sys.executable, "-m", "tests.faults.book", *words], stdout=sys.stderr)
    return done.returncode == 0
