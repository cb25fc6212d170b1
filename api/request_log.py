"""One line for each request: method, route, status, duration_ms, request_id, organisation. No path and no value.

Lines gather for a moment and are written together: on the hot path a line costs some microseconds.
"""

import asyncio
import secrets
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from itertools import count
from time import perf_counter
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_ID = "importledger.request_id"
ORGANISATION = "importledger.organisation"
"""Keys in the ASGI scope: what the request is called, and whose key it came with."""

GATHER_S = 0.05


class RequestLine(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of a request. No route: nothing is there; no status: the client went away before an answer."""

    event: str = "request"
    level: str = "info"
    timestamp: datetime
    method: str
    route: str | None
    status: int | None
    duration_ms: float
    request_id: str
    organisation: str | None


class RequestLog:
    """ASGI middleware around everything, the framework's own error handling included."""

    def __init__(self, app: ASGIApp, write: Callable[[list[RequestLine]], None]) -> None:
        self._app = app
        self._write = write
        self._lines: list[RequestLine] = []
        self._prefix = secrets.token_hex(4)
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            self._flush()
            return
        began, status = perf_counter(), None
        request_id = scope[REQUEST_ID] = f"{self._prefix}{next(self._numbers):08x}"

        async def sending(message: Message) -> None:
            nonlocal status
            if status is None and message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._add(_line_of(scope, request_id, status, perf_counter() - began))

    def _add(self, line: RequestLine) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_later(GATHER_S, self._flush)
        self._lines.append(line)

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._write(lines)


def _line_of(scope: MutableMapping[str, Any], request_id: str, status: int | None, took_s: float) -> RequestLine:
    return RequestLine(
        timestamp=datetime.now(UTC),
        method=scope["method"],
        route=getattr(scope.get("endpoint"), "path", None),
        status=status,
        duration_ms=round(took_s * 1000, 1),
        request_id=request_id,
        organisation=scope.get(ORGANISATION),
    )
