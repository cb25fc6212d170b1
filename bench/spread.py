"""Long jobs on one machine and on two: network namespaces with a worker each, which is pinned to a core of its own.

    python -m bench.spread --accounts 100000

Needs root on Linux with two cores; elsewhere it says so, and ends with 0. Postgres, Redis, relay and the command are on
a machine of their own, and have the cores that the workers leave to them: from four cores on, two machines have to take
0.6 of the time of one at most; with fewer the figure is told.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.history import append_all
from bench.usage import processor_model
from embedded.folder import DataFolder
from embedded.postgres import DATABASE, EmbeddedPostgres
from embedded.redis import redis_program
from embedded.user import server_user
from eventstore.log.long_jobs import workers_and_relays
from importledger_client import Client
from projections import FOLLOWING
from projections.versioning.install import migrate_all
from tests.failover.apart import IS_APART, NotHere, go_apart
from tests.failover.network import Machine, Network
from tests.failover.programs import Program
from tests.support.folders import temporary_folder
from tests.support.running import wait_for

SUPPLIER, RUN, MANIFEST = "NORDWIND", "bench", "manifest.json"
API = "http://127.0.0.1:8000"
"""As seen from the machine of the store."""
BAR, CORES_OF_BAR, MACHINES = 0.6, 4, 2
LEDGER, BOOK = "cli.main", "importledger_client"
JOBS: dict[str, Sequence[str]] = {
    "verify --all": (LEDGER, "verify", "--all", "--spread", "--json"),
    "replay": (LEDGER, "replay", "--spread", "--json"),
    "projections rebuild import_status": (LEDGER, "projections", "rebuild", "import_status", "--spread", "--json"),
    "projections rebuild platform": (LEDGER, "projections", "rebuild", "platform", "--spread", "--json"),
    "importbook reconcile": (BOOK, "reconcile", RUN, "--supplier", SUPPLIER, "--manifest", MANIFEST, "--spread"),
}
Taken = Mapping[tuple[str, int], Sequence[float]]
"""Seconds of each round, by job and number of machines."""
_ALL_FOLLOW = """
SELECT bool_and(position >= (SELECT max(position) FROM events))
FROM projection_versions
WHERE state = 'live' AND name = ANY(%s)
"""


class Site:
    """The machines, and the programs on them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        network = Network()
        self._store = network.machine("store", 11)
        self.machines = [network.machine(f"worker{number}", 20 + number) for number in (1, 2)]
        self._programs: list[Program] = []
        url, admin_url = self._start_postgres()
        self.environment = {
            "DATABASE_URL": url,
            "DATABASE_ADMIN_URL": admin_url,
            "REDIS_URL": self._start_redis(),
            "IMPORTLEDGER_DATA_DIR": str(folder / "keys"),
            "IMPORTLEDGER_SEALING_KEY": "A" * 43,
            "IMPORTLEDGER_LOG_LEVEL": "warning",
        }
        migrate_all(admin_url, service_role=DATABASE)

    def _start_postgres(self) -> tuple[str, str]:
        data, user = DataFolder(self._folder / "data"), server_user()
        data.create(user)
        postgres = EmbeddedPostgres(data, user)
        postgres.prepare()
        with (postgres.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")
        command = [*postgres.command(), f"--listen-addresses={self._store.address}"]
        with self._store.inside(), (self._folder / "postgres.log").open("ab") as log:
            self._postgres = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **user.popen_arguments())
        postgres.wait_until_ready()
        urls = postgres.create_database()
        service, admin = (url.split("@/")[0] for url in (urls.service, urls.admin))
        return tuple(f"{url}@{self._store.address}:5432/{DATABASE}" for url in (service, admin))  # type: ignore[return-value]

    def _start_redis(self) -> str:
        options = ["--bind", self._store.address, "--protected-mode", "no", "--save", "", "--dir", str(self._folder)]
        self._start(self._store, "redis", [str(redis_program()), *options])
        return f"redis://{self._store.address}:6379/0"

    def _start(self, machine: Machine, name: str, command: Sequence[str]) -> Program:
        environment = getattr(self, "environment", {})
        program = Program(machine, name, command, folder=self._folder, environment=environment)
        program.start()
        self._programs.append(program)
        return program

    def run(self, module: str, *words: str) -> str:
        """Run a command on the machine of the store; what it prints. Raises RuntimeError."""
        command = [sys.executable, "-P", "-m", module, *words]
        environment = os.environ | self.environment
        with self._store.inside():
            done = subprocess.run(
                command, env=environment, cwd=self._folder, capture_output=True, text=True, timeout=1200, check=False
            )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def fill(self, accounts: int) -> int:
        """A log of so many accounts that have come in one run, and all that follows from it; the log's events."""
        self.run(LEDGER, "supplier", "create", SUPPLIER)
        key = self.run(LEDGER, "key", "create", "Bench", "--supplier", SUPPLIER, "--json")
        self.environment |= {"IMPORTLEDGER_URL": API, "IMPORTLEDGER_KEY": json.loads(key)["api_key"]}
        events = append_all(self.environment["DATABASE_URL"], SUPPLIER, range(1, accounts + 1), run=RUN)
        for name in ("import_status", "platform"):
            self.run(LEDGER, "projections", "rebuild", name)
        with psycopg.connect(self.environment["DATABASE_ADMIN_URL"], autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        self.run(LEDGER, "seal")
        return events

    def start_roles(self) -> None:
        """Relay and api, beside which nothing is left to do; and a source that balances with the platform."""
        for role in ("relay", "api"):
            self._start(self._store, role, [sys.executable, "-P", "-m", LEDGER, role])
        names = [projection.name for projection in FOLLOWING]
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            wait_for(lambda: _all_follow(connection, names), "all projections have followed", timeout_s=1200)
        with self._store.inside(), Client(API, self.environment["IMPORTLEDGER_KEY"]) as client:
            (self._folder / MANIFEST).write_text(json.dumps(client.totals(SUPPLIER, RUN)))

    @contextmanager
    def workers(self, count: int, cores: Sequence[int]) -> Iterator[None]:
        """A worker on each of so many machines, each on a core of its own."""
        worker = [sys.executable, "-P", "-m", LEDGER, "worker"]
        started = [
            self._start(machine, "worker", ["taskset", "-c", str(core), *worker])
            for machine, core in zip(self.machines[:count], cores, strict=False)
        ]
        try:
            self._wait_for(count, 1)
            yield
        finally:
            for program in started:
                program.stop()
            self._wait_for(0, 1)

    def _wait_for(self, workers: int, relays: int) -> None:
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            wait_for(lambda: workers_and_relays(connection) == (workers, relays), f"{workers} workers, {relays} relays")

    def close(self) -> None:
        for program in reversed(self._programs):
            if not program.has_ended:
                program.stop()
        self._postgres.terminate()
        self._postgres.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench SPREAD=1 ARGS=")
    parser.add_argument("--accounts", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of 20,000 accounts")
    arguments = parser.parse_args()
    try:
        if not os.environ.get(IS_APART) and (redis_program() is None or (os.cpu_count() or 1) < MACHINES):
            raise NotHere("it takes a redis-server and two cores")
        go_apart("bench.spread")
    except NotHere as reason:
        print(f"make bench SPREAD=1: SKIPPED, {reason}")
        return
    accounts, rounds = (20_000, 1) if arguments.quick else (arguments.accounts, arguments.rounds)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[MACHINES:] or cores)  # also of all that is started, but for workers, which are pinned
    with temporary_folder() as folder:
        folder.chmod(0o755)
        site = Site(folder)
        try:
            holds = measure(site, accounts, rounds, cores)
        finally:
            site.close()
    sys.exit(0 if holds else 1)


def _all_follow(connection: psycopg.Connection[Any], names: Sequence[str]) -> bool:
    row = connection.execute(_ALL_FOLLOW, (names,)).fetchone()
    return row is not None and bool(row[0])


def measure(site: Site, accounts: int, rounds: int, cores: Sequence[int]) -> bool:
    """In turns, so that a noisy neighbour meets both; medians. Whether the bar holds, where it is judged."""
    events = site.fill(accounts)
    site.start_roles()
    taken: dict[tuple[str, int], list[float]] = {}
    for number in range(1, rounds + 1):
        for count in range(1, MACHINES + 1):
            with site.workers(count, cores):
                for name, command in JOBS.items():
                    began = time.monotonic()
                    site.run(*command)
                    seconds = time.monotonic() - began
                    taken.setdefault((name, count), []).append(seconds)
                    print(f"round {number}, {count} workers: {name} took {seconds:.1f} s", file=sys.stderr, flush=True)
    print(f"{events:,} events of {accounts:,} accounts, {len(cores)} cores, {processor_model()}, medians of {rounds}")
    print("\n".join(table(taken)))
    if len(cores) < CORES_OF_BAR:
        print(f"Not judged: the workers of two machines and the database share {len(cores)} cores.")
    return is_met(taken, len(cores))


def table(taken: Taken) -> Iterator[str]:
    """A row for each job. Pure."""
    yield "| job | one machine | two machines | ratio |\n|---|---|---|---|"
    for name in JOBS:
        one, two = (statistics.median(taken[name, count]) for count in (1, MACHINES))
        yield f"| `{name}` | {one:.1f} s | {two:.1f} s | {two / one:.2f} |"


def is_met(taken: Taken, cores: int) -> bool:
    """Whether every job keeps the bar; with fewer cores than it is judged from, it is not missed. Pure."""
    medians = {place: statistics.median(seconds) for place, seconds in taken.items()}
    return cores < CORES_OF_BAR or all(medians[name, MACHINES] <= BAR * medians[name, 1] for name in JOBS)


if __name__ == "__main__":
    main()
