"""A port for `/metrics` only: plain HTTP in a thread, for a network of operators."""

import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from telemetry.supervision import supervision

Expose = Callable[[str], tuple[bytes, str]]
"""Function that returns the metrics and their media type, for an Accept header."""
CLIENT_TIMEOUT_S = 10.0


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT_S

    def log_message(self, *_: Any) -> None:
        """Log no line, since scrapes are not requests of users."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        # several processes share the socket: another process may have accepted the connection
        listening.setblocking(False)
        self.socket = listening
        self.server_name, self.server_port = "", listening.getsockname()[1]
        self.setup_environ()

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that disconnect."""


def serve_metrics(listening: Sequence[socket.socket], expose: Expose) -> None:
    """Answer requests for metrics on listening sockets until the process ends."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"].rstrip("/"), environ["REQUEST_METHOD"]
        if path != "/metrics" or method not in ("GET", "HEAD"):
            start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "0")])
            return []
        body, media = expose(environ.get("HTTP_ACCEPT", ""))
        start_response("200 OK", [("Content-Type", media), ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    serve_in_threads(listening, "metrics", answer)


def serve_in_threads(listening: Sequence[socket.socket], name: str, answer: Callable[..., Iterable[bytes]]) -> None:
    """Serve a WSGI application on listening sockets, in threads with a name, until the process ends."""
    for opened in listening:
        server = _Server(opened)
        server.set_app(answer)
        supervision.thread(name, partial(server.serve_forever, 0.5))
