"""The market participant: imported once, and never changed by importing it again. Pure.

The record itself, which names people to contact, is a payload beside the log.
"""

from datetime import datetime
from typing import assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Digest, Event, Instant, State


class ParticipantImported(Event, frozen=True):
    """The participant is known; `payload_sha256` names its record. Its rows are dated `imported_at`."""

    payload_sha256: Digest
    imported_at: Instant


TOPICS: dict[str, type[Event]] = {"participant_imported.v1": ParticipantImported}


class ImportParticipant(Command, frozen=True):
    """Keep the participant's record, unless there is one."""

    payload_sha256: str


class Participant(State, frozen=True):
    """`payload_sha256` is "" for a participant that is not known."""

    payload_sha256: str = ""


def decide(command: ImportParticipant, participant: Participant, at: datetime) -> ParticipantImported | None:
    """The event that follows; none for a participant that is known, whatever the command says."""
    match command:
        case ImportParticipant() if participant.payload_sha256:
            return None
        case ImportParticipant(payload_sha256=digest):
            return ParticipantImported(payload_sha256=digest, imported_at=at)


def evolve(participant: Participant, event: ParticipantImported) -> Participant:
    """The state after the event."""
    match event:
        case ParticipantImported(payload_sha256=digest):
            return Participant(payload_sha256=digest)
        case _:
            assert_never(event)


def stream_of(code: int) -> str:
    return f"participant/{code}"


COMMANDS: dict[type[Event], type[Command]] = {
    ParticipantImported: ImportParticipant,
}
"""The command that each event follows from. A replay asks it again."""

PARTICIPANT = Aggregate("participant", TOPICS, Participant(), decide, evolve, COMMANDS)
