"""The service that is measured: one database, and the servers on it that are measured one after the other.

Each process has a session of its own, as below `up` and on separate machines: Linux first divides CPU time among
sessions. In one session, all processes together would get only as much as Postgres alone.
"""

import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import psycopg
from psycopg.sql import SQL, Identifier

from api.access.api_key import new_api_key
from bench.load import SAMPLES, bodies, large
from bench.usage import most_memory_of, per_account, usage_of
from cli.operator import caused_by
from cli.service.roles import processes_for, workers_for
from cli.service.sealing import CHECKPOINTS
from embedded.folder import DataFolder
from embedded.postgres import DATABASE
from embedded.service import Connections, Service
from eventstore.aggregates import organisation, supplier
from eventstore.clock import now
from eventstore.log.columns import log_head
from eventstore.log.intake_stop import note_comparison
from eventstore.log.ledger import Ledger
from eventstore.log.rows import value_of
from projections import FOLLOWING, INLINE
from system.processors import usable_cores
from system.shared_counts import counts_file
from tests.support.importing import TRIES, ImportClient
from tests.support.running import free_port
from tests.support.spans import receiver
from workers.broker import redis_broker

SUPPLIER = "NORDWIND"
OTHER = "SUEDWIND"
SAVED = "kept"
_SELECT_OPEN = "SELECT FROM import_status WHERE status IN ('PENDING', 'IN_PROGRESS') LIMIT 1"
_COUNT_CREATED = "SELECT count(*) FROM events WHERE position > %s AND topic = 'import_processed.v1'"
"""After a position: counting all would take longer each time."""
_SELECT_BEHIND = """
SELECT FROM projection_versions
WHERE state = 'live' AND name = ANY(%s) AND position < (SELECT max(position) FROM events)
"""
CREATE, VALIDATE = "/v2/data-import/accounts/", "/v2/data-import/accounts/validate/"
UNTYPED = "/v2/data-import/accounts/untyped/"
STATUS = f"/v2/data-import/accounts/{SUPPLIER}/"
READ_RATES = (300, 500)
"""Creates a second, and queries of a status a second beside them."""
READS = f"status at {READ_RATES[1]}/s beside {READ_RATES[0]} creates/s"


class Measured(msgspec.Struct, frozen=True):
    """Accounts a second, CPU microseconds of an account by kind of process, and latencies if there was a rate."""

    rate: float
    microseconds: dict[str, float] = {}
    latency_ms: dict[str, float] = {}
    memory_mb: dict[str, float] = {}
    """Megabytes of the largest process of each kind, at the end."""

    @property
    def service_us(self) -> float:
        """CPU microseconds of an account in the whole service."""
        return sum(used for kind, used in self.microseconds.items() if kind != "generator")


class Reads(msgspec.Struct, frozen=True):
    """Accounts to query at random: the number before the first, their count, and the format of numbers."""

    first: int = 0
    count: int = 0
    named: str = ""


