"""Traces. No spans are recorded until a role installs a recorder with `trace_with`.

The metadata of an event hold the `traceparent` of its request. The span of the worker that completes an import is
linked to the request that has staged it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class RequestSpan:
    """Span of a request. `traceparent` identifies the span in its trace, in W3C's form."""

    traceparent = ""

    def end(self, method: str, route: str | None, status: int | None, request_id: str) -> None:
        """End the span with the answer of the request."""


class Spans:
    """Recorder that makes no spans: for verbs, tests, and roles without traces."""

    is_on = False

    def of_request(self, headers: Sequence[tuple[bytes, bytes]]) -> RequestSpan | None:
        """Return the span of a request with a `traceparent` header; None if the request is not traced."""
        return None

    @contextmanager
    def of_work(self, name: str, traceparents: Sequence[str]) -> Iterator[str]:
        """Record a span for the block, linked to trace contexts. Yields the span's `traceparent`, "" without a span."""
        yield ""

    def close(self) -> None:
        """Send the remaining spans."""


_installed = [Spans()]


def spans() -> Spans:
    """Return the recorder of this process."""
    return _installed[0]


def trace_with(recorder: Spans) -> None:
    """Install the recorder of this process. Entry points call this once."""
    _installed[0] = recorder
