"""The verb `api`, which imports no code of the workers, so that it starts quickly."""

import os
import socket
from collections.abc import Sequence
from functools import partial

import click
import msgspec

from api.app import create_app
from api.http.request_log import RequestLog
from api.http.server import SANDBOX_HEADERS, serve
from cli.service.listening import metrics_sockets, own_url, refuse_taken
from cli.service.observing import Observed
from cli.service.opening import ledger_opener
from cli.service.roles import request_key, role_settings
from cli.service.settings import Settings, required, shown_settings
from console.access.transport import Transport
from console.books.running import BookSteps
from console.routes import console_routes
from console.settings import ConsoleSettings
from embedded.folder import DataFolder
from system.shared_counts import SharedCounts
from telemetry.log import is_verbose, write_lines


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
@click.option("--fd", "fds", type=int, multiple=True, hidden=True, help="Descriptor of a listening socket.")
@click.option(
    "--metrics-fd",
    "metrics_fds",
    type=int,
    multiple=True,
    hidden=True,
    help="Descriptor of a metrics socket.",
)
@click.option("--counts-fd", type=int, hidden=True, help="Descriptor of the file of connection counts.")
@click.option("--counts-index", type=int, default=0, hidden=True, help="Index of this process in that file, from 0.")
def api(
    host: str, port: int, fds: tuple[int, ...], metrics_fds: tuple[int, ...], counts_fd: int | None, counts_index: int
) -> None:
    """Run the HTTP API and the console.

    Requires DATABASE_URL.
    """
    settings = role_settings()
    if not fds:
        refuse_taken(host, port)
    own_port = [socket.socket(fileno=fd) for fd in metrics_fds] or metrics_sockets(settings)
    observed = Observed(settings, required(settings.database_url, "DATABASE_URL"), "api")
    folder = DataFolder(settings.data_dir)
    app = create_app(
        required(settings.database_url, "DATABASE_URL"),
        (settings.token_key or folder.secret("token_key")).encode(),
        settings.redis_url,
        request_key=request_key(settings),
        expose=None if own_port else observed.expose,
        register_metrics=observed.report,
        roles_file=settings.roles_file,
        is_sandbox=settings.is_sandbox,
        durability=settings.durability,
        open_ledger=ledger_opener(
            required(settings.database_url, "DATABASE_URL"), settings.durability, settings.role_name or "api", ["api"]
        ),
        address_of=lambda request: Transport(request, settings.console.trusted_proxies).address,
        more_routes=partial(console_routes, settings=_console(settings)),
        more_work=lambda services: BookSteps(
            services.ledger, services.authority, url=own_url(host, port, fds), needs_second="push" in settings.four_eyes
        ).running(),
    )
    observed.serve(own_port)
    write = write_lines(settings.log_format) if is_verbose(settings.log_level) else None
    logged = RequestLog(app, write, at_end=observed.stop)
    counts = None
    if counts_fd is not None:
        counts = SharedCounts(counts_fd, counts_index)
        os.close(counts_fd)  # child processes must not inherit this
    headers = SANDBOX_HEADERS if settings.is_sandbox else ()
    serve(logged, host=host, port=port, fds=fds, counts=counts, headers=headers)


def _console(settings: Settings) -> ConsoleSettings:
    """Return the settings of the console, including the settings that its page *System* shows."""
    shown = tuple(shown_settings(shown=("plain", "private")).items())
    return msgspec.structs.replace(settings.console, shown=shown, examine=_examined)


def _examined() -> Sequence[object]:
    from cli.doctor import graded  # imported here: the library is large, and only one page needs it

    return graded()
