"""Clients that send or read too slowly lose their connection, and nobody else notices."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from api import server
from tests.running import free_port, wait_for


@contextlib.contextmanager
def serving(app: Starlette) -> Iterator[int]:
    """The application behind the impatient protocol, in a thread."""
    port = free_port()
    config = uvicorn.Config(
        app,
        port=port,
        http=server.ImpatientProtocol,
        loop="uvloop",
        log_level="critical",
        timeout_graceful_shutdown=1,
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    wait_for(lambda: running.started, "the server listens")
    yield port
    running.should_exit = True
    thread.join()


async def quick(request: Request) -> Response:
    return Response(b"here")


async def endless(request: Request) -> Response:
    async def chunks() -> Any:
        for _ in range(20_000):  # 1.3 GB, more than any buffer
            yield b"x" * 65_536

    return StreamingResponse(chunks())


APP = Starlette(routes=[Route("/quick", quick), Route("/endless", endless)])


def ends(connection: socket.socket) -> bool:
    """Whether the other side has closed, within ten seconds."""
    connection.settimeout(10)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("sent", [b"", b"GET /quick HT", b"GET /quick HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_header_that_does_not_end_ends_the_connection(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(server, "HEADER_TIMEOUT_S", 0.5)
    with serving(APP) as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        assert ends(connection)


def test_a_second_header_that_does_not_end_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_TIMEOUT_S", 0.5)
    with serving(APP) as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"here" in connection.recv(65_536) + connection.recv(65_536)
        connection.sendall(b"GET /qui")
        assert ends(connection)


def test_a_client_that_does_not_read_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_TIMEOUT_S", 0.5)
    with serving(APP) as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(3)  # reads nothing meanwhile
        assert ends(connection)


def test_a_client_that_reads_slowly_but_steadily_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_TIMEOUT_S", 2.0)
    with serving(APP) as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        deadline = time.monotonic() + 4
        received = 0
        while time.monotonic() < deadline:
            received += len(connection.recv(1_000_000))
            time.sleep(0.01)
        assert received > 1_000_000
