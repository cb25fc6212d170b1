"""Traces, and who keeps them: nobody, until a role says that it is traced.

A request's span is known to the events that it causes (their metadata hold its `traceparent`), and the span of the
worker that brings an import to its end is linked to the one that has staged it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class RequestSpan:
    """The span of one request; `traceparent` is its place in the trace, as W3C writes it."""

    traceparent = ""

    def end(self, method: str, route: str | None, status: int | None, request_id: str) -> None:
        """The request was answered."""


class Spans:
    """Makes no span: for verbs, tests, and roles that are not traced."""

    is_on = False

    def of_request(self, headers: Sequence[tuple[bytes, bytes]]) -> RequestSpan | None:
        """The span of a request with this header; None for one that is not traced."""
        return None

    @contextmanager
    def of_work(self, name: str, traceparents: Sequence[str]) -> Iterator[str]:
        """A span around a piece of work that is linked to these; gives its `traceparent`, "" where there is none."""
        yield ""

    def close(self) -> None:
        """Send what has not been sent."""


_keeping = [Spans()]


def spans() -> Spans:
    """Who keeps them now."""
    return _keeping[0]


def trace_with(keeper: Spans) -> None:
    """From now on, this one keeps them. For entry points, once."""
    _keeping[0] = keeper
