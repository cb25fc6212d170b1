"""The faults, listed in `FAULTS`. Each injects its fault into the world, undoes it, and returns.

A fault that has not happened raises AssertionError: nothing here depends on chance or on the machine's speed.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import psutil
import psycopg
import redis

from eventstore.errors import LedgerError
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from lab.faults.proxy import CuttingProxy
from lab.faults.world import WORKERS, DataConnections, World, a_heavy_account, suspended
from projections import INLINE
from tests.support.make import encoded
from tests.support.running import free_port, is_ready, start_role, wait_for
from workers.actors.starting import MAX_ATTEMPTS
from workers.broker import IMPORTS, BrokerDispatcher, QueueUnavailable, redis_broker
from workers.followers.relay import Relay

STOP_S = 60.0
SPAN_S = 8.0
"""Duration of a fault that lasts for a time [seconds]."""
LONGEST_S = 120.0
"""Time in which a fault must have happened. Then it fails [seconds]."""
FLUSHES = 5
CLOCK_OFFSETS_S = (-50, 50)


class Fault(msgspec.Struct, frozen=True):
    """A fault, and two limits in seconds: until the service works again, and until a new account is then processed."""

    name: str
    inject: Callable[[World], None]
    recovery_s: float
    processed_within_s: float = 60.0


def kill_one_backend(world: World) -> None:
    """Kill the server process of one connection: Postgres then ends all connections and recovers."""
    backends = "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, 'importledger')"

    def is_killed() -> bool:
        with world.connection() as connection, contextlib.suppress(psutil.NoSuchProcess):
            if rows := connection.execute(backends).fetchall():
                psutil.Process(world.random.choice(rows)["pid"]).kill()
                return True
        return False

    wait_for(is_killed, "a backend is killed")


def kill_the_whole_tree(world: World) -> None:
    assert world.service.process is not None
    tree = psutil.Process(world.service.process.pid)
    family = [*tree.children(recursive=True), tree]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    assert not psutil.wait_procs(family, timeout=60)[1]
    world.restart()


def flush_redis(world: World) -> None:
    """Lose all messages, several times. No worker fetches them meanwhile, so that each time some are lost."""
    broker = redis_broker(DataConnections(world.service).redis_url)
    dispatcher = BrokerDispatcher(broker)
    for _ in range(FLUSHES):
        with suspended(world.running("worker")):
            wait_for(lambda: dispatcher.waiting() > 0, "messages wait")
            broker.client.flushall()
        time.sleep(0.3)


def fill_redis(world: World) -> None:
    """Keep Redis at its memory limit for a time, so that it refuses every message."""
    client: Any = redis_broker(DataConnections(world.service).redis_url).client
    client.config_set("maxmemory", "1")
    before = len(world.acknowledged())
    try:
        time.sleep(SPAN_S)
        wait_for(lambda: len(world.acknowledged()) > before, "an account waits for its message")
        with contextlib.suppress(redis.OutOfMemoryError):
            client.set("probe", "")
            raise AssertionError("Redis takes messages")
    finally:
        client.config_set("maxmemory", "0")


def stop(world: World, role: str) -> None:
    """Suspend one process of the role for STOP_S."""
    with suspended([world.random.choice(world.running(role))]):
        time.sleep(STOP_S)


def stop_postgres(world: World) -> None:
    [postmaster] = world.running("postgres")
    with suspended([postmaster, *postmaster.children()]):
        time.sleep(STOP_S)


def deliver_twice_late_and_disordered(world: World) -> None:
    """Take every message out of the queue, and put it back twice, later, in another order."""
    broker = redis_broker(DataConnections(world.service).redis_url)
    dispatcher, queue = BrokerDispatcher(broker), f"{broker.namespace}:imports"
    client: Any = broker.client
    held: list[tuple[float, bytes, list[str]]] = []
    delivered: Counter[bytes] = Counter()
    ends = time.monotonic() + SPAN_S
    while held or time.monotonic() < ends or 2 not in delivered.values():
        assert time.monotonic() < ends + LONGEST_S, "no message was delivered twice"
        takes = time.monotonic() < ends or 2 not in delivered.values()
        while takes and (identifier := client.lpop(queue)) is not None:
            message = client.hget(f"{queue}.msgs", identifier)
            client.hdel(f"{queue}.msgs", identifier)
            if message is not None:
                streams = json.loads(message)["args"][0]
                held += [(time.monotonic() + world.random.uniform(0, 3), identifier, streams) for _ in range(2)]
        world.random.shuffle(held)
        at = time.monotonic()
        for _, identifier, streams in [message for message in held if message[0] <= at]:
            with contextlib.suppress(QueueUnavailable):
                dispatcher.enqueue(world.random.sample(streams, len(streams)))
                delivered[identifier] += 1
        held = [message for message in held if message[0] > at]
        time.sleep(0.02)


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
            wait_for(lambda: bool(load.acknowledged), "an account whose connection was cut is acknowledged")
            load.stop()
        proxy.close()
    assert proxy.cuts, "no connection was cut"


def two_sweepers(world: World) -> None:
    """Run a second sweeper beside the relay's own, although only one should run."""
    connections = DataConnections(world.service)
    ledger = Ledger(connections.database_url, views=INLINE)
    relay = Relay(ledger, BrokerDispatcher(redis_broker(connections.redis_url)))
    enqueued, ends = 0, time.monotonic() + SPAN_S
    while time.monotonic() < ends or not enqueued:
        assert time.monotonic() < ends + LONGEST_S, "the second sweeper has sent nothing"
        with contextlib.suppress(LedgerError, QueueUnavailable, psycopg.Error), ledger.connection() as connection:
            row = connection.execute("SELECT coalesce(max(position), 0) AS head FROM events").fetchone()
            relay._sweeper.sweep(connection, row["head"] if row else 0)
            enqueued += relay._enqueue(IMPORTS, 0)
        time.sleep(0.2)
    ledger.close()


