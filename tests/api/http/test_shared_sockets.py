"""Processes that share a socket share its connections: none accepts all that wait."""

import asyncio
import contextlib
import errno
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.http import server, shared_sockets
from api.http.shared_sockets import PAUSE_S, Listener, SharingServer
from system.shared_counts import SharedCounts, counts_file
from tests.support.serving import started

Seen = TypeVar("Seen")


@contextlib.contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.socket() as shared:
        shared.bind(("127.0.0.1", 0))
        shared.listen(128)
        yield shared


@contextlib.contextmanager
def connected(shared: socket.socket, count: int) -> Iterator[list[socket.socket]]:
    """Clients whose connections wait to be accepted."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(shared.getsockname())) for _ in range(count)]


class Taken(asyncio.Protocol):
    """One of the connections that a listener has taken."""

    def __init__(self, transports: list[Any]) -> None:
        self._transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transports.append(transport)


Look = Callable[[list[Any]], Awaitable[Seen]]


def taking(
    shared: Any, look: Look[Seen], *, is_ahead: Callable[[int], bool] = lambda count: False, pause_s: float = PAUSE_S
) -> Seen:
    """Return what `look` returns about the connections that a listener accepts. They are closed afterwards.

    `is_ahead` gets the number of connections, and returns whether that is more than others have.
    """

    async def scene() -> Seen:
        transports: list[Any] = []
        listener = Listener(
            shared,
            lambda: Taken(transports),
            lambda connecting: is_ahead(len(transports) + connecting),
            pause_s=pause_s,
        )
        try:
            async with asyncio.timeout(30):
                return await look(transports)
        finally:
            await listener.stop()
            for transport in transports:
                transport.abort()
            await asyncio.sleep(0)

    return uvloop.run(scene())


async def some(transports: list[Any], count: int = 1) -> int:
    """Wait until so many are accepted. Return their number."""
    while len(transports) < count:
        await asyncio.sleep(0.001)
    return len(transports)


def test_the_next_connection_is_left_to_a_process_that_has_fewer() -> None:
    async def look(transports: list[Any]) -> int:
        for _ in range(50):
            await asyncio.sleep(0)
        return len(transports)

    with listening() as shared, connected(shared, 5):
        taken = taking(shared, look, is_ahead=lambda count: count >= 2, pause_s=3600)
        assert 1 <= taken <= 2  # one that is being made counts twice for a moment
        for _ in range(5 - taken):
            shared.accept()[0].close()


def test_what_the_others_do_not_take_in_time_is_taken() -> None:
    with listening() as shared, connected(shared, 7):
        assert taking(shared, lambda transports: some(transports, 7), is_ahead=lambda count: True) == 7


class Exhausted:
    """A socket that cannot give a connection the first time it is asked."""

    def __init__(self, shared: socket.socket) -> None:
        self._shared = shared
        self.refusals = 0

    def accept(self) -> tuple[socket.socket, Any]:
        if not self.refusals:
            self.refusals += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._shared.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)


def test_a_process_without_room_for_a_connection_goes_on_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_sockets, "EXHAUSTED_PAUSE_S", 0.02)
    with listening() as shared, connected(shared, 1):
        exhausted = Exhausted(shared)
        assert taking(exhausted, some) == 1
        assert exhausted.refusals == 1


def test_servers_on_one_socket_each_answer_a_part_of_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    patient = partial(Listener, pause_s=0.05)  # a thread here may get no CPU for a while
    monkeypatch.setattr(shared_sockets, "Listener", patient)

    def app(name: bytes) -> Starlette:
        async def who(request: Request) -> Response:
            return Response(name)

        return Starlette(routes=[Route("/", who)])

    with listening() as shared, contextlib.ExitStack() as stack:
        file = stack.enter_context(counts_file(2))
        for place, name in enumerate((b"first", b"other")):
            counts = SharedCounts(file.fileno(), place)
            sharing = SharingServer(server.configuration(app(name), host="", port=0), counts)
            stack.enter_context(started(sharing, shared.dup()))
        answered: Counter[bytes] = Counter()
        with connected(shared, 64) as clients:
            for client in clients:
                client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for client in clients:
                answered[client.recv(4096)[-5:]] += 1
        assert answered.total() == 64
        assert min(answered.values()) >= 24
