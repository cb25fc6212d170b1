"""What a supplier's requests were refused for, counted: support can see what importers run into. Pure.

Refused requests leave nothing else behind: no payload, no value, only codes and places. A stream is a batch of counts
and takes one event, so that a batch that is appended twice counts once.
"""

from datetime import datetime
from typing import assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Events, Instant, State, event_of


class RequestsRefused(Event, frozen=True):
    """What one api process has refused in a span of time: counts by code@place, [] for any item of an array."""

    since: Instant
    counts: dict[str, Count]


class CountRefusals(Command, frozen=True):
    """Record these counts."""

    since: datetime
    counts: dict[str, int]


class Refusals(State, frozen=True):
    """State of a batch: in the log or not yet."""

    is_counted: bool = False


def decide(command: CountRefusals, refusals: Refusals, at: datetime) -> RequestsRefused | None:
    """The event that follows; none for no counts, and none for a batch that is in the log."""
    match command:
        case CountRefusals(counts=counts):
            return event_of(RequestsRefused, command) if counts and not refusals.is_counted else None


def evolve(refusals: Refusals, event: RequestsRefused) -> Refusals:
    """The state after the event."""
    match event:
        case RequestsRefused():
            return Refusals(is_counted=True)
        case _:
            assert_never(event)


def stream_of(supplier: str, batch: str) -> str:
    return f"refusals/{supplier}/{batch}"


EVENTS: Events = {
    "requests_refused.v1": (RequestsRefused, CountRefusals),
}
REFUSALS = Aggregate("refusals", EVENTS, Refusals(), decide, evolve)