def clocks_that_differ(world: World) -> None:
    """Run further workers, one after the other, whose clocks are ahead or behind, and kill each during its work."""
    for offset_s in (*CLOCK_OFFSETS_S, *reversed(CLOCK_OFFSETS_S)):
        wait_for(lambda: len(_workers(world)) == WORKERS, "all other workers run")
        others = _workers(world)
        started = start_role(
            str(offset_s), "worker", module="tests.support.clocks", environment=world.environment(),
            log=world.folder / "clock-worker.log",
        )  # fmt: skip
        with started as worker:
            wait_for(lambda known=others: _has_processed(world, _workers(world) - known), "it processes an import")  # type: ignore[misc]
            time.sleep(SPAN_S / 3)
            worker.kill()


def _workers(world: World) -> set[int]:
    """Return the numbers of all workers that live."""
    query = "SELECT objid::bigint AS worker FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND granted"
    with world.connection() as connection:
        return {row["worker"] for row in connection.execute(query, (locks.WORKERS,))}


def _has_processed(world: World, workers: set[int]) -> bool:
    """Return True if one of these workers has processed an import."""
    query = "SELECT FROM events WHERE topic = 'import_processed.v1' AND caused_by = ANY(%s) LIMIT 1"
    with world.connection() as connection:
        return connection.execute(query, ([f"worker:{worker}" for worker in workers],)).rowcount > 0


def poison(world: World) -> None:
    """Send an import, and kill the workers at each of its attempts. It must end, and other imports must not fail."""
    wait_for(lambda: _kills_of_poison(world) > 0, "an import kills its worker", LONGEST_S)


def _kills_of_poison(world: World) -> int:
    """Send an import, and kill the workers at its attempts. Return their number, 0 if it ended before."""
    account = a_heavy_account(world.importer.supplier, world.random.randrange(10**7, 10**8))
    external = account["external_account_number"]
    status = (
        "SELECT status, version, extract(epoch FROM due_at - now())::float8 AS due_in FROM import_status"
        " WHERE external_account_number = %s"
    )
    is_over = threading.Event()
    kills: list[int] = []

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
                            kills.append(process.pid)
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
    return len(kills)


def kill_a_revert(world: World) -> None:
    """Kill the verb several times while it reverts accounts, then run it to its end: nothing is left to revert."""
    supplier = world.importer.supplier
    chosen = world.random.sample(sorted(known := world.acknowledged()), min(500, len(known)))
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "numbers.txt"
        file.write_text("\n".join(chosen) + "\n")
        words = ("revert", supplier, "--file", str(file), "--yes", "--reason", "chaos", "--json")
        command, environment = [sys.executable, "-m", "cli.main", *words], os.environ | world.service.environment
        for _ in range(3):
            verb = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(world.random.uniform(0.5, 3.0))
            verb.kill()
            verb.wait()

        def left() -> int:
            again = json.loads(world.service.program(*words).stdout)
            return int(again["reverted"] + again["kept_by_reason"].get("pending", 0))

        wait_for(lambda: left() == 0, "everything is reverted", timeout_s=120)


KILL_S, REDIS_S = 5.0, 30.0
"""Seconds until the service works again: after a kill, and after the loss of Redis at full speed."""

FAULTS: tuple[Fault, ...] = (
    Fault("kill -9 api", partial(World.kill, role="api"), KILL_S),
    Fault("kill -9 worker", partial(World.kill, role="worker"), KILL_S),
    Fault("kill -9 relay", partial(World.kill, role="relay"), KILL_S),
    Fault("kill -9 postmaster", partial(World.kill, role="postgres"), KILL_S),
    Fault("kill -9 one backend", kill_one_backend, KILL_S),
    Fault("kill -9 redis", partial(World.kill, role="redis"), REDIS_S, processed_within_s=1.0),
    Fault("kill -9 revert", kill_a_revert, KILL_S),
    Fault("kill -9 whole tree", kill_the_whole_tree, 30.0),
    Fault("FLUSHALL", flush_redis, REDIS_S, processed_within_s=1.0),
    Fault("redis full", fill_redis, REDIS_S, processed_within_s=1.0),
    Fault("messages twice, late, disordered", deliver_twice_late_and_disordered, REDIS_S),
    Fault("connections cut in COMMIT", cut_during_commit, KILL_S),
    Fault("two sweepers", two_sweepers, KILL_S),
    Fault("clocks that differ", clocks_that_differ, REDIS_S),
    Fault("poison", poison, REDIS_S),
    Fault("SIGSTOP worker", partial(stop, role="worker"), REDIS_S),
    Fault("SIGSTOP relay", partial(stop, role="relay"), REDIS_S),
    Fault("SIGSTOP redis", partial(stop, role="redis"), REDIS_S, processed_within_s=1.0),
    Fault("SIGSTOP postgres", stop_postgres, REDIS_S),
    Fault("SIGSTOP api", partial(stop, role="api"), REDIS_S),
)
