"""Serves an application on a real socket, in the tests' own process."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette

from api.app import create_app
from api.http import server
from console.routes import console_routes
from embedded.postgres import PostgresUrls
from tests.support.running import REQUEST_KEY, RunningService, free_port, wait_for


@contextlib.contextmanager
def serving(app: Starlette) -> Iterator[int]:
    """The application behind the impatient protocol, in a thread."""
    port = free_port()
    config = server.configuration(app, host="127.0.0.1", port=port)
    config.timeout_graceful_shutdown = 1
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    wait_for(lambda: running.started, "the server listens")
    try:
        yield port
    finally:
        running.should_exit = True
        thread.join()


@contextlib.contextmanager
def running(database: PostgresUrls, **named: Any) -> Iterator[RunningService]:
    """The api of a database and its console, without workers, in this process."""
    environment = {"DATABASE_URL": database.service, "DATABASE_ADMIN_URL": database.admin}
    app = create_app(database.service, b"k" * 32, request_key=REQUEST_KEY, more_routes=console_routes, **named)
    with serving(app) as port:
        service = RunningService(f"http://127.0.0.1:{port}", environment, None)
        yield service
        service.close()
