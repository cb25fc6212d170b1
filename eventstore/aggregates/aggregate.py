"""What an aggregate is: a kind of stream, with its events, its state, and two pure functions.

`decide(command, state, at)` gives the event that follows, or none when the effect already holds; it raises
`Refused` when the command is not allowed. `evolve(state, event)` gives the next state. One command gives one
event at most, so that one append never meets a stream twice.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time in an event. An event that stores one without a zone cannot be read."""
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""A SHA-256 in hexadecimal that names a payload."""
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""A number in an event, which fits a column of a view."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact, past tense, never changed."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the events of a stream add up to; made anew by `evolve`, never changed."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request, imperative; may be refused."""


Events = dict[str, tuple[type[Event], type[Command]]]
"""Event classes by their permanent stored names (topics), each with the command that the event follows from.

Both name their fields alike, so that a replay can ask again.
"""
E = TypeVar("E", bound=Event)


def event_of(kind: type[E], command: Command, **others: Any) -> E:
    """Event with the fields of the command that it has as well, and with the others."""
    fields = msgspec.structs.asdict(command)
    return kind(**{name: fields[name] for name in kind.__struct_fields__ if name in fields}, **others)


class Aggregate(msgspec.Struct, frozen=True):
    """A kind of stream.

    `prefix` begins the stream ids. `parts` is the least number of parts of a stream id, the prefix included. Events of
    `inert` topics leave the state as it is: one that cannot be read does not keep others from being appended.
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
