"""Main functions of the roles worker and relay."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import dramatiq
import structlog

from eventstore.log.ledger import Ledger
from system.interpreter import tune_interpreter
from telemetry.supervision import supervision
from workers.actors.mail_server import MailServer
from workers.actors.process_imports import ImportProcessor
from workers.actors.reconcile import Reconciler
from workers.actors.send_mails import MailSender
from workers.broker import (
    IMPORTS,
    MAILS,
    QUEUES,
    RECONCILIATIONS,
    BrokerDispatcher,
    Queue,
    declare_actor,
    in_process_broker,
    redis_broker,
    start_workers,
)
from workers.followers.relay import Relay
from workers.liveness import Liveness

STOP_TIMEOUT_MS = 20_000

logger = structlog.get_logger()


def broker_for(redis_url: str | None) -> dramatiq.Broker:
    """Return a broker on Redis, or in the memory of this process if there is no URL."""
    return redis_broker(redis_url) if redis_url else in_process_broker()


THREADS = 2
"""Threads of a worker process that process imports."""


def run_worker(
    ledger: Ledger,
    redis_url: str | None,
    *,
    stop: threading.Event,
    mail_server: MailServer | None = None,
    is_sandbox: bool = False,
    allowed_urls: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Process imports and send e-mails until `stop` is set, and finish messages that have begun.

    `allowed_urls`: by organisation, the URLs below which its documents may be.

    Without Redis, the relay also runs in this process, since messages cannot leave it. E-mails have a separate thread,
    so that a slow mail server delays no import. Reconciliations also have a separate thread, because they wait for
    imports.
    """
    tune_interpreter()
    liveness = Liveness(ledger)
    liveness.start(stop)
    brokers = {queue: broker_for(redis_url) for queue in QUEUES}
    processor = ImportProcessor(ledger, worker=liveness.worker, is_sandbox=is_sandbox, allowed_urls=allowed_urls)
    functions = {
        IMPORTS: (processor.process, THREADS),
        MAILS: (MailSender(ledger, mail_server, worker=liveness.worker).send, 1),
        RECONCILIATIONS: (Reconciler(ledger, worker=liveness.worker, stop=stop).work, 1),
    }
    workers = []
    for queue, (function, count) in functions.items():
        declare_actor(brokers[queue], queue, _supervised(queue, function))
        workers.append(start_workers(brokers[queue], queue, threads=count))
    logger.info("worker is ready", worker=liveness.worker(), threads=THREADS, queue="redis" if redis_url else "memory")
    if redis_url:
        stop.wait()
    else:
        Relay(ledger, BrokerDispatcher(brokers[IMPORTS], brokers)).run(stop)
    with ThreadPoolExecutor(len(workers)) as stopping:  # stopping takes seconds if Redis does not answer
        for result in [stopping.submit(worker.stop, timeout=STOP_TIMEOUT_MS) for worker in workers]:
            result.result()
    liveness.stop()


def _supervised(queue: Queue, function: Callable[[list[str]], None]) -> Callable[[list[str]], None]:
    """Return a function that processes a message. If it fails, the sweeper sends its streams again."""

    def process(streams: list[str]) -> None:
        with supervision.part(f"worker of {queue.name}", passes=lambda _: False):
            function(streams)

    return process


def run_relay(ledger: Ledger, redis_url: str, *, stop: threading.Event) -> None:
    """Run the relay, active or standing by, until `stop` is set."""
    tune_interpreter()
    Relay(ledger, BrokerDispatcher(redis_broker(redis_url))).run(stop)
