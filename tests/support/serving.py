"""Serves an application on a real socket, in the tests' own process."""

import contextlib
import threading
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from api import server
from tests.support.running import free_port, wait_for


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
