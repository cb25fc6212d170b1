"""Middleware around every request: its id, its measures, its span, and one line of the log.

A line has method, route, status, duration_ms, request_id and organisation; no path and no value. Lines and measures are
collected for a moment and written together, to save CPU time. The id of a request is the caller's X-Request-Id if this
is a UUID, with or without hyphens; otherwise a new id. The request id is also in the metadata of the events that the
request causes. Events are never erased, so other forms of ids are not accepted: they could contain a person's name,
address or telephone number.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Iterable, MutableMapping
from datetime import UTC, datetime
from itertools import count
from time import perf_counter
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventstore.events import Metadata, origin
from telemetry.measures import measures
from telemetry.spans import spans

REQUEST_ID = "importledger.request_id"
ORGANISATION = "importledger.organisation"
"""Keys in the ASGI scope: the id of the request, and the organisation of its key."""
HEADER = b"x-request-id"
_USABLE = re.compile(rb"(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32})\Z")
"""Accepted ids: UUIDs. Hexadecimal digits of other lengths may be an IBAN or a telephone number."""
_prefix = secrets.token_hex(4)
_numbers = count(1)

GATHER_S = 0.05
"""Seconds for which lines and measures are collected."""


class RequestLine(msgspec.Struct, frozen=True, kw_only=True):
    """Line of the log. `route` is None for an unknown path, `status` if the client left before an answer."""

    event: str = "request"
    level: str = "info"
    timestamp: datetime
    method: str
    route: str | None
    status: int | None
    duration_ms: float
    request_id: str
    organisation: str | None

    def readable(self) -> str:
        """Return the line as text for people."""
        moment = f"{self.timestamp:%Y-%m-%dT%H:%M:%S.%fZ}"
        return (
            f"{moment} {self.method} {self.route or '-'} {self.status or '-'} {self.duration_ms} ms"
            f" {self.request_id} {self.organisation or '-'}"
        )


class RequestLog:
    """ASGI middleware around the whole application, including Starlette's error handling.

    Without `write`, no lines are written. `at_end` is called when the application stops.
    """

    def __init__(
        self,
        app: ASGIApp,
        write: Callable[[list[RequestLine]], None] | None = None,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._at_end = at_end
        self._write = write
        self._lines: list[RequestLine] = []
        self._gathers = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            self._flush()
            self._at_end()
            return
        began, status = perf_counter(), None
        request_id = scope[REQUEST_ID] = request_id_of(scope["headers"])
        field = (HEADER, request_id.encode())
        span = spans().of_request(scope["headers"])
        token = origin.set(Metadata(request_id) if span is None else Metadata(request_id, span.traceparent))

        async def sending(message: Message) -> None:
            nonlocal status
            if status is None and message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), field]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            origin.reset(token)
            took_s, route = perf_counter() - began, route_of(scope)
            measures().answered(scope["method"], route, status, took_s)
            if span is not None:
                span.end(scope["method"], route, status, request_id)
            if self._write is not None:
                self._lines.append(_line_of(scope, route, request_id, status, took_s))
            if not self._gathers:
                self._gathers = True
                asyncio.get_running_loop().call_later(GATHER_S, self._flush)

    def _flush(self) -> None:
        self._gathers = False
        measures().settle()
        lines, self._lines = self._lines, []
        if lines and self._write is not None:
            self._write(lines)


def new_request_id() -> str:
    """Return an id that no other request has."""
    return f"{_prefix}{next(_numbers):08x}"


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the caller's request id from a header with names in lower case, or a new id if it is missing or not
    accepted.
    """
    for name, value in headers:
        if name == HEADER:
            return value.decode() if _USABLE.match(value) else new_request_id()
    return new_request_id()


def route_of(scope: MutableMapping[str, Any]) -> str | None:
    """Return the path of the route with the names of its parameters. Logs show it, since paths may hold secrets."""
    route: str | None = getattr(scope.get("endpoint"), "path", None)
    return route


def _line_of(
    scope: MutableMapping[str, Any], route: str | None, request_id: str, status: int | None, took_s: float
) -> RequestLine:
    return RequestLine(
        timestamp=datetime.now(UTC),
        method=scope["method"],
        route=route,
        status=status,
        duration_ms=round(took_s * 1000, 1),
        request_id=request_id,
        organisation=scope.get(ORGANISATION),
    )
