"""Accept connections from a socket that several processes share, so that each gets its share.

An event loop accepts all waiting connections, so the process that wakes first would get all connections. Because
importers keep their connections open, one core would work while the other cores are idle (decision 23).
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import structlog
import uvicorn

from api.http.limits import BACKLOG
from system.shared_counts import SharedCounts
from system.stopping import stop_in_time

PAUSE_S = 0.001
"""Time for which a process leaves the next connection to a process with fewer connections [seconds]."""
EXHAUSTED_PAUSE_S = 1.0
"""Seconds without accepting, when the system has no descriptor or memory for another connection."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

logger = structlog.get_logger()


class SharingServer(uvicorn.Server):
    """uvicorn's server, which accepts its share of the connections of shared sockets."""

    def __init__(self, config: uvicorn.Config, counts: SharedCounts | None) -> None:
        super().__init__(config)
        self._counts = counts
        self._listeners: list[Listener] = []

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            stop_in_time()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([] if sockets else None)
        if sockets and self.started:
            self._listeners = [Listener(listening, self._protocol, self._is_ahead) for listening in sockets]

    async def on_tick(self, counter: int) -> bool:
        self._is_ahead()  # so that other processes see that this process lives, and how many clients are connected
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._counts is not None:
            self._counts.clear()
        for listener in self._listeners:
            await listener.stop()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(
            config=self.config,  # type: ignore[call-arg]
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        return protocol

    def _is_ahead(self, connecting: int = 0) -> bool:
        """Report this process's number of connections. Return True if another process has fewer."""
        if self._counts is None:
            return False
        count = len(self.server_state.connections) + connecting
        self._counts.write(count)
        fewest = self._counts.min_of_others()
        return fewest is not None and count > fewest


class Listener:
    """Accepts connections from a listening socket one by one, and pauses while this process has more connections than
    others.

    `is_ahead` gets the number of connections that are accepted, but not yet set up.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        is_ahead: Callable[[int], bool],
        *,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._protocol = protocol
        self._is_ahead = is_ahead
        self._pause_s = pause_s
        self._resuming: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._loop.add_reader(listening, self._accept)

    async def stop(self) -> None:
        """Stop accepting, and wait until all accepted connections are set up, so that the server can close them."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._listening)
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _accept(self) -> None:
        if self._is_ahead(len(self._connecting)):
            self._pause(self._pause_s)
        else:
            self._accept_now()

    def _pause(self, pause_s: float) -> None:
        self._loop.remove_reader(self._listening)
        self._resuming = self._loop.call_later(pause_s, self._resume)

    def _resume(self) -> None:
        """Accept connections that no other process accepted meanwhile."""
        self._resuming = None
        self._loop.add_reader(self._listening, self._accept)
        self._accept_now()

    def _accept_now(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError as error:  # usually another process was faster, or the client has disconnected
            if error.errno in _EXHAUSTED:
                logger.warning("cannot accept connections", reason=str(error))
                self._pause(EXHAUSTED_PAUSE_S)
            return
        connecting = self._loop.create_task(self._connected(connection))
        self._connecting.add(connecting)  # the loop keeps only a weak reference
        connecting.add_done_callback(self._connecting.discard)

    async def _connected(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with suppress(OSError):  # the client may have disconnected
            await self._loop.connect_accepted_socket(self._protocol, connection)