class Bench:
    """One database, and the servers on it that are measured one after the other.

    The accounts of the load share the values of SAMPLES accounts, such as supply points, unless `has_own_values`.
    """

    def __init__(self, folder: Path, seconds: float, *, has_own_values: bool = False) -> None:
        self._service = Service(DataFolder(folder), log_folder=folder)
        self.folder = folder
        self._seconds = seconds
        self._first = 0
        self._load_options = ["--own-values"] if has_own_values else []
        self._families: dict[str, list[int]] = {}
        self._token_key = secrets.token_urlsafe(32)
        self.connections: Connections = self._service.start_servers(None, None, None)
        self.key = self._prepare()

    def close(self) -> None:
        self._service.stop()

    @property
    def postmaster(self) -> int:
        """Process id of Postgres."""
        return self._service.supervisor.pids()["postgres"]

    def creates_among_workers(self, rate: int = 0) -> Measured:
        """Measure creates while relay and workers run: `rate` a second [default: as fast as possible]."""
        self.settle()
        with self.apis() as port, self.working():
            self.warm_up(port)
            return self._measured(port, CREATE, rate=rate)

    def creates_with_and_without_traces(self, pairs: int = 4, pieces: int = 5) -> dict[str, Measured]:
        """Measure creates with traces on and off: two servers, loaded in turn for short periods (on, off, off, on).

        Medians count, because noise of the machine changes a single piece by more than traces do. The first pieces of
        each pair of servers warm up. Two equal processes also differ by more than traces cost, for as long as they
        live: hence several pairs. Spans are sent to a receiver here, as many as by default.
        """
        self.settle()
        with receiver() as received:
            on, off = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.url}, {"OTEL_TRACES_EXPORTER": "none"}
            environments = {"create, traces on": on, "create, traces off": off}
            measured: dict[str, list[Measured]] = {name: [] for name in environments}
            for pair in range(pairs):
                with ExitStack() as stack:
                    ports = {
                        name: stack.enter_context(self.server("cli.main", "api", "--port", **environment))
                        for name, environment in sorted(environments.items(), reverse=pair % 2 == 1)
                    }
                    for piece in range(pieces + 1):
                        for name in sorted(environments, reverse=(piece + pair) % 2 == 0):
                            seconds = self._seconds / (pairs * pieces) * 4
                            result = self._measured(ports[name], CREATE, seconds=seconds)
                            measured[name] += [result] if piece else []
        return {name: median(results) for name, results in measured.items()}

    def validations(self) -> Measured:
        """Measure validations by one api process, as the service runs it."""
        with self.server("cli.main", "api", "--port") as port:
            return self._measured(port, VALIDATE)

    def validations_shared(self) -> Measured:
        """Measure validations by several api processes on one port."""
        with self.apis() as port:
            return self._measured(port, VALIDATE)

    def program(self, module: str, path: str) -> Measured:
        """Measure a program of this module under the same load."""
        self.settle()
        with self.server(module) as port:
            return self._measured(port, path)

    def processed(self, count: int) -> Measured:
        """Measure `count` accounts from the first create until the last is PROCESSED, with relay and workers."""
        self.settle()
        with self.apis() as port, self.working():
            self.warm_up(port)
            before = usage_of(self._kinds())
            with self.all_processed(count) as ended_at:
                report = self._report(port, CREATE, count=count)
            used = per_account(before, usage_of(self._kinds()), count)
            used["generator"] = report["processor_s"] * 1e6 / count
            return Measured(count / (ended_at() - report["began_at"]), used, memory_mb=most_memory_of(self._families))

    def client(self, port: int, *, tries: int = TRIES) -> ImportClient:
        return ImportClient(f"http://127.0.0.1:{port}", self.key, tries=tries)

    def stage(self, port: int, count: int) -> None:
        """Send `count` accounts."""
        self._report(port, CREATE, count=count)

    def large_processed(self, count: int = 24, size: int = 8_000_000) -> Measured:
        """Measure `count` accounts of `size` bytes, which all wait when relay and workers start, until PROCESSED."""
        self.settle()
        with self.apis() as port, ExitStack() as stack:
            with self.all_processed(count) as ended_at:
                for number in range(count):
                    self._send_large(port, number, size)
                began = time.monotonic()
                stack.enter_context(self.working())
            self._wait_for_followers()
            return Measured(count / (ended_at() - began), memory_mb=most_memory_of(self._families))

    def status_reads(
        self,
        creates_a_second: int,
        reads_a_second: int,
        accounts: int = 2_000,
        known: Reads | None = None,
        times: int = 1,
    ) -> Measured:
        """Measure status queries at a rate, beside creates, while relay and workers run.

        Query `known` accounts, or accounts that are created before.
        """
        seconds = times * self._seconds
        self.settle()
        with self.apis() as port, self.working():
            self.warm_up(port)
            if known is None:
                known = Reads(self._first, accounts)
                with self.all_processed(accounts):
                    self.stage(port, accounts)
            with self._loading(port, CREATE, rate=creates_a_second, seconds=seconds + self._seconds) as creating:
                read = self._measured(port, STATUS, rate=reads_a_second, reads=known, seconds=seconds)
                creating.terminate()
            return read

    def warm_up(self, port: int) -> None:
        """Wait until relay and workers have processed one account, and until the projections have caught up."""
        with self.all_processed(1):
            self.stage(port, 1)
        self._wait_for_followers()

    def _wait_for_followers(self) -> None:
        """Wait until every projection that follows the log has reached its end."""
        with psycopg.connect(self.connections.admin_url, autocommit=True) as connection:
            names = [projection.name for projection in FOLLOWING]
            while connection.execute(_SELECT_BEHIND, (names,)).fetchone() is not None:
                time.sleep(0.1)

    def seal(self) -> None:
        command = [sys.executable, "-m", "cli.main", "seal"]
        subprocess.run(command, env=self._environment(), stdout=subprocess.DEVNULL, check=True)

    def settle(self) -> None:
        """Cancel the imports that earlier measurements have left, and vacuum the tables.

        So workers process only the load of their measurement, and no vacuum runs during it. Neither relay nor workers
        may be running.
        """
        if self.connections.redis_url:
            redis_broker(self.connections.redis_url).client.flushall()  # a worker leaves messages when it is stopped
        with psycopg.connect(self.connections.admin_url, autocommit=True) as connection:
            connection.execute("UPDATE import_status SET status = 'CANCELLED' WHERE status = 'PENDING'")
            connection.execute(
                "INSERT INTO checkpoints SELECT 'relay', max(position) FROM events "
                "ON CONFLICT (follower) DO UPDATE SET position = excluded.position"
            )
            connection.execute("VACUUM ANALYZE")

    def save(self) -> None:
        """Copy the database and the checkpoints for `restore`. No role may be running."""
        self._copy(DATABASE, SAVED)

    def restore(self) -> None:
        """Restore the database and the checkpoints as they were at `save`. No role may be running."""
        self._copy(SAVED, DATABASE)
        with psycopg.connect(self.connections.admin_url, autocommit=True) as connection:
            note_comparison(connection)  # otherwise a copy accepts nothing until a relay has compared it

    def _copy(self, source: str, target: str) -> None:
        url = self.connections.admin_url.replace(f"/{DATABASE}?", "/postgres?")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(target)))
            copying = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
            connection.execute(copying.format(Identifier(target), Identifier(source)))
        folders = {DATABASE: self.folder / CHECKPOINTS, SAVED: self.folder / f"{CHECKPOINTS}-kept"}
        shutil.rmtree(folders[target], ignore_errors=True)
        if folders[source].exists():
            shutil.copytree(folders[source], folders[target])

    @contextmanager
    def all_processed(self, count: int) -> Iterator[Callable[[], float]]:
        """Wait after the block until the `count` accounts that it has sent are PROCESSED.

        The yielded function then returns when that was [seconds of the monotonic clock]. Raises RuntimeError.

        Open imports are found by their index: counting accounts repeatedly would be a load of its own.
        """
        ended_at: list[float] = []
        with psycopg.connect(self.connections.admin_url, autocommit=True) as connection:
            before, started = log_head(connection), time.monotonic()
            yield lambda: ended_at[0]
            while connection.execute(_SELECT_OPEN).fetchone() is not None:
                if time.monotonic() - started > 60 + count / 20:
                    raise RuntimeError("not everything was processed in time")
                time.sleep(0.02)
            ended_at.append(time.monotonic())
            if (created := value_of(connection, _COUNT_CREATED, before)) != count:
                raise RuntimeError(f"{created} of {count} accounts were created")

    def _measured(self, port: int, path: str, **work: Any) -> Measured:
        """Run a load generator with the options of `_loading`, and return what it has measured."""
        before = usage_of(self._kinds())
        report = self._report(port, path, **work)
        after = usage_of(self._kinds())
        used = per_account(before, after, report["requests"])
        used["generator"] = report["processor_s"] * 1e6 / report["requests"]
        return Measured(report["requests"] / report["seconds"], used, report["latency_ms"])

    def _kinds(self) -> dict[str, list[int]]:
        servers = {name: [pid] for name, pid in self._service.supervisor.pids().items()}
        return servers | self._families

    def _send_large(self, port: int, number: int, size: int) -> None:
        """Send an account of about `size` bytes. Raises RuntimeError if it is refused."""
        sample, external = bodies(SUPPLIER)[number % SAMPLES]
        self._first += 1
        body = large(sample.replace(external, b"LARGE-%09d" % self._first), size)
        if (answer := self.client(port).create(body)).status != 201:
            raise RuntimeError(f"an account of {size} bytes was answered {answer}")

    def _report(self, port: int, path: str, **work: Any) -> dict[str, Any]:
        with self._loading(port, path, **work) as loading:
            output, _ = loading.communicate(timeout=600)
        report: dict[str, Any] = json.loads(output)
        refused = {status: n for status, n in report["statuses"].items() if status not in ("200", "201")}
        if refused:
            raise RuntimeError(f"{path} answered {refused}")
        return report

    @contextmanager
    def _loading(
        self,
        port: int,
        path: str,
        *,
        count: int = 0,
        rate: int = 0,
        seconds: float = 0.0,
        reads: Reads = Reads(),  # noqa: B008 - it is frozen
    ) -> Iterator[subprocess.Popen[str]]:
        """Run a load generator for the block. It creates accounts, or queries those of `reads` if any are given."""
        first = reads.first if reads.count else self._first
        command = [sys.executable, "-m", "bench.load", "--port", str(port), "--path", path, "--token", self.key]
        command += ["--first", str(first), "--count", str(count), "--reads", str(reads.count)]
        command += ["--named", reads.named, *self._load_options]
        command += ["--seconds", str(600 if count else seconds or self._seconds), "--rate", str(rate)]
        self._first += 0 if reads.count else 1_000_000
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as loading:
            try:
                yield loading
            finally:
                loading.kill()

    def _prepare(self) -> str:
        fresh = new_api_key()
        command = organisation.CreateKey(
            key_id=fresh.key_id, secret_sha256=fresh.secret_sha256, role="importer", suppliers=(SUPPLIER, OTHER)
        )
        with closing(Ledger(self.connections.admin_url, views=INLINE)) as ledger:
            for code in (SUPPLIER, OTHER):
                ledger.execute(supplier.stream_of(code), supplier.CreateSupplier(), at=now(), by=caused_by())
            ledger.execute(organisation.stream_of("bench"), command, at=now(), by=caused_by())
        return fresh.api_key

    @contextmanager
    def server(self, module: str, *arguments: str, **environment: str) -> Iterator[int]:
        port = free_port()
        with self._process([sys.executable, "-m", module, *arguments, str(port)], more=environment):
            _wait_for(port)
            yield port

    @contextmanager
    def apis(self) -> Iterator[int]:
        """Run as many api processes as `up` starts, on one socket. Yields its port after each process has answered."""
        processes = processes_for(usable_cores())
        with socket.socket() as shared, counts_file(processes) as counts, ExitStack() as stack:
            shared.bind(("127.0.0.1", 0))
            shared.listen(2048)
            fds = shared.fileno(), counts.fileno()
            port, started = int(shared.getsockname()[1]), list[psutil.Process]()
            for index in range(processes):
                command = [sys.executable, "-m", "cli.main", "api", "--fd", str(fds[0])]
                command += ["--counts-fd", str(fds[1]), "--counts-index", str(index)]
                for process in started:  # so that only the next process can answer
                    process.suspend()
                started.append(stack.enter_context(self._process(command, pass_fds=fds)))
                _wait_for(port)
                for process in started:
                    process.resume()
            yield port

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run the relay, and as many workers as `up` starts."""
        with ExitStack() as stack:
            for role in ("relay", *["worker"] * workers_for(usable_cores())):
                stack.enter_context(self._process([sys.executable, "-m", "cli.main", role], kind=role))
            yield

    @contextmanager
    def _process(
        self,
        command: list[str],
        *,
        kind: str = "api",
        pass_fds: tuple[int, ...] = (),
        more: dict[str, str] | None = None,
    ) -> Iterator[psutil.Process]:
        environment = self._environment() | (more or {})
        with (self.folder / "servers.log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, pass_fds=pass_fds, start_new_session=True
            )
        self._families.setdefault(kind, []).append(process.pid)
        try:
            yield psutil.Process(process.pid)
        finally:
            self._families[kind].remove(process.pid)
            process.terminate()
            process.wait(30)

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "DATABASE_URL": self.connections.database_url,
            "DATABASE_ADMIN_URL": self.connections.admin_url,
            "REDIS_URL": self.connections.redis_url or "",
            "IMPORTLEDGER_TOKEN_KEY": self._token_key,
            "IMPORTLEDGER_REQUEST_KEY": self._token_key,
            "IMPORTLEDGER_DATA_DIR": str(self.folder),
        }


@contextmanager
def new_bench(seconds: float, *, has_own_values: bool = False) -> Iterator[Bench]:
    """Start a service in a temporary folder for the block."""
    with (
        tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder,
        closing(Bench(Path(folder), seconds, has_own_values=has_own_values)) as bench,
    ):
        yield bench


def median(measurements: Sequence[Measured]) -> Measured:
    """Return the medians of repeated measurements."""

    def of(figures: Sequence[dict[str, float]]) -> dict[str, float]:
        return {name: statistics.median(measurement.get(name, 0.0) for measurement in figures) for name in figures[0]}

    rate = statistics.median(measurement.rate for measurement in measurements)
    kinds = ("microseconds", "latency_ms", "memory_mb")
    return Measured(rate, *(of([getattr(measurement, kind) for measurement in measurements]) for kind in kinds))


def _wait_for(port: int) -> None:
    """Wait up to a minute until a server answers on the port, with any status."""
    for _ in range(1_200):  # a minute: importing takes long on a busy machine
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=1)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
