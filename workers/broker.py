"""Queues of messages to workers: Dramatiq on Redis, or in memory if there is no Redis.

Messages hold only ids of streams or of jobs. Dramatiq's retries, delays, results and time limits are off: attempts,
leases and due times are in Postgres.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

# Dramatiq reads these variables when its package is imported.
os.environ.setdefault("dramatiq_queue_prefetch", "3")  # one for each thread, and one more
os.environ.setdefault("dramatiq_restart_delay", "500")

import dramatiq
import msgspec
from dramatiq.brokers.stub import StubBroker

from system.hidden_imports import hiding

with hiding("opentelemetry"):
    import redis
    from dramatiq.brokers.redis import RedisBroker
    from redis.backoff import ExponentialBackoff
    from redis.connection import parse_url
    from redis.retry import Retry

STREAMS_PER_MESSAGE = 400
"""Imports per message. A worker processes the imports of a message together."""
MAILS_PER_MESSAGE = 5
"""E-mails per message.

A worker sends the e-mails of a message one after the other, while e-mails of other suppliers wait.
"""


class Queue(msgspec.Struct, frozen=True):
    """Queue for one kind of work, and the actor of its messages. A lower number is a higher priority."""

    name: str
    actor: str
    priority: int = 0
    streams_per_message: int = 1
    poll_ms: int = 500
    """Longest interval between two requests of an idle worker for messages [milliseconds]."""


IMPORTS = Queue("imports", "process_imports", streams_per_message=STREAMS_PER_MESSAGE, poll_ms=100)
MAILS = Queue("mails", "send_mails", streams_per_message=MAILS_PER_MESSAGE)
RECONCILIATIONS = Queue("reconciliations", "reconcile", priority=100)
"""Each message holds the id of one job of `projections.queries.reconciliation`."""
QUEUES = (IMPORTS, MAILS, RECONCILIATIONS)


class QueueUnavailable(Exception):
    """Redis does not answer. No work is lost, because all work is in the log."""


class Dispatcher(Protocol):
    """Interface of a broker for the relay: send messages, and count the messages that wait."""

    def enqueue(self, streams: Sequence[str], queue: Queue = IMPORTS) -> None: ...

    def waiting(self, queue: Queue = IMPORTS) -> int: ...


class BrokerDispatcher:
    """Sends messages through a Dramatiq broker, or through a separate broker for each queue."""

    def __init__(
        self, broker: dramatiq.Broker, by_queue: Mapping[Queue, dramatiq.Broker] = MappingProxyType({})
    ) -> None:
        """`by_queue`: brokers of queues with a separate broker."""
        self._brokers = {queue: by_queue.get(queue, broker) for queue in QUEUES}
        for queue, queue_broker in self._brokers.items():
            queue_broker.declare_queue(queue.name)

    def enqueue(self, streams: Sequence[str], queue: Queue = IMPORTS) -> None:
        """Send a message with streams. Raises QueueUnavailable."""
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=queue.name, actor_name=queue.actor, args=(list(streams),), kwargs={}, options={}
        )
        try:
            self._brokers[queue].enqueue(message)
        except (dramatiq.BrokerConnectionError, redis.RedisError, OSError) as error:
            raise QueueUnavailable(f"Redis does not answer: {error}") from error

    def waiting(self, queue: Queue = IMPORTS) -> int:
        """Count the messages that no worker has fetched. Raises QueueUnavailable."""
        broker = self._brokers[queue]
        if isinstance(broker, StubBroker):
            return int(broker.queues[queue.name].qsize())
        assert isinstance(broker, RedisBroker)
        try:
            return int(broker.client.llen(f"{broker.namespace}:{queue.name}"))
        except (redis.RedisError, OSError) as error:
            raise QueueUnavailable(f"Redis does not answer: {error}") from error


class _UndelayedBroker(RedisBroker):
    """Broker without delayed messages, whose workers do not poll for such messages.

    Raises every lost connection and time-out as Dramatiq's own error, which Dramatiq logs in one line. Dramatiq logs
    other errors with a traceback, or does not catch them when a worker stops.
    """

    def get_declared_delay_queues(self) -> set[str]:
        return set()

    def _dispatch(self, command: str) -> Callable[..., Any]:
        function = super()._dispatch(command)  # type: ignore[no-untyped-call]

        def dispatch(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except (redis.ConnectionError, redis.TimeoutError) as error:
                raise dramatiq.ConnectionClosed(str(error)) from None  # type: ignore[no-untyped-call]

        return dispatch


def redis_broker(redis_url: str) -> RedisBroker:
    """Return a broker on `redis://`, `rediss://` or `unix://`. A command fails within 30 seconds if Redis hangs."""
    parameters: dict[str, Any] = dict(parse_url(redis_url))  # type: ignore[no-untyped-call]
    if parameters.pop("connection_class", None) is redis.UnixDomainSocketConnection:
        parameters["unix_socket_path"] = parameters.pop("path")
    elif redis_url.startswith("rediss:"):
        parameters["ssl"] = True
    return _UndelayedBroker(  # type: ignore[no-untyped-call]
        **parameters,
        socket_timeout=5,
        socket_connect_timeout=2,
        retry=Retry(ExponentialBackoff(cap=0.2, base=0.05), retries=1),
        health_check_interval=30,
        maintenance_chance=50_000,
        heartbeat_timeout=30_000,
        middleware=[],
    )


def in_process_broker() -> StubBroker:
    """Return a broker in the memory of this process."""
    return StubBroker(middleware=[])


def declare_actor(broker: dramatiq.Broker, queue: Queue, function: Callable[[list[str]], None]) -> None:
    """Register the function that processes the messages of this queue."""
    dramatiq.actor(actor_name=queue.actor, queue_name=queue.name, broker=broker, priority=queue.priority)(function)


def start_workers(broker: dramatiq.Broker, queue: Queue, *, threads: int) -> dramatiq.Worker:
    """Start threads that process the messages of this queue. Stop them with `worker.stop(timeout=…)`.

    Each queue needs a separate broker, because Dramatiq supports one worker for each broker.
    """
    worker = dramatiq.Worker(broker, queues={queue.name}, worker_timeout=queue.poll_ms, worker_threads=threads)
    worker.start()
    return worker
