"""The doorbell: Dramatiq on Redis, or in memory where there is no Redis.

Messages carry ids of streams or of jobs, and nothing else. Dramatiq's own retries, delays, results and
time limits stay off: attempts, leases and due times are in Postgres.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

# Read by dramatiq when it is imported.
os.environ.setdefault("dramatiq_queue_prefetch", "3")  # one for each thread, and the next one
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
"""Imports that a worker brings to their end together: what is done once for a message costs as much as twenty."""
MAILS_PER_MESSAGE = 5
"""E-mails that a worker sends one after the other. Other suppliers' e-mails wait for them."""


class Bell(msgspec.Struct, frozen=True):
    """A queue for one kind of work, and the actor that takes its messages; the lower the priority, the earlier."""

    queue: str
    actor: str
    priority: int = 0
    streams_per_message: int = 1
    asks_every_ms: int = 500
    """How often at least an idle worker asks for messages. Asking is most of what it costs to have nothing to do."""


IMPORTS = Bell("imports", "process_imports", streams_per_message=STREAMS_PER_MESSAGE, asks_every_ms=100)
MAILS = Bell("mails", "send_mails", streams_per_message=MAILS_PER_MESSAGE)
RECONCILIATIONS = Bell("reconciliations", "reconcile", priority=100)
"""Its messages name a job of `projections.queries.reconciliation` each."""
BELLS = (IMPORTS, MAILS, RECONCILIATIONS)


class BellUnavailable(Exception):
    """Redis does not answer. Nothing is lost: the log knows what there is to do."""


class Doorbell(Protocol):
    """What the relay needs of a broker: to ring for streams, and to see how many messages still wait."""

    def ring(self, streams: Sequence[str], bell: Bell = IMPORTS) -> None: ...

    def waiting(self, bell: Bell = IMPORTS) -> int: ...


class BrokerDoorbell:
    """Rings through a Dramatiq broker, or through one for each bell."""

    def __init__(self, broker: dramatiq.Broker, others: Mapping[Bell, dramatiq.Broker] = MappingProxyType({})) -> None:
        """`others` are the brokers of bells that have one of their own."""
        self._brokers = {bell: others.get(bell, broker) for bell in BELLS}
        for bell, one in self._brokers.items():
            one.declare_queue(bell.queue)

    def ring(self, streams: Sequence[str], bell: Bell = IMPORTS) -> None:
        """One message for these streams. Raises BellUnavailable."""
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=bell.queue, actor_name=bell.actor, args=(list(streams),), kwargs={}, options={}
        )
        try:
            self._brokers[bell].enqueue(message)
        except (dramatiq.BrokerConnectionError, redis.RedisError, OSError) as error:
            raise BellUnavailable(f"Redis does not answer: {error}") from error

    def waiting(self, bell: Bell = IMPORTS) -> int:
        """Messages that no worker has fetched yet. Raises BellUnavailable."""
        broker = self._brokers[bell]
        if isinstance(broker, StubBroker):
            return int(broker.queues[bell.queue].qsize())
        assert isinstance(broker, RedisBroker)
        try:
            return int(broker.client.llen(f"{broker.namespace}:{bell.queue}"))
        except (redis.RedisError, OSError) as error:
            raise BellUnavailable(f"Redis does not answer: {error}") from error


class _UndelayedBroker(RedisBroker):
    """Its workers do not ask for delayed messages many times a second: nobody sends any.

    A time-out is a lost connection: the library waits for that in one line, and shows other errors as bugs of its own.
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
    """A broker on `redis://`, `rediss://` or `unix://`. A command to a Redis that hangs fails within half a minute."""
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
    """A broker in this process's memory."""
    return StubBroker(middleware=[])


def declare_actor(broker: dramatiq.Broker, bell: Bell, act: Callable[[list[str]], None]) -> None:
    """Bind what acts on this bell to the broker."""
    dramatiq.actor(actor_name=bell.actor, queue_name=bell.queue, broker=broker, priority=bell.priority)(act)


def start_workers(broker: dramatiq.Broker, bell: Bell, *, threads: int) -> dramatiq.Worker:
    """Threads that take this bell's messages as they come; stop it with `worker.stop(timeout=…)`.

    A broker is for the workers of one bell: it hears from one worker, and warns of a second.
    """
    worker = dramatiq.Worker(broker, queues={bell.queue}, worker_timeout=bell.asks_every_ms, worker_threads=threads)
    worker.start()
    return worker
