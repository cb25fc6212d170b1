"""The faults, a function each, listed in `FAULTS`. Each injects its fault into the world, undoes it, and returns."""

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import psutil
import psycopg

from eventstore.errors import LedgerError
from eventstore.log.ledger import Ledger
from lab.faults.proxy import CuttingProxy
from lab.faults.world import DataConnections, World, a_heavy_account, suspended
from projections import INLINE
from tests.support.make import encoded
from tests.support.running import free_port, is_ready, start_role, wait_for
from workers.actors.starting import MAX_ATTEMPTS
from workers.broker import IMPORTS, BrokerDispatcher, QueueUnavailable, redis_broker
from workers.followers.relay import Relay

STOP_S = 60.0
SPAN_S = 8.0
"""Duration of a fault that lasts for a time [seconds]."""
CLOCK_OFFSETS_S = (-50, 50)


class Fault(msgspec.Struct, frozen=True):
    """A fault, and two limits in seconds: until the service works again, and until a new account is then processed."""

    name: str
    inject: Callable[[World], None]
    recovery_s: float
    processed_within_s: float = 60.0


def kill_api(world: World) -> None:
    world.kill("api")


def kill_worker(world: World) -> None:
    world.kill("worker")


def kill_relay(world: World) -> None:
    world.kill("relay")


def kill_postmaster(world: World) -> None:
    world.kill("postgres")


def kill_redis(world: World) -> None:
    world.kill("redis")


def kill_one_backend(world: World) -> None:
    """Kill the server process of one connection: Postgres then ends all connections and recovers."""
    with world.connection() as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = 'importledger' AND backend_type = 'client backend'"
        ).fetchall()
    if rows:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(world.random.choice(rows)["pid"]).kill()


def kill_the_whole_tree(world: World) -> None:
    assert world.service.process is not None
    tree = psutil.Process(world.service.process.pid)
    family = [*tree.children(recursive=True), tree]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family, timeout=20)
    world.restart()


def flush_redis(world: World) -> None:
    broker = redis_broker(DataConnections(world.service).redis_url)
    for _ in range(5):
        broker.client.flushall()
        time.sleep(0.3)


def fill_redis(world: World) -> None:
    """Keep Redis at its memory limit for a time, so that it refuses every message."""
    client = redis_broker(DataConnections(world.service).redis_url).client
    client.config_set("maxmemory", "1")
    time.sleep(SPAN_S)
    client.config_set("maxmemory", "0")


def stop_worker(world: World) -> None:
    with suspended(world.random.sample(world.processes("worker"), 1)):
        time.sleep(STOP_S)


def stop_relay(world: World) -> None:
    with suspended(world.processes("relay")):
        time.sleep(STOP_S)


def stop_redis(world: World) -> None:
    with suspended(world.processes("redis")):
        time.sleep(STOP_S)


def stop_postgres(world: World) -> None:
    [postmaster] = world.processes("postgres")
    with suspended([postmaster, *postmaster.children()]):
        time.sleep(STOP_S)


def stop_api(world: World) -> None:
    with suspended(world.processes("api")):
        time.sleep(STOP_S)


def deliver_twice_late_and_disordered(world: World) -> None:
    """Take every message out of the queue, and put it back twice, later, in another order."""
    broker = redis_broker(DataConnections(world.service).redis_url)
    dispatcher, queue = BrokerDispatcher(broker), f"{broker.namespace}:imports"
    client: Any = broker.client
    held: list[tuple[float, list[str]]] = []
    ends = time.monotonic() + SPAN_S
    while time.monotonic() < ends or held:
        while (identifier := client.lpop(queue)) is not None:
            message = client.hget(f"{queue}.msgs", identifier)
            client.hdel(f"{queue}.msgs", identifier)
            if message is not None:
                streams = json.loads(message)["args"][0]
                held += [(time.monotonic() + world.random.uniform(0, 3), streams) for _ in range(2)]
        world.random.shuffle(held)
        due = [streams for at, streams in held if at <= time.monotonic()]
        held = [(at, streams) for at, streams in held if at > time.monotonic()]
        for streams in due:
            with contextlib.suppress(QueueUnavailable):
                dispatcher.enqueue(world.random.sample(streams, len(streams)))
        time.sleep(0.02)
        if time.monotonic() > ends + 4:
            return


def cut_during_commit(world: World) -> None:
    """Run an api process behind a proxy that cuts connections between the server's commit and its answer."""
    url = DataConnections(world.service).database_url
    folder = parse_qs(urlsplit(url).query)["host"][0]
    with tempfile.TemporaryDirectory() as place:
        proxy = CuttingProxy(Path(place), f"{folder}/.s.PGSQL.5432", world.random)
        port = free_port()
        environment = world.environment() | {"DATABASE_URL": url.replace(folder, place)}
        with start_role("api", "--port", str(port), environment=environment, log=world.folder / "cut-api.log"):
            base_url = f"http://127.0.0.1:{port}"
            wait_for(lambda: is_ready(base_url), "the api behind the proxy is ready")
            load = world.further_load(base_url)
            time.sleep(SPAN_S)
            load.stop()
        proxy.close()
    assert proxy.cuts, "no connection was cut"


