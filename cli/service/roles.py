"""The verb `up`, which runs the whole service, and the start of single roles."""

import contextlib
import json
import resource
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from api.http.status_codes import FAILING, STARTING, STOPPED
from cli.language import _
from cli.service.listening import METRICS, base_url_of, listening_on, metrics_sockets, refuse_taken
from cli.service.reach import require_answer, require_redis
from cli.service.sealing import SEALING_KEY
from cli.service.settings import SettingError, Settings
from cli.service.signals import stop_on_signals
from embedded.folder import DataFolder
from embedded.service import Connections, Service
from eventstore.proof.checkpoints import LogKey
from system.connections import of_service
from system.processors import usable_cores
from telemetry.log import begin_process

READY_TIMEOUT_S = 60.0
COMPARED_TIMEOUT_S = 45.0
"""Time that `up` waits for the comparison of the log with its checkpoints [seconds], since their object store may not
answer.
"""
MAX_API_PROCESSES = 32
MAX_WORKERS = 32
MAX_DEFAULT_API_PROCESSES = 8
MAX_DEFAULT_WORKERS = 4


def processes_for(cores: int) -> int:
    """Return the default number of api processes: one a core, up to MAX_DEFAULT_API_PROCESSES."""
    return max(1, min(cores, MAX_DEFAULT_API_PROCESSES))


def workers_for(cores: int) -> int:
    """Return the default number of workers: one a core, up to MAX_DEFAULT_WORKERS."""
    return max(1, min(cores, MAX_DEFAULT_WORKERS))


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of all data [default: IMPORTLEDGER_DATA_DIR]")
@click.option(
    "--api-processes",
    type=click.IntRange(1, MAX_API_PROCESSES),
    help="Processes that answer requests [default: one a core, at most 8]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    help="Processes that create accounts [default: one a core, at most 4]",
)
@click.option("--sandbox", is_flag=True, help="Sandbox: account numbers that end in -ERRORED-CODE fail with that code.")
def up(
    host: str, port: int, data_dir: Path | None, api_processes: int | None, workers: int | None, *, sandbox: bool
) -> None:
    """Run the whole service as one process tree until Ctrl-C.

    All api processes accept connections on the same port: while one process restarts, the others answer. Limits of
    bodies and connections apply to each process. The log and /readyz name the processes api-1, api-2 and so on.
    """
    settings = role_settings()
    folder = DataFolder(data_dir or settings.data_dir)
    _refuse_unusable(settings, folder, host, port)
    stop = stop_on_signals()

    def announce(base_url: str, service: Service, connections: Connections) -> None:
        values = {"url": base_url, "folder": folder.path}
        click.echo(_("The import ledger listens on {url} and keeps its data in {folder}.", **values))
        click.echo(_("Health: {url}/livez and {url}/readyz. Stop it with Ctrl-C.", url=base_url))
        click.echo(
            _("Console: {url}/console/. `importledger user create` prints a link to sign in with.", url=base_url)
        )
        if sys.stdout.isatty():  # otherwise a program reads JSON and the address
            click.echo(_("The guide, with the first commands: {url}/docs/guide/", url=base_url))
        service.supervisor.watch(stop)

    processes = (api_processes, workers)
    run_service(settings, folder, announce, stop, host=host, port=port, processes=processes, sandbox=sandbox)


