"""The doorbell: Dramatiq on Redis, or in memory where there is no Redis.

Messages carry stream ids and nothing else. Dramatiq's own retries, delays, results and time limits stay off:
attempts, leases and due times are in Postgres.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

# Read by dramatiq when it is imported.
os.environ.setdefault("dramatiq_queue_prefetch", "4")
os.environ.setdefault("dramatiq_delay_queue_prefetch", "1")
os.environ.setdefault("dramatiq_restart_delay", "500")

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from redis.connection import parse_url

QUEUE = "imports"
ACTOR = "process_imports"
STREAMS_PER_MESSAGE = 50


class BellUnavailable(Exception):
    """Redis does not answer. Nothing is lost: the log knows what there is to do."""


class Doorbell(Protocol):
    """What the relay needs: ring for streams, and see how many messages still wait."""

    def ring(self, streams: Sequence[str]) -> None: ...

    def waiting(self) -> int: ...


class BrokerDoorbell:
    """Rings through a Dramatiq broker."""

    def __init__(self, broker: dramatiq.Broker) -> None:
        self._broker = broker
        broker.declare_queue(QUEUE)

    def ring(self, streams: Sequence[str]) -> None:
        """One message for these streams. Raises BellUnavailable."""
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=QUEUE, actor_name=ACTOR, args=(list(streams),), kwargs={}, options={}
        )
        try:
            self._broker.enqueue(message)
        except (dramatiq.BrokerConnectionError, redis.RedisError, OSError) as error:
            raise BellUnavailable(str(error)) from error

    def waiting(self) -> int:
        """Messages that no worker has fetched yet. Raises BellUnavailable."""
        if isinstance(self._broker, StubBroker):
            return int(self._broker.queues[QUEUE].qsize())
        assert isinstance(self._broker, RedisBroker)
        try:
            return int(self._broker.client.llen(f"{self._broker.namespace}:{QUEUE}"))
        except (redis.RedisError, OSError) as error:
            raise BellUnavailable(str(error)) from error


def redis_broker(redis_url: str) -> RedisBroker:
    """A broker on `redis://`, `rediss://` or `unix://`. By parameters, not by URL: a URL gets no connection retries."""
    parameters: dict[str, Any] = dict(parse_url(redis_url))  # type: ignore[no-untyped-call]
    if parameters.pop("connection_class", None) is redis.UnixDomainSocketConnection:
        parameters["unix_socket_path"] = parameters.pop("path")
    elif redis_url.startswith("rediss:"):
        parameters["ssl"] = True
    return RedisBroker(  # type: ignore[no-untyped-call]
        **parameters,
        socket_timeout=5,
        socket_connect_timeout=2,
        health_check_interval=30,
        maintenance_chance=50_000,
        heartbeat_timeout=30_000,
        middleware=[],
    )


def in_process_broker() -> StubBroker:
    """A broker in this process's memory."""
    return StubBroker(middleware=[])


def declare_actor(broker: dramatiq.Broker, process: Callable[[list[str]], None]) -> None:
    """Bind the actor that processes imports to the broker."""
    dramatiq.actor(actor_name=ACTOR, queue_name=QUEUE, broker=broker)(process)


def start_workers(broker: dramatiq.Broker, *, threads: int) -> dramatiq.Worker:
    """Threads that take messages as they come; stop it with `worker.stop(timeout=…)`."""
    worker = dramatiq.Worker(broker, queues={QUEUE}, worker_timeout=100, worker_threads=threads)
    worker.start()
    return worker