def two_sweepers(world: World) -> None:
    """Run a second sweeper beside the relay's own, although only one should run."""
    connections = DataConnections(world.service)
    ledger = Ledger(connections.database_url, views=INLINE)
    relay = Relay(ledger, BrokerDispatcher(redis_broker(connections.redis_url)))
    ends = time.monotonic() + SPAN_S
    while time.monotonic() < ends:
        with contextlib.suppress(LedgerError, QueueUnavailable, psycopg.Error), ledger.connection() as connection:
            row = connection.execute("SELECT coalesce(max(position), 0) AS head FROM events").fetchone()
            relay._sweeper.sweep(connection, row["head"] if row else 0)
            relay._enqueue(IMPORTS, 0)
        time.sleep(0.2)
    ledger.close()


def clocks_that_differ(world: World) -> None:
    """Run further workers, one after the other, whose clocks are ahead or behind, and kill each."""
    for offset_s in (*CLOCK_OFFSETS_S, *reversed(CLOCK_OFFSETS_S)):
        started = start_role(
            str(offset_s), "worker", module="tests.support.clocks", environment=world.environment(),
            log=world.folder / "clock-worker.log",
        )  # fmt: skip
        with started as worker:
            time.sleep(SPAN_S / 3)
            worker.kill()


def poison(world: World) -> None:
    """Send an import, and kill the workers at each of its attempts. It must end, and other imports must not fail."""
    account = a_heavy_account(world.importer.supplier, world.random.randrange(10**7, 10**8))
    external = account["external_account_number"]
    status = (
        "SELECT status, version, extract(epoch FROM due_at - now())::float8 AS due_in FROM import_status"
        " WHERE external_account_number = %s"
    )
    is_over = threading.Event()

    def kill_its_workers() -> None:
        """Kill all workers once for each attempt. Workers that start later have not begun the import."""
        killed = 0
        with world.connection() as connection:
            while not is_over.is_set():
                row = connection.execute(status, (external,)).fetchone()
                if row and row["status"] == "IN_PROGRESS" and row["version"] > killed:
                    killed = row["version"]
                    for process in world.processes("worker"):
                        with contextlib.suppress(psutil.NoSuchProcess):
                            process.kill()
                due_in = row["due_in"] if row and row["status"] == "PENDING" and row["due_in"] else 0.0
                is_over.wait(
                    max(0.02, min(1.0, due_in - 0.5))
                )  # often around the due time: a worker has it only briefly

    killing = threading.Thread(target=kill_its_workers)
    killing.start()
    try:
        wait_for(lambda: world.importer.client.create(encoded(account)).status == 201, "the poison is taken")

        def has_ended() -> bool:
            answer = world.importer.client.status(world.importer.supplier, external)
            return answer.status == 200 and answer.body["status"] in ("ERRORED", "PROCESSED")

        wait_for(has_ended, f"the poison ends after {MAX_ATTEMPTS} attempts", timeout_s=120)
    finally:
        is_over.set()
        killing.join()
    found: Any = world.importer.client.status(world.importer.supplier, external).body
    assert found["status"] == "PROCESSED" or found["latest_error"]["code"] == "attempts_exhausted"


KILL_S, REDIS_S = 5.0, 30.0
"""Seconds until the service works again: after a kill, and after the loss of Redis at full speed."""

FAULTS: tuple[Fault, ...] = (
    Fault("kill -9 api", kill_api, KILL_S),
    Fault("kill -9 worker", kill_worker, KILL_S),
    Fault("kill -9 relay", kill_relay, KILL_S),
    Fault("kill -9 postmaster", kill_postmaster, KILL_S),
    Fault("kill -9 one backend", kill_one_backend, KILL_S),
    Fault("kill -9 redis", kill_redis, REDIS_S, processed_within_s=1.0),
    Fault("kill -9 whole tree", kill_the_whole_tree, 30.0),
    Fault("FLUSHALL", flush_redis, REDIS_S, processed_within_s=1.0),
    Fault("redis full", fill_redis, REDIS_S, processed_within_s=1.0),
    Fault("messages twice, late, disordered", deliver_twice_late_and_disordered, REDIS_S),
    Fault("connections cut in COMMIT", cut_during_commit, KILL_S),
    Fault("two sweepers", two_sweepers, KILL_S),
    Fault("clocks that differ", clocks_that_differ, REDIS_S),
    Fault("poison", poison, REDIS_S),
    Fault("SIGSTOP worker", stop_worker, REDIS_S),
    Fault("SIGSTOP relay", stop_relay, REDIS_S),
    Fault("SIGSTOP redis", stop_redis, REDIS_S, processed_within_s=1.0),
    Fault("SIGSTOP postgres", stop_postgres, REDIS_S),
    Fault("SIGSTOP api", stop_api, REDIS_S),
)
