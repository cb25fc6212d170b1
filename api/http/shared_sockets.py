"""Taking connections from a socket that several processes share, so that each of them gets its part.

The event loop by itself takes all connections that wait: the process that wakes first had them all, and as importers
keep their connections, one core did the work while the others rested (decision 23).
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress

import structlog
import uvicorn

from api.http.limits import BACKLOG
from system.shared_counts import SharedCounts

PAUSE_S = 0.001
"""For so long a process that has more connections than another leaves the next one to it."""
EXHAUSTED_PAUSE_S = 1.0
"""How long none are taken when the system has no room for another one."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

logger = structlog.get_logger()


class SharingServer(uvicorn.Server):
    """uvicorn's server, which takes its part of the connections of shared sockets, as the counts say."""

    def __init__(self, config: uvicorn.Config, counts: SharedCounts | None) -> None:
        super().__init__(config)
        self._counts = counts
        self._listeners: list[Listener] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([] if sockets else None)
        if sockets and self.started:
            self._listeners = [Listener(one, self._protocol, self._is_ahead) for one in sockets]

    async def on_tick(self, counter: int) -> bool:
        self._is_ahead()  # others see that it lives, and when clients have gone
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._counts is not None:
            self._counts.leave()
        for one in self._listeners:
            await one.stop()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(
            config=self.config,  # type: ignore[call-arg]
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        return made

    def _is_ahead(self, connecting: int = 0) -> bool:
        """Whether another process has fewer connections than this one, which tells how many it has."""
        if self._counts is None:
            return False
        count = len(self.server_state.connections) + connecting
        self._counts.tell(count)
        least = self._counts.least_of_others()
        return least is not None and count > least


class Listener:
    """Takes connections from a listening socket one by one; where it is ahead of others, it lets them go first.

    `is_ahead` is told how many connections are taken, and not made yet.
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
        self._loop.add_reader(listening, self._look)

    async def stop(self) -> None:
        """Take none any more, and return when those that were taken are made: the server knows of all of them then."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._listening)
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _look(self) -> None:
        if self._is_ahead(len(self._connecting)):
            self._pause(self._pause_s)
        else:
            self._take()

    def _pause(self, pause_s: float) -> None:
        self._loop.remove_reader(self._listening)
        self._resuming = self._loop.call_later(pause_s, self._resume)

    def _resume(self) -> None:
        """Take what nobody else has taken meanwhile."""
        self._resuming = None
        self._loop.add_reader(self._listening, self._look)
        self._take()

    def _take(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError as error:  # most often another process was faster, or the client has gone
            if error.errno in _EXHAUSTED:
                logger.warning("no connection can be taken", reason=str(error))
                self._pause(EXHAUSTED_PAUSE_S)
            return
        connecting = self._loop.create_task(self._connected(connection))
        self._connecting.add(connecting)  # the loop itself keeps no task alive
        connecting.add_done_callback(self._connecting.discard)

    async def _connected(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with suppress(OSError):  # it may be gone already
            await self._loop.connect_accepted_socket(self._protocol, connection)
