"""Serve an application on a real socket, in the tests' own process."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import uvicorn

from api.app import create_app
from api.http import server
from api.http.request_log import GATHER_S
from console.routes import console_routes
from embedded.postgres import PostgresUrls
from tests.support.running import REQUEST_KEY, RunningService, free_port, wait_for


@contextlib.contextmanager
def serving(app: Any) -> Iterator[int]:
    """Serve the application with our protocol, in a thread. Yields the port."""
    port = free_port()
    with started(uvicorn.Server(server.configuration(app, host="127.0.0.1", port=port))):
        yield port


@contextlib.contextmanager
def started(running: uvicorn.Server, *sockets: socket.socket) -> Iterator[None]:
    """Run the server in a thread until the end of the block."""
    running.config.timeout_graceful_shutdown = 1
    thread = threading.Thread(target=running.run, args=(list(sockets) or None,))
    thread.start()
    wait_for(lambda: running.started, "the server listens")
    try:
        yield
    finally:
        running.should_exit = True
        thread.join()


def answered(app: Any, *paths: str) -> list[httpx.Response]:
    """Send GET requests to an application in this process, one after the other. Its lifespan does not begin."""

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            answers = [await client.get(path) for path in paths]
        await asyncio.sleep(2 * GATHER_S)  # until the log has written its lines
        return answers

    return asyncio.run(ask())


@contextlib.contextmanager
def running(database: PostgresUrls, **named: Any) -> Iterator[RunningService]:
    """The api of a database and its console, without workers, in this process."""
    environment = {"DATABASE_URL": database.service, "DATABASE_ADMIN_URL": database.admin}
    app = create_app(database.service, b"k" * 32, request_key=REQUEST_KEY, more_routes=console_routes, **named)
    with serving(app) as port:
        service = RunningService(f"http://127.0.0.1:{port}", environment, None)
        yield service
        service.close()
