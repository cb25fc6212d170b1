"""Spans by OpenTelemetry, exported as its standard variables say (OTEL_EXPORTER_OTLP_ENDPOINT and others).

A request with a sampled `traceparent` is traced. Every hundredth request without `traceparent` begins a trace, unless
OTEL_TRACES_SAMPLER is set. Requests without a trace take almost no time for tracing.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from telemetry.spans import RequestSpan, Spans

SHARE_OF_ROOTS = 0.01
MAX_LINKS = 512
"""Links of a span. A worker's batch has fewer imports, each of which may belong to another trace."""

_CARRIED = (b"traceparent", b"tracestate")
_propagator = TraceContextTextMapPropagator()


class _Request(RequestSpan):
    def __init__(self, span: Span) -> None:
        self._span = span
        self.traceparent = traceparent_of(span)

    def end(self, method: str, route: str | None, status: int | None, request_id: str) -> None:
        """End the span with the request's route and id, but without path and values."""
        span = self._span
        span.update_name(f"{method} {route}" if route else method)
        span.set_attribute("http.request.method", method)
        span.set_attribute("importledger.request_id", request_id)
        if route:
            span.set_attribute("http.route", route)
        if status:
            span.set_attribute("http.response.status_code", status)
        if status is None or status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()


class OpenTelemetry(Spans):
    """Collects spans and sends them in the background."""

    is_on = True

    def __init__(self, exporter: SpanExporter, attributes: Mapping[str, str], *, has_own_sampler: bool = False) -> None:
        self._has_own_sampler = has_own_sampler
        self._provider = TracerProvider(
            sampler=None if has_own_sampler else ParentBased(ALWAYS_ON),  # None: read from the environment
            resource=Resource.create(dict(attributes)),
            span_limits=SpanLimits(max_links=MAX_LINKS),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("importledger")

    def of_request(self, headers: Sequence[tuple[bytes, bytes]]) -> RequestSpan | None:
        """Return the span of a request; None if the caller, chance or the sampler decides against a trace."""
        context = None
        for name, _ in headers:
            if name == b"traceparent":
                carrier = {
                    field.decode("latin-1"): value.decode("latin-1") for field, value in headers if field in _CARRIED
                }
                context = _propagator.extract(carrier, Context())
                break
        is_root = context is None or not get_current_span(context).get_span_context().is_valid
        if is_root and not self._has_own_sampler and random.random() >= SHARE_OF_ROOTS:
            return None
        span = self._tracer.start_span("request", context or Context(), SpanKind.SERVER)
        return _Request(span) if span.is_recording() else None

    @contextmanager
    def of_work(self, name: str, traceparents: Sequence[str]) -> Iterator[str]:
        """Make a span only if a part of the work was traced before."""
        contexts = [
            get_current_span(_propagator.extract({"traceparent": traceparent}, Context())).get_span_context()
            for traceparent in dict.fromkeys(traceparents)
        ]
        links = [Link(context) for context in contexts if context.is_valid]
        if not links:
            yield ""
            return
        with self._tracer.start_as_current_span(name, Context(), SpanKind.CONSUMER, links=links) as span:
            yield traceparent_of(span) if span.is_recording() else ""

    def close(self) -> None:
        self._provider.shutdown()


def traceparent_of(span: Span) -> str:
    """Return a span's place in its trace in W3C's form."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def exporter_of(kind: Literal["otlp", "console"]) -> SpanExporter:
    """Return an exporter that sends OTLP over HTTP, or prints."""
    return (
        OTLPSpanExporter()
        if kind == "otlp"
        else ConsoleSpanExporter(formatter=lambda span: f"{span.to_json(indent=None)}\n")
    )
