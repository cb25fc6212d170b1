"""Queues of messages to workers: Dramatiq on Redis, or in memory if there is no Redis.

In names here, a bell is a queue, the doorbell is the broker, and to ring is to send a message. Messages hold only ids
of streams or of jobs. Dramatiq's retries, delays, results and time limits are off: attempts, leases and due times are
in Postgres.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

# Read by dramatiq when it is imported.
os.environ.setdefault("dramatiq_queue_prefetch", "3")  # one for each thread, and one more
os.environ.setdefault("dramatiq_restart_delay", "500")

import dramatiq
import msgspec
from dramatiq.brokers.stub import StubBroker

from system.alone import without

with without("opentelemetry"):
    import redis
    from dramatiq.brokers.redis import RedisBroker
    from redis.backoff import ExponentialBackoff
    from redis.connection import parse_url
    from redis.retry import Retry

STREAMS_PER_MESSAGE = 400
"""Imports per message. A worker processes them together."""
MAILS_PER_MESSAGE = 5
"""E-mails per message. A worker sends them one after the other, and other suppliers' e-mails wait for them."""


class Bell(msgspec.Struct, frozen=True):
    """Queue for one kind of work, and the actor of its messages. A lower number is a higher priority."""

    queue: str
    actor: str
    priority: int = 0
    streams_per_message: int = 1
    asks_every_ms: int = 500
    """Longest interval between two requests of an idle worker for messages [milliseconds]."""


IMPORTS = Bell("imports", "process_imports", streams_per_message=STREAMS_PER_MESSAGE, asks_every_ms=100)
MAILS = Bell("mails", "send_mails", streams_per_message=MAILS_PER_MESSAGE)
RECONCILIATIONS = Bell("reconciliations", "reconcile", priority=100)
"""Each message holds the id of one job of `projections.queries.reconciliation`."""
BELLS = (IMPORTS, MAILS, RECONCILIATIONS)


class BellUnavailable(Exception):
    """Redis does not answer. No work is lost: it is in the log."""


class Doorbell(Protocol):
    """Interface of a broker for the relay: send messages, and count the messages that wait."""

    def ring(self, streams: Sequence[str], bell: Bell = IMPORTS) -> None: ...

    def waiting(self, bell: Bell = IMPORTS) -> int: ...


class BrokerDoorbell:
    """Sends messages through a Dramatiq broker, or through one for each queue."""

    def __init__(self, broker: dramatiq.Broker, others: Mapping[Bell, dramatiq.Broker] = MappingProxyType({})) -> None:
        """`others`: brokers of the queues that have their own."""
        self._brokers = {bell: others.get(bell, broker) for bell in BELLS}
        for bell, each in self._brokers.items():
            each.declare_queue(bell.queue)

    def ring(self, streams: Sequence[str], bell: Bell = IMPORTS) -> None:
        """Send one message for these streams. Raises BellUnavailable."""
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=bell.queue, actor_name=bell.actor, args=(list(streams),), kwargs={}, options={}
        )
        try:
            self._brokers[bell].enqueue(message)
        except (dramatiq.BrokerConnectionError, redis.RedisError, OSError) as error:
            raise BellUnavailable(f"Redis does not answer: {error}") from error

    def waiting(self, bell: Bell = IMPORTS) -> int:
        """Count the messages that no worker has fetched. Raises BellUnavailable."""
        broker = self._brokers[bell]
        if isinstance(broker, StubBroker):
            return int(broker.queues[bell.queue].qsize())
        assert isinstance(broker, RedisBroker)
        try:
            return int(broker.client.llen(f"{broker.namespace}:{bell.queue}"))
        except (redis.RedisError, OSError) as error:
            raise BellUnavailable(f"Redis does not answer: {error}") from error


class _UndelayedBroker(RedisBroker):
    """Broker without delayed messages, whose workers do not poll for them.

    Raises a time-out as a lost connection: Dramatiq logs that in one line, and other errors with a traceback.
    """

    def get_declared_delay_queues(self) -> set[str]:
        return set()

    def _dispatch(self, command: str) -> Callable[..., Any]:
        act = super()._dispatch(command)  # type: ignore[no-untyped-call]

        def act_in_time(*arguments: Any) -> Any:
            try:
                return act(*arguments)
            except redis.TimeoutError as error:
                raise redis.ConnectionError(str(error)) from None

        return act_in_time


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


def declare_actor(broker: dramatiq.Broker, bell: Bell, act: Callable[[list[str]], None]) -> None:
    """Register the function that processes the messages of this queue."""
    dramatiq.actor(actor_name=bell.actor, queue_name=bell.queue, broker=broker, priority=bell.priority)(act)


def start_workers(broker: dramatiq.Broker, bell: Bell, *, threads: int) -> dramatiq.Worker:
    """Start threads that process the messages of this queue. Stop them with `worker.stop(timeout=…)`.

    Each queue needs a broker of its own: Dramatiq supports one worker for each broker.
    """
    worker = dramatiq.Worker(broker, queues={bell.queue}, worker_timeout=bell.asks_every_ms, worker_threads=threads)
    worker.start()
    return worker
