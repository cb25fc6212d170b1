"""Replay: run today's `decide` and `evolve` over a history, and report events that today's code would not have made.

Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from eventstore.aggregates import customer_mail, import_process, owner_task, post_account
from eventstore.aggregates.aggregate import Command, Event
from eventstore.errors import Refused
from eventstore.events import AGGREGATES, Recorded, Unreadable, aggregate_of

_UNKNOWN = -2
"""Version of a stream after an unreadable event. Later events of the stream are not decided again."""
EXHAUSTED = "attempts_exhausted"

_COMMANDS = dict(pair for aggregate in AGGREGATES.values() for pair in aggregate.events.values())


class Divergence(msgspec.Struct, frozen=True):
    """Event that today's code would decide differently; `says` is a sentence about the difference."""

    position: int
    stream: str
    says: str


class Replay:
    """Replay of histories.

    `events` and `streams` are the numbers of replayed events and streams; `partial` counts streams without a beginning.
    """

    def __init__(self) -> None:
        self.events = 0
        self.partial: set[str] = set()
        self._states: dict[str, tuple[int, Any]] = {}

    @property
    def streams(self) -> int:
        return len(self._states)

    def divergences(self, history: Iterable[Recorded]) -> Iterator[Divergence]:
        """Yield each event that would be decided differently. The history is in the order of the log."""
        for recorded in history:
            says = self._replayed(recorded)
            if says:
                yield Divergence(recorded.position, recorded.stream, says)

    def state_of(self, stream: str) -> Any:
        """Return the present state of a stream; None if its beginning is missing or an event is unreadable."""
        return self._states[stream][1] if stream in self._states else None

    def _replayed(self, recorded: Recorded) -> str:
        """Return a sentence on how today's decision differs from an event, or ""."""
        if isinstance(recorded.event, Unreadable):
            self._states[recorded.stream] = (_UNKNOWN, None)
            return f"cannot be read: {recorded.event.error}"
        aggregate = aggregate_of(recorded.stream)
        version, state = self._states.get(recorded.stream, (0, aggregate.initial))
        if recorded.version != version + 1:
            if version == _UNKNOWN:
                return ""
            if version == 0:
                self.partial.add(recorded.stream)
                return ""
            return f"version {recorded.version} follows version {version}"
        self.events += 1
        following = aggregate.evolve(state, recorded.event)
        self._states[recorded.stream] = (recorded.version, following)
        try:
            decided = aggregate.decide(command_of(recorded.event, state), state, recorded.recorded_at)
        except Refused as refusal:
            return f"{type(recorded.event).__name__} would be refused: {refusal}"
        if decided is None:
            return f"{type(recorded.event).__name__} would not follow"
        if aggregate.evolve(state, decided) != following:
            return f"{type(decided).__name__} would follow, with another outcome than {type(recorded.event).__name__}"
        return ""


def command_of(event: Event, state: Any) -> Command:
    """Return the command that led to the event, in a state of its stream."""
    kind = _COMMANDS[type(event)]
    if getattr(event, "code", None) == EXHAUSTED:
        kind = customer_mail.StartMail if isinstance(event, customer_mail.MailFailed) else import_process.StartImport
    fields = {name: getattr(event, name, None) for name in kind.__struct_fields__}  # None decides nothing
    if "start" in fields:  # the event names its attempt, the command its start
        fields["start"] = state.start if event.attempt == state.attempt else None  # type: ignore[attr-defined]
    match event:
        case owner_task.OwnerTaskFinished() | owner_task.OwnerTaskFailed():
            fields["attempt"] = state.attempts
        case post_account.RecordCancellationChanged():
            fields["content_sha256"] = state.content_sha256
        case _ if kind in (import_process.StartImport, customer_mail.StartMail):
            fields["max_attempts"] = event.attempt - getattr(state, "earlier", 0)  # type: ignore[attr-defined]
    return kind(**fields)