def run_service(
    settings: Settings,
    folder: DataFolder,
    while_running: Callable[[str, Service, Connections], Any],
    stop: threading.Event,
    *,
    host: str,
    port: int,
    processes: tuple[int | None, int | None] = (None, None),
    log_folder: Path | None = None,
    sandbox: bool = False,
) -> None:
    """Start everything, call `while_running` when the api is ready, and stop everything after it returns.

    If `stop` is set before the api is ready, `while_running` is not called. `processes` are the numbers of api
    processes and workers; None means the default for the cores.
    """
    settings.refuse_incomplete()
    service = Service(folder, log_folder=log_folder)
    try:
        api_processes = processes[0] or processes_for(usable_cores())
        workers = processes[1] or workers_for(usable_cores())
        connections = service.start_servers(
            settings.database_url,
            settings.database_admin_url,
            settings.redis_url,
            settings.durability,
            most_connections=of_service(api_processes, workers),
        )
        environment = {"IMPORTLEDGER_SANDBOX": "on"} if sandbox else {}
        service.start_roles(
            connections,
            listening=listening_on(host, port),
            api_processes=api_processes,
            workers=workers,
            token_key=settings.token_key or folder.secret("token_key"),
            request_key=settings.request_key or folder.secret("request_key"),
            environment=environment,
            metrics=metrics_sockets(settings),
        )
        base_url = base_url_of(host, port)
        if _becomes_ready(base_url, service, stop):
            folder.write_connections((folder.read_connections() or {}) | {"base_url": base_url})
            while_running(base_url, service, connections)
    finally:
        service.stop()


def _refuse_unusable(settings: Settings, folder: DataFolder, host: str, port: int) -> None:
    """Check the settings of all roles before a process is started. Raises SettingError, Unreachable."""
    settings.refuse_incomplete()
    secret = folder.known_secret(SEALING_KEY)
    if settings.sealing_key is None and secret is not None:
        LogKey.of(secret, f"The sealing key in {folder.path / 'secrets' / SEALING_KEY}")
    refuse_taken(host, port)
    if settings.metrics_port is not None:
        refuse_taken(settings.metrics_host, settings.metrics_port, METRICS)
    if settings.database_url is not None:
        require_answer(settings.database_url, "DATABASE_URL", needs_schema=False)
    if settings.database_admin_url is not None:
        require_answer(settings.database_admin_url, "DATABASE_ADMIN_URL", needs_schema=False)
    if settings.redis_url is not None:
        require_redis(settings.redis_url)


def role_settings(*, is_role: bool = True) -> Settings:
    """Read the settings, and set up logging.

    `is_role`: the process runs until it is stopped. The process and its children write no core dump, because their
    memory contains keys and personal data.
    """
    settings = Settings.from_environment()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    begin_process(settings.log_level, settings.log_format, is_role=is_role)
    return settings


def request_key(settings: Settings) -> str:
    """Return the request key from the settings or the data folder.

    Never makes a new key, because a role with a new key would refuse requests of processes on other machines. Raises
    SettingError.
    """
    key = settings.request_key or DataFolder(settings.data_dir).known_secret("request_key")
    if key is None:
        raise SettingError(
            "IMPORTLEDGER_REQUEST_KEY is not set: give every api process and every relay the same random text of at "
            "least 32 characters, such as `openssl rand -base64 32` prints."
        )
    return key


def _becomes_ready(base_url: str, service: Service, stop: threading.Event) -> bool:
    """Wait until the api is ready, and return True; False if `stop` is set first. Raises SettingError."""
    begun = time.monotonic()
    while not _is_ready(base_url, service, waits=time.monotonic() < begun + COMPARED_TIMEOUT_S):
        if not service.has_api() or time.monotonic() > begun + READY_TIMEOUT_S:
            raise SettingError(f"The service could not listen on {base_url}. Is the port taken? Choose another --port.")
        if stop.wait(0.05):
            return False
    return True


def _is_ready(base_url: str, service: Service, *, waits: bool) -> bool:
    """Return True if this service's api is ready, and not another program on the same port.

    A stopped intake or a failing part counts as ready, and without `waits` also a log that was not compared.
    """
    answer = _answer(f"{base_url}/readyz")
    if answer.get("code") in (STOPPED, FAILING) or (answer.get("code") == STARTING and not waits):
        answer = _answer(f"{base_url}/livez")
    return answer.get("pid") in service.api_pids()


def _answer(url: str) -> dict[str, Any]:
    """Return the JSON object at the URL; {} if nothing answers."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - always http
            return dict(json.load(answer))
    except urllib.error.HTTPError as refusal:
        with contextlib.suppress(ValueError), refusal:
            return dict(json.load(refusal))
    except (urllib.error.URLError, ConnectionError, TimeoutError, ValueError):
        pass
    return {}
