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
    BELLS,
    IMPORTS,
    MAILS,
    RECONCILIATIONS,
    Bell,
    BrokerDoorbell,
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
    places: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Process imports and send e-mails until `stop` is set. Messages that have begun are finished first.

    `places`: by organisation, the URLs below which its documents may lie.

    Without Redis the relay runs in this process as well, since messages cannot leave it. E-mails have their own thread,
    so that a slow mail server delays no import. So have reconciliations, which wait for imports.
    """
    tune_interpreter()
    liveness = Liveness(ledger)
    liveness.start(stop)
    brokers = {bell: broker_for(redis_url) for bell in BELLS}
    processor = ImportProcessor(ledger, worker=liveness.worker, is_sandbox=is_sandbox, places=places)
    acts = {
        IMPORTS: (processor.process, THREADS),
        MAILS: (MailSender(ledger, mail_server, worker=liveness.worker).send, 1),
        RECONCILIATIONS: (Reconciler(ledger, worker=liveness.worker, stop=stop).work, 1),
    }
    workers = []
    for bell, (act, count) in acts.items():
        declare_actor(brokers[bell], bell, _supervised(bell, act))
        workers.append(start_workers(brokers[bell], bell, threads=count))
    logger.info("worker is ready", worker=liveness.worker(), threads=THREADS, bell="redis" if redis_url else "memory")
    if redis_url:
        stop.wait()
    else:
        Relay(ledger, BrokerDoorbell(brokers[IMPORTS], brokers)).run(stop)
    with ThreadPoolExecutor(len(workers)) as stopping:  # each waits seconds if Redis has gone
        for stopped in [stopping.submit(worker.stop, timeout=STOP_TIMEOUT_MS) for worker in workers]:
            stopped.result()
    liveness.stop()


def _supervised(bell: Bell, act: Callable[[list[str]], None]) -> Callable[[list[str]], None]:
    """Return a function that processes a message. If it fails, the sweeper sends its streams again."""

    def acting(streams: list[str]) -> None:
        with supervision.part(f"worker of {bell.queue}", passes=lambda _: False):
            act(streams)

    return acting


def run_relay(ledger: Ledger, redis_url: str, *, stop: threading.Event) -> None:
    """Run the relay, active or standing by, until `stop` is set."""
    tune_interpreter()
    Relay(ledger, BrokerDoorbell(redis_broker(redis_url))).run(stop)
