"""What an aggregate is: a kind of stream, with its events, its state, and two pure functions.

`decide(command, state, at)` gives the event that follows, or none when the effect already holds; it raises
`Refused` when the command is not allowed. `evolve(state, event)` gives the next state. One command gives one
event at most, so that one append never meets a stream twice.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact, past tense, never changed."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the events of a stream add up to; made anew by `evolve`, never changed."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request, imperative; may be refused."""


class Aggregate(msgspec.Struct, frozen=True):
    """A kind of stream.

    `prefix` begins the stream ids, `topics` maps permanent stored names to event classes, and `commands` an event to
    the command that it follows from: they name their fields alike, so that a replay can ask again.
    """

    prefix: str
    topics: dict[str, type[Event]]
    initial: Any
    decide: Callable[[Any, Any, datetime], Event | None]
    evolve: Callable[[Any, Any], Any]
    commands: dict[type[Event], type[Command]]
