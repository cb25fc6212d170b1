"""Base of the aggregates. An aggregate is a kind of stream: its events, its state and two pure functions.

`decide(command, state, at)` returns the event that follows, or None when the effect already holds. `decide` raises
`Refused` if the command is not allowed. `evolve(state, event)` returns the next state. A command has at most one event,
so that no append holds two events of one stream.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""Time in an event. An event with a time without zone cannot be read."""
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""SHA-256 of a payload, in hexadecimal."""
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""Number in an event, from 0 to 2³¹ - 1, the limit of an integer column."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of events: facts in the past tense that never change."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Base of states, which `evolve` computes from a stream's events.

    `evolve` returns a new state and never changes one.
    """


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Base of commands: requests in the imperative that may be refused."""


Events = dict[str, tuple[type[Event], type[Command]]]
"""Event classes by topic, their permanent stored name, each with the command that the event follows from.

Events and commands use the same field names, so that a replay can rebuild the command.
"""
E = TypeVar("E", bound=Event)


def event_of(kind: type[E], command: Command, **others: Any) -> E:
    """Return an event of this class with the command's fields of the same names, and the fields `others`."""
    fields = msgspec.structs.asdict(command)
    return kind(**{name: fields[name] for name in kind.__struct_fields__ if name in fields}, **others)


class Aggregate(msgspec.Struct, frozen=True):
    """Kind of stream.

    All stream ids begin with `prefix`. `parts` is the smallest number of parts of a stream id, prefix included. Events
    of `inert` topics do not change the state, so an unreadable event of such a topic does not block the stream.
    """

    prefix: str
    events: Events
    initial: Any
    decide: Callable[[Any, Any, datetime], Event | None]
    evolve: Callable[[Any, Any], Any]
    parts: int = 2
    inert: frozenset[str] = frozenset()

    @property
    def topics(self) -> dict[str, type[Event]]:
        """Event classes by topic."""
        return {topic: event for topic, (event, _) in self.events.items()}
