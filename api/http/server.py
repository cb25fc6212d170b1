"""The HTTP server: uvicorn with time-outs, and with limits before the parser reads a request.

A connection can neither fill the memory nor delay other connections. Its request line, header and data sent ahead are
limited (`api/http/limits.py`), and a client that sends or reads too slowly loses its connection. The class depends on
internals of uvicorn: `pyproject.toml` pins its version, and `tests/api/http/test_server.py` tests each limit.
"""

import asyncio
import http
import os
import re
import socket
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.http.joined_writes import JoinedWrites
from api.http.languages import JSON, Language, language_headers, preferred
from api.http.limits import (
    BACKLOG,
    BODY_TIMEOUT_S,
    HEADER_TIMEOUT_S,
    KEEP_ALIVE_S,
    LINGER_S,
    MAX_BUFFERED_BYTES,
    MAX_CONNECTIONS,
    MAX_DISCARDED_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADER_FIELDS,
    MAX_PIECES,
    MAX_PIPELINED,
    MAX_REQUEST_LINE_BYTES,
    MIN_PIECE_BYTES,
    PIECES_PER_S,
    READ_TIMEOUT_S,
    STOPPING_S,
)
from api.http.request_log import HEADER, new_request_id
from api.http.responses import WHOLE_BODY
from api.http.shared_sockets import SharingServer
from api.http.status_codes import CODES
from api.http.stopping import GONE, STATE
from schemas.sentence import Sentence
from system.shared_counts import SharedCounts
from telemetry.measures import measures

_ACCEPT_LANGUAGE = re.compile(rb"\r\naccept-language:([^\r\n]{0,200})", re.IGNORECASE)
_NO_HTTP = Sentence(
    "The request must be valid HTTP/1.1 or HTTP/1.0.", "Die Anfrage muss gültiges HTTP/1.1 oder HTTP/1.0 sein."
)
_LONG_LINE = Sentence(
    f"A request line must have at most {MAX_REQUEST_LINE_BYTES} bytes.",
    f"Eine Anfragezeile darf höchstens {MAX_REQUEST_LINE_BYTES} Bytes haben.",
)
_LARGE_HEADER = Sentence(
    f"A header must have at most {MAX_HEADER_FIELDS} fields and {MAX_HEADER_BYTES} bytes, all before the body.",
    f"Ein Header darf höchstens {MAX_HEADER_FIELDS} Felder und {MAX_HEADER_BYTES} Bytes haben, alle vor dem Inhalt.",
)
_LATE_FIELDS = Sentence("Fields must not follow the body.", "Felder dürfen nicht auf den Inhalt folgen.")
_PIPELINED = Sentence(
    f"At most {MAX_PIPELINED} requests must be sent ahead of their answers.",
    f"Höchstens {MAX_PIPELINED} Anfragen dürfen vor ihren Antworten gesendet werden.",
)
_SMALL_PIECES = Sentence(
    "The body must be sent in larger pieces.", "Der Inhalt muss in größeren Stücken gesendet werden."
)
_NO_VERSION = Sentence("The version must be HTTP/1.1 or HTTP/1.0.", "Die Version muss HTTP/1.1 oder HTTP/1.0 sein.")
_NO_TUNNEL = Sentence("The method must not be CONNECT.", "Die Methode darf nicht CONNECT sein.")
_ONE_HOST = Sentence(
    "A request must have one valid Host header.", "Eine Anfrage muss genau einen gültigen Host-Header haben."
)
_ONLY_CHUNKED = Sentence(
    "Transfer-Encoding must be chunked, and must not be sent with HTTP/1.0.",
    "Transfer-Encoding muss chunked sein und darf nicht mit HTTP/1.0 gesendet werden.",
)
_NO_CHUNKED_ANSWER = Sentence("TE must not name chunked.", "TE darf chunked nicht nennen.")
SINGLE = frozenset(
    {
        *(b"authorization", b"content-encoding", b"content-type", b"cookie", b"idempotency-key", b"last-event-id"),
        *(b"origin", b"sec-fetch-site", b"traceparent", b"x-forwarded-proto", b"x-request-id"),
    }
)
"""Fields of the header that decide who sends a request and how its body is read, in lower case.

A request with two of such fields of the same name is refused: a proxy could have used the first field and this server
the second.
"""
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
"""Header fields that determine the end of a body."""
_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]* *")
"""Characters of a host and a port (RFC 3986). An empty host is allowed: the request is for no host in particular."""
_UNKNOWN_LENGTH = 2**62
_LINE_ENDS = len(" " + " HTTP/1.1")
_FIELD_ENDS = len(": \r\n")


