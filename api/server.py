"""The HTTP server: uvicorn, and patience that ends. A client that sends or reads too slowly loses its connection."""

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_TIMEOUT_S = 15.0
"""For the header of a request, from the connection or from the header's first byte."""
READ_TIMEOUT_S = 30.0
"""For the client to take what it has been sent, once the connection's buffer is full."""
KEEP_ALIVE_S = 75
MAX_CONNECTIONS = 4_000
BACKLOG = 2048


class ImpatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which would wait for ever for a header that never ends, and for a client that never reads."""

    _header_timer: asyncio.TimerHandle | None = None
    _reading_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_header()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_header()

    def on_headers_complete(self) -> None:
        self._stop_expecting()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_timer = self.loop.call_later(READ_TIMEOUT_S, self._lose_patience)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_header(self) -> None:
        self._stop_expecting()
        self._header_timer = self.loop.call_later(HEADER_TIMEOUT_S, self._lose_patience)

    def _stop_expecting(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_waiting(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def _lose_patience(self) -> None:
        self.transport.abort()


def serve(app: ASGIApp, *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; what is being answered is answered first."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=ImpatientProtocol,
        loop="uvloop",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=8,
        limit_concurrency=MAX_CONNECTIONS,
        backlog=BACKLOG,
    )
    uvicorn.Server(config).run()
