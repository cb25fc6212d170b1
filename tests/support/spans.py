"""A receiver of spans: OTLP over HTTP on loopback, as collectors speak it."""

import gzip
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Received:
    """The spans that have arrived, and with what resource."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[tuple[dict[str, str], Any]] = []

    def named(self, name: str) -> list[Any]:
        return [span for _, span in self.spans if span.name == name]


@contextmanager
def receiver() -> Iterator[Received]:
    received = Received()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                attributes = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
                for scope in resource.scope_spans:
                    received.spans += [(attributes, span) for span in scope.spans]
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    received.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
