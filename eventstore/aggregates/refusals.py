"""What a supplier's requests were refused for, counted: support can see what importers run into. Pure.

Refused requests leave nothing else behind: no payload, no value, only codes and places.
"""

from datetime import datetime
from typing import assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Instant, State


class RequestsRefused(Event, frozen=True):
    """What one api process has refused in a span of time: counts by code@place, [] for any item of an array."""

    since: Instant
    counts: dict[str, Count]


TOPICS: dict[str, type[Event]] = {"requests_refused.v1": RequestsRefused}


class CountRefusals(Command, frozen=True):
    """Record these counts."""

    since: datetime
    counts: dict[str, int]


class Refusals(State, frozen=True):
    """A state without content: no decision depends on what was refused before."""


def decide(command: CountRefusals, refusals: Refusals, at: datetime) -> RequestsRefused | None:
    """The event that follows; none for no counts."""
    match command:
        case CountRefusals(since=since, counts=counts):
            return RequestsRefused(since=since, counts=counts) if counts else None


def evolve(refusals: Refusals, event: RequestsRefused) -> Refusals:
    """The state after the event."""
    match event:
        case RequestsRefused():
            return refusals
        case _:
            assert_never(event)


def stream_of(supplier: str) -> str:
    return f"refusals/{supplier}"


COMMANDS: dict[type[Event], type[Command]] = {
    RequestsRefused: CountRefusals,
}
"""The command that each event follows from. A replay asks it again."""

REFUSALS = Aggregate("refusals", TOPICS, Refusals(), decide, evolve, COMMANDS)