class _ParsingStopped(Exception):
    """Raised to stop the parsing of a refused request, after the refusal was written."""


def _fault_of(version: str, method: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Sentence | None:
    """Return the reason to refuse a head that proxies and this server could read differently; else None."""
    if version not in ("1.0", "1.1"):
        return _NO_VERSION
    if method == b"CONNECT":
        return _NO_TUNNEL
    hosts = 0
    singles = set()
    for name, value in fields:
        if name in SINGLE:
            if name in singles:
                return Sentence(
                    f"A request must not have two header fields {name.decode()}.",
                    f"Eine Anfrage darf das Header-Feld {name.decode()} nicht zweimal haben.",
                )
            singles.add(name)
        elif name == b"host":
            hosts += 1
            if not _HOST.fullmatch(value):
                return _ONE_HOST
        elif name == b"transfer-encoding":
            if version == "1.0" or value.strip().lower() != b"chunked":
                return _ONLY_CHUNKED
        elif name == b"te" and b"chunked" in value.lower():
            return _NO_CHUNKED_ANSWER
    return _ONE_HOST if hosts > 1 or (not hosts and version == "1.1") else None


class _EndingCycle(RequestResponseCycle):
    """An answer to HTTP/1.0, without chunks and 100 Continue. An answer without length ends with its connection."""

    async def receive(self) -> ASGIReceiveEvent:
        self.waiting_for_100_continue = False
        return await super().receive()

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            if all(name.lower() != b"content-length" for name, _ in message.get("headers", ())):
                self.chunked_encoding, self.expected_content_length = False, _UNKNOWN_LENGTH
        elif message["type"] == "http.response.body" and self.expected_content_length >= _UNKNOWN_LENGTH:
            length = len(message.get("body", b""))
            self.expected_content_length = length + (_UNKNOWN_LENGTH if message.get("more_body") else 0)
        await super().send(message)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. Without them, uvicorn accepts any header, and waits forever for its end."""

    _is_in_header = False
    _is_in_body = False
    _is_refused = False
    _is_head_repeated = False
    """True while the parser reads the head of an upgrade again. Its callbacks are skipped until the head's end."""
    _line_bytes = 0
    _header_bytes = 0
    _buffered_bytes = 0
    """Bytes since the parser's last callback. The parser buffers an unfinished field without a callback."""
    _piece = b""
    """Bytes that are being parsed. If a request is refused early, they contain its unread header."""
    _pieces = 0
    _body_bytes = 0
    _body_began = 0.0
    """Time at which the timer of a body in several pieces was started."""
    _discarded_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._start("header", HEADER_TIMEOUT_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._discard(len(data))
            return
        self._piece = data
        self._buffered_bytes += len(data)
        try:
            self._feed(data)
            if self._buffered_bytes > MAX_BUFFERED_BYTES:
                self._refuse_header()
        except (httptools.HttpParserError, _ParsingStopped):
            if not self._is_refused:
                self._answer(400, _NO_HTTP, "parse_error")
        if self._is_in_header and "header" not in self._timers and not self._is_refused:
            self._start(
                "header", HEADER_TIMEOUT_S, self.transport.abort
            )  # most headers arrive in one piece, and need no timer
        if self._is_in_body and "body" not in self._timers:
            self._body_began = self.loop.time()
            self._start("body", BODY_TIMEOUT_S, self._cut_late_body)
        self._piece = b""

    def _feed(self, data: bytes) -> None:
        """Parse these bytes, and ignore every upgrade, as RFC 9110 section 7.8 allows.

        The parser ends such a request with its head. To read the body, a new parser reads that head again without the
        upgrade. The first parser would skip everything after the head of a connection that is to close.
        """
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            head = self._head_without_upgrade()
            self._is_head_repeated = True
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(head)

    def _head_without_upgrade(self) -> bytes:
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] in _FRAMING]
        if not self.cycle.keep_alive:
            fields.append(b"connection: close\r\n")
        return b"%b / HTTP/1.1\r\n%b\r\n" % (self.parser.get_method(), b"".join(fields))

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._is_head_repeated:
            return
        super().on_message_begin()
        self._is_in_header = True
        self._line_bytes = self._header_bytes = self._pieces = self._body_bytes = self._discarded_bytes = 0
        self._stop("header")
        self._unset_keepalive_if_required()  # but not on blank lines between two requests

    def on_url(self, url: bytes) -> None:
        if self._is_head_repeated:
            return
        self._buffered_bytes = 0
        self._line_bytes += len(url)
        if self._line_bytes + len(self.parser.get_method()) + _LINE_ENDS > MAX_REQUEST_LINE_BYTES:
            self._refuse(414, _LONG_LINE, CODES[414])
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._buffered_bytes = 0
        if not self._is_in_header:
            if self._is_head_repeated:
                return
            self._refuse(400, _LATE_FIELDS, "parse_error")
        self._header_bytes += len(name) + len(value) + _FIELD_ENDS
        if self._header_bytes > MAX_HEADER_BYTES or len(self.headers) >= MAX_HEADER_FIELDS:
            self._refuse_header()
        HttpToolsProtocol.on_header(
            self, name, value
        )  # `super()` would cost more than the method itself, for each field

    def on_headers_complete(self) -> None:
        if self._is_head_repeated:
            self._is_head_repeated = False
            return
        self._buffered_bytes = 0
        if (fault := _fault_of(self.parser.get_http_version(), self.parser.get_method(), self.headers)) is not None:
            self._refuse(400, fault, "parse_error")
        self._is_in_header, self._is_in_body = False, True
        self._stop("header")
        self._unset_keepalive_if_required()  # the previous answer may have ended since the head began
        if len(self.pipeline) >= MAX_PIPELINED:
            self._refuse(503, _PIPELINED, CODES[503])
        self.scope[GONE] = self.transport.is_closing  # type: ignore[literal-required]
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0":
            self.cycle.__class__ = _EndingCycle  # the method above has made the cycle, but not started it

    def on_body(self, body: bytes) -> None:
        self._buffered_bytes = 0
        self._pieces += 1
        self._body_bytes += len(body)
        if self._pieces > MAX_PIECES and self._body_bytes < self._pieces * MIN_PIECE_BYTES:
            self._refuse_small_pieces()
        cycle = self.cycle
        if cycle.response_complete:
            self._discard(len(body))
            return
        so_far: bytes | bytearray = cycle.body
        if not so_far:
            cycle.body = b""  # type: ignore[assignment]  # a body in one piece is not copied
        elif isinstance(so_far, bytes):
            cycle.body = bytearray(so_far)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # the body follows, see `_feed`
        self._buffered_bytes = 0
        self._is_in_body = False
        self._stop("body")
        self.scope[WHOLE_BODY] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.cycle.response_complete and self.cycle.body:  # `cycle` may be the next request's
            self.cycle.body = bytearray()  # free the memory: the connection may stay open
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if its client has not read the last answer."""
        self._start("closing", READ_TIMEOUT_S, self.transport.abort)  # `resume_writing` must not stop this timer
        super().timeout_keep_alive_handler()

    # Callbacks of the transport.

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("reading", READ_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("reading")

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in list(self._timers):
            self._stop(timer)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    # Calls of the server.

    def shutdown(self) -> None:
        """End endless answers, and cut off clients that do not read. Called when the server stops."""
        if (stopping := self.app_state.get(STATE)) is not None:
            stopping.set()
        for timer in self._timers.keys() & {"reading", "closing"}:
            self._start(timer, STOPPING_S, self.transport.abort)
        super().shutdown()

    # Refusals.

    def _refuse_header(self) -> NoReturn:
        self._refuse(431, _LARGE_HEADER, CODES[431])

    def _refuse_small_pieces(self) -> None:
        """Refuse a body whose small pieces arrive too fast.

        A client that sends each line separately sends few lines per second.
        """
        took_s = self.loop.time() - self._body_began if "body" in self._timers else 0.0
        if self._pieces > MAX_PIECES + PIECES_PER_S * took_s:
            self._refuse(400, _SMALL_PIECES, "parse_error")

    def _refuse(self, status: int, detail: Sentence, code: str) -> NoReturn:
        self._answer(status, detail, code)
        raise _ParsingStopped

    def _answer(self, status: int, detail: Sentence, code: str) -> None:
        """Send the refusal, discard further data, and close the connection after LINGER_S.

        If earlier requests still wait for their answers, they are answered, and the connection closes without a
        refusal. If the refused request was already answered, the connection closes at once.
        """
        self._is_refused = True
        self._stop("header")
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if self._is_in_header or self.pipeline or cycle.response_started:
                cycle.keep_alive = False
                return
            cycle.disconnected = True  # the body of this request is refused
            cycle.message_event.set()
        elif self._is_in_body:  # the request was answered already
            self.transport.close()
            return
        measures().answered("other", None, status, 0.0)
        measures().refused(code)
        language = self._language()
        body = JSON[language].encode({"detail": detail, "code": code})
        head = f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        head += "".join(f"{name.lower()}: {value}\r\n" for name, value in language_headers(language).items())
        head += f"{HEADER.decode()}: {new_request_id()}\r\n"  # the caller's id may not have been read
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.flow.resume_reading()
        self.loop.call_later(LINGER_S, self.transport.close)

    def _language(self) -> Language:
        """Return the language that the client prefers. The default if `Accept-Language` has not arrived yet."""
        fields = [value for name, value in self.headers or () if name.lower() == b"accept-language"]
        if not fields and (match := _ACCEPT_LANGUAGE.search(self._piece)):
            fields = [match[1]]
        return preferred(",".join(field.decode("latin-1") for field in fields))

    def _discard(self, count: int) -> None:
        """Discard bytes after an answer. A client that is cut off while it sends cannot read the answer."""
        self._discarded_bytes += count
        if self._discarded_bytes > MAX_DISCARDED_BYTES and not self.transport.is_closing():
            self.transport.abort()

    # Timers.

    def _start(self, timer: str, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` after this time, unless the timer is stopped or started again before."""
        self._stop(timer)
        self._timers[timer] = self.loop.call_later(seconds, callback)

    def _stop(self, timer: str) -> None:
        if (handle := self._timers.pop(timer, None)) is not None:
            handle.cancel()

    def _cut_late_body(self) -> None:
        """Cut off a body that still arrives after its answer. Before the answer, the handler limits the time."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
        else:
            self._start("body", BODY_TIMEOUT_S, self._cut_late_body)


SANDBOX_HEADERS = (("Importledger-Sandbox", "true"),)


def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    fds: Sequence[int] = (),
    counts: SharedCounts | None = None,
    headers: Sequence[tuple[str, str]] = (),
) -> None:
    """Serve until SIGTERM or SIGINT, and then for up to 8 s to answer current requests. Every answer has the headers.

    `fds` are listening sockets that this process shares with others, instead of host and port. The processes that
    report their `counts` share the connections of these sockets evenly.
    """
    for fd in fds:
        os.set_inheritable(fd, False)  # child processes must not hold the port
    config = configuration(app, host=host, port=port, headers=headers)
    SharingServer(config, counts).run([socket.socket(fileno=fd) for fd in fds] or None)


def configuration(app: ASGIApp, *, host: str, port: int, headers: Sequence[tuple[str, str]] = ()) -> uvicorn.Config:
    """Return the server's configuration: our protocol, and the limits that uvicorn keeps itself."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=GuardedProtocol,
        ws="none",
        loop="uvloop",
        lifespan="on",
        access_log=False,
        server_header=False,
        headers=[*headers],
        proxy_headers=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=8,
        limit_concurrency=MAX_CONNECTIONS,
        backlog=BACKLOG,
    )
