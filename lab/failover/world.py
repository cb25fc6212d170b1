"""The whole service on thirteen machines: three of the database, and api, relay and worker twice, under load.

One half of the service reaches the primary through HAProxy, the other by a URL with all hosts: both ways that
`docs/how-to/several-machines.md` names.
"""

import contextlib
import json
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import psycopg
from psycopg.rows import dict_row

from embedded.redis import redis_program
from lab.failover.gaps import Measured, longest_gap, number_within
from lab.failover.load import Sender
from lab.failover.network import Machine, Network
from lab.failover.programs import Program
from lab.failover.store import ADMIN, SERVICE, Node, Store, haproxy_configuration
from lab.faults.account import Findings, findings_of
from tests.support.folders import ROOT
from tests.support.importing import ImportClient
from tests.support.running import Importer, RunningService, is_ready, wait_for

SUPPLIER = "NORDWIND"
SITES = ("1", "2")
ROLES = ("api", "relay", "worker")
STEADY_S, STEADY_NUMBER = 2.0, 10
"""An api works again when it has acknowledged STEADY_NUMBER accounts within STEADY_S seconds."""
SETTLE_S = 3.0
OVER_S = 120.0
TURNS = 3


class World:
    """All machines and programs of the run; `measure` injects a fault and measures it."""

    def __init__(self, folder: Path, *, code: Path = ROOT, per_s: float = 40.0) -> None:
        self.folder = folder
        self.random = Random(1)
        self.network = Network()
        self.machines = self.network.machines
        for number, name in enumerate(("db1", "db2", "db3", "proxy", "redis"), 11):
            self.network.machine(name, number)
        for number, name in enumerate((f"{role}{site}" for site in SITES for role in (*ROLES, "client")), 31):
            self.network.machine(name, number)
        self.store = Store([self.machines[name] for name in ("db1", "db2", "db3")], folder)
        self._code = code
        self._per_s = per_s
        self._secrets = {
            "IMPORTLEDGER_TOKEN_KEY": secrets.token_urlsafe(32),
            "IMPORTLEDGER_REQUEST_KEY": secrets.token_urlsafe(32),
            "IMPORTLEDGER_SEALING_KEY": secrets.token_urlsafe(32),
            "IMPORTLEDGER_CHECKPOINTS_URL": (folder / "checkpoints").as_uri(),
            "IMPORTLEDGER_SEAL_EVERY_S": "5",
            "IMPORTLEDGER_LOG_LEVEL": "warning",
            "IMPORTLEDGER_LOG_FORMAT": "json",
        }
        (folder / "checkpoints").mkdir()
        self._haproxy = self._make_proxy()
        self._redis = self._make_redis()
        self.roles = {f"{role}{site}": self._role(role, site) for site in SITES for role in ROLES}
        self.senders: list[Sender] = []
        self.api_key = ""

    # Parts

    def _make_proxy(self) -> Program:
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(haproxy_configuration(self.store.nodes))
        command = ["/usr/sbin/haproxy", "-db", "-f", str(configuration)]
        return Program(self.machines["proxy"], "haproxy", command, folder=self.folder)

    def _make_redis(self) -> Program:
        options = ["--bind", self.machines["redis"].address, "--protected-mode", "no", "--save", "", "--dir"]
        command = [str(redis_program()), *options, str(self.folder), "--loglevel", "warning"]
        return Program(self.machines["redis"], "redis", command, folder=self.folder)

    def _role(self, role: str, site: str) -> Program:
        machine = self.machines[f"{role}{site}"]
        arguments = ["--host", machine.address, "--port", "8000"] if role == "api" else []
        return Program(
            machine,
            role,
            [sys.executable, "-P", "-m", "cli.main", role, *arguments],
            folder=self.folder,
            environment=self._environment(site, machine.name),
        )

    def _environment(self, site: str, name: str) -> dict[str, str]:
        hosts = f"{self.machines['proxy'].address}:5432" if site == "1" else None
        return self._secrets | {
            "DATABASE_URL": self.store.url(SERVICE, hosts=hosts),
            "REDIS_URL": f"redis://{self.machines['redis'].address}:6379/0",
            "IMPORTLEDGER_DATA_DIR": str(self.folder / name),
            "IMPORTLEDGER_DURABILITY": "replicated",
            "PYTHONPATH": str(self._code),
        }

    @property
    def environment(self) -> dict[str, str]:
        """Environment of an operator's command line."""
        return self._environment("2", "operator") | {"DATABASE_ADMIN_URL": self.store.url(ADMIN)}

    @property
    def service(self) -> RunningService:
        return RunningService(self.api_url("2"), self.environment, None)

    def api_url(self, site: str) -> str:
        return f"http://{self.machines[f'api{site}'].address}:8000"

    # Starting, stopping

    def start(self) -> None:
        """Start the cluster and the service, and put the service under load."""
        self.store.start()
        self._haproxy.start()
        self._redis.start()
        self.operator("migrate")
        for role in self.roles.values():
            role.start()
        self.wait_until_ready()
        self.operator("supplier", "create", SUPPLIER)
        output = self.operator("key", "create", "Importers", "--supplier", SUPPLIER, "--json")
        self.api_key = json.loads(output.splitlines()[-1])["api_key"]
        self._start_senders()
        self.wait_until_steady(list(self.api_names))

    def _start_senders(self) -> None:
        """Start importers on two machines."""
        for number, site in enumerate(SITES):
            apis = [self.machines[f"api{number}"] for number in (site, *(other for other in SITES if other != site))]
            self.senders.append(
                Sender(
                    self.machines[f"client{site}"],
                    apis,
                    supplier=SUPPLIER,
                    api_key=self.api_key,
                    per_s=self._per_s / len(SITES),
                    first=1 + 1_000_000 * number,
                )
            )

    def stop_senders(self) -> None:
        for sender in self.senders:
            sender.stop()

    def close(self) -> None:
        """Stop everything that runs, the service first."""
        self.stop_senders()
        for program in (*self.roles.values(), self._haproxy, self._redis):
            if not program.has_ended:
                program.stop()
        for machine in self.machines.values():
            machine.lose_power()

    def operator(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a verb with the code that the roles run, and return its output. Its exit code must be one of `codes`."""
        program = Program(
            self.machines["client2"], words[0], [sys.executable, "-P", "-m", "cli.main", *words],
            folder=self.folder, environment=self.environment,
        )  # fmt: skip
        program.start()
        assert program.process is not None
        assert program.process.wait(120) in codes, program.last_line
        return program.log.read_text()

    def run_code(self, code: Path) -> None:
        """Start the roles with this version of the code from now on."""
        self._code = code
        for role in self.roles.values():
            role.environment["PYTHONPATH"] = str(code)

    def boot_redis(self) -> None:
        self._redis.start()

    # Observations

    @property
    def api_names(self) -> tuple[str, ...]:
        return tuple(f"api{site}" for site in SITES)

    def wait_until_ready(self) -> None:
        wait_for(lambda: all(is_ready(self.api_url(site)) for site in SITES), "the apis are ready", timeout_s=OVER_S)

    def times(self, api: str) -> list[float]:
        return sorted(time_ for sender in self.senders for time_ in list(sender.times[api]))

    def acknowledged(self) -> set[str]:
        return set().union(*(sender.acknowledged for sender in self.senders))

    def wait_until_steady(self, apis: list[str]) -> None:
        """Wait until each of these apis acknowledges accounts steadily."""

        def is_steady() -> bool:
            time.sleep(0.2)
            moment = time.monotonic()
            return all(number_within(self.times(api), moment - STEADY_S, moment) >= STEADY_NUMBER for api in apis)

        wait_for(is_steady, f"{', '.join(apis)} acknowledge again", timeout_s=OVER_S)

    def measure(
        self,
        fault: str,
        inject: Callable[[], Node | None],
        undo: Callable[[], None] = lambda: None,
        *,
        apis: list[str] | None = None,
        together: bool = False,
        alone_s: float | None = None,
    ) -> Measured:
        """Inject a fault, wait until these apis work again, and undo it. Return the longest gaps until SETTLE_S later.

        `inject` returns the primary that loses its place, None if the primary stays.

        `together`: a gap is a time in which no api acknowledged anything, since the apis are restarted by turns.
        """
        apis = apis or list(self.api_names)
        before = len(self.acknowledged())
        begins = time.monotonic()
        old_primary = inject()
        manager_s = None
        if old_primary is not None:
            self.store.wait_for_primary(except_for=old_primary)
            manager_s = time.monotonic() - begins
        self.wait_until_steady(apis)
        undo()
        time.sleep(SETTLE_S)
        self.wait_until_steady(apis)
        ends = time.monotonic()
        if together:
            gaps = {"any": longest_gap(sorted(at for api in apis for at in self.times(api)), begins, ends)}
        else:
            gaps = {api: longest_gap(self.times(api), begins, ends) for api in apis}
        self.recover()
        return Measured(fault, gaps, manager_s, len(self.acknowledged()) - before, alone_s)

    def recover(self) -> None:
        """Wait until everything works as before the fault, so that the next fault meets a whole service."""
        self.store.wait_until_whole()
        self.wait_until_ready()
        self.wait_until_steady(list(self.api_names))

    def ended(self) -> list[str]:
        """Return a sentence for each role that has ended although it was not stopped, with its last line."""
        return [f"{name} has ended: {role.last_line}" for name, role in self.roles.items() if role.has_ended]

    def findings(self) -> Findings:
        """Stop the load, wait until all work has ended, and check everything that was acknowledged."""
        self.stop_senders()
        for round_number in range(1, TURNS + 1):
            try:
                findings = self._account()
                break
            except psycopg.OperationalError:  # the manager may move the primary at any time
                if round_number == TURNS:
                    raise
                self.wait_until_ready()
        for sentence in self.ended():
            findings.note(sentence)
        unexpected = {status for sender in self.senders for status in sender.statuses} - {201, 503, 400}
        if unexpected:
            findings.note(f"importers were answered {sorted(unexpected)}: a store that is away is 503")
        return findings

    def _account(self) -> Findings:
        client = ImportClient(self.api_url("2"), self.api_key)
        with contextlib.closing(client), self.connection() as connection:
            importer = Importer(SUPPLIER, self.api_key, client, self.service)
            self._wait_until_at_rest(connection)
            connection.execute("SET statement_timeout = 0")
            return findings_of(
                self.service, importer, connection, self.store.url(ADMIN), self.acknowledged(), self.random
            )

    def _wait_until_at_rest(self, connection: psycopg.Connection[dict[str, object]]) -> None:
        waiting = "SELECT count(*) AS n FROM import_status WHERE status IN ('PENDING', 'IN_PROGRESS')"

        def is_at_rest() -> bool:
            row = connection.execute(waiting).fetchone()
            return row is not None and row["n"] == 0

        wait_for(is_at_rest, "all work has ended", timeout_s=180)

    def connection(self) -> psycopg.Connection[dict[str, object]]:
        """Open a connection as administrator."""
        return psycopg.connect(self.store.url(ADMIN), autocommit=True, row_factory=dict_row)

    def site(self, number: str) -> list[Machine]:
        return [self.machines[f"{role}{number}"] for role in (*ROLES, "client")]
