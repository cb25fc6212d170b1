"""The verbs `relay` and `worker`, which import no code of the API, so that they start quickly."""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from cli.service.listening import metrics_sockets
from cli.service.observing import Observed
from cli.service.opening import ledger_opener
from cli.service.role_health import answer_health
from cli.service.roles import request_key, role_settings
from cli.service.sealing import checkpoint_copies, log_verifier, sealing_key
from cli.service.settings import Settings, required
from cli.service.signals import stop_on_signals
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from projections import FOLLOWING, INLINE
from system import connections
from telemetry.log import is_verbose, write_lines
from workers.followers.ended_imports import EndedImports
from workers.followers.owner_tasks import OwnerTasks
from workers.followers.projector import Projector
from workers.followers.sealer import Sealer
from workers.run import run_relay, run_worker

AUTOGROUP = Path("/proc/self/autogroup")
"""File of this session's CPU niceness, which Linux applies before the niceness of processes; `up` gives each process a
session.
"""


@click.command()
def relay() -> None:
    """Run the relay, or stand by for the active one.

    Requires DATABASE_URL and REDIS_URL.
    """
    settings = role_settings()
    redis_url = required(settings.redis_url, "REDIS_URL")
    stop = stop_on_signals()
    with _role(settings, ["relay"], connections.RELAY, stop) as ledger:
        run_relay(ledger, redis_url, stop=stop)


@click.command()
def worker() -> None:
    """Run a worker, which creates accounts.

    Requires DATABASE_URL. Without REDIS_URL, the worker is also the relay.
    """
    settings = role_settings()
    stop = stop_on_signals()
    kinds = ["worker"] if settings.redis_url else ["worker", "relay"]
    with _role(settings, kinds, connections.WORKER, stop) as ledger:
        run_worker(
            ledger,
            settings.redis_url,
            stop=stop,
            mail_server=settings.mail_server,
            is_sandbox=settings.is_sandbox,
            allowed_urls=settings.documents_places,
        )


@contextlib.contextmanager
def _role(settings: Settings, kinds: Sequence[str], connections: int, stop: threading.Event) -> Iterator[Ledger]:
    """Yield the log of a role, with its metrics, its health checks and a low CPU priority.

    `kinds` are the kinds of processes whose rights the role needs; the first is the role's own kind. A relay also runs
    the sealer, the projector and other followers of the log. The log opens once its database was tested. Raises
    UnsafeStore.
    """
    url = required(settings.database_url, "DATABASE_URL")
    if "relay" in kinds:
        request_key(settings)
    listening = metrics_sockets(settings)
    observed = Observed(settings, url, kinds[0])
    observed.serve(listening)
    ledger = Ledger(url, views=INLINE, connections=connections, is_open=False)
    answer_health(ledger, settings.health_port)
    ledger_opener(url, settings.durability, settings.role_name or kinds[0], kinds)(ledger)
    observed.report(ledger.report_metrics)
    _yield_to_intake(settings.niceness)
    followers = _followers(ledger, settings, stop) if "relay" in kinds else []
    yield ledger
    observed.stop()
    for follower in followers:
        follower.join()
    ledger.close()


def _yield_to_intake(niceness: int) -> None:
    """Lower the CPU priority of this process, so that the api has priority."""
    with contextlib.suppress(AttributeError, OSError):  # the file is missing on some systems
        niceness = os.nice(niceness)
        if os.getsid(0) == os.getpid():
            AUTOGROUP.write_text(str(niceness))


def _followers(ledger: Ledger, settings: Settings, stop: threading.Event) -> list[threading.Thread]:
    """Start the threads that follow the log beside the relay, such as sealer and projector."""
    authority = AuthorityKey(request_key(settings))
    sealer = Sealer(
        ledger, sealing_key(settings), checkpoint_copies(settings), authority, every_s=settings.seal_every_s
    )
    ended = (
        EndedImports(ledger, write_lines(settings.log_format))
        if is_verbose(settings.log_level)
        else EndedImports(ledger)
    )
    followers = [sealer.start(stop), Projector(ledger, FOLLOWING).start(stop), ended.start(stop)]
    if settings.database_admin_url is not None:  # without the owner's URL, tasks of the owner wait
        verifier = log_verifier(settings, required(settings.database_url, "DATABASE_URL"))
        tasks = OwnerTasks(ledger, settings.database_admin_url, authority, verifier, settings.four_eyes)
        followers.append(tasks.start(stop))
    return followers
