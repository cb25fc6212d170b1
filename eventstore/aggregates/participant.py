"""Market participants: imported once, not changed by a second import. Pure.

A participant belongs to the organisation that sent it. The operator's organisation has the name "". The record of a
participant names contact persons, so it is a payload outside of the log. Contacts can be erased; all other fields stay.
"""

from datetime import datetime
from typing import assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Digest, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition


class ParticipantImported(Event, frozen=True):
    """The participant was imported. `payload_sha256` names its record. The platform's rows are dated `imported_at`."""

    payload_sha256: Digest
    imported_at: Instant


class ContactsErased(Event, frozen=True):
    """The record and its key are deleted. `payload_sha256` names the record without contacts."""

    payload_sha256: Digest
    imported_at: Instant
    erased_at: Instant
    reason: str = ""


ParticipantEvent = ParticipantImported | ContactsErased


class ImportParticipant(Command, frozen=True):
    """Store the participant's record, unless a record is stored already."""

    payload_sha256: str


class EraseContacts(Command, frozen=True):
    """Replace the record by a record without contacts."""

    payload_sha256: str
    imported_at: datetime
    reason: str = ""


class Participant(State, frozen=True):
    """State of a participant. `payload_sha256` is empty for an unknown participant."""

    payload_sha256: str = ""
    is_erased: bool = False


def decide(command: Command, participant: Participant, at: datetime) -> ParticipantEvent | None:
    """Return the event that follows; None for a participant that is known or whose contacts were erased.

    Raises IllegalTransition if there is nothing to erase.
    """
    match command:
        case ImportParticipant() if participant.payload_sha256:
            return None
        case ImportParticipant():
            return event_of(ParticipantImported, command, imported_at=at)
        case EraseContacts() if participant.is_erased:
            return None
        case EraseContacts() if participant.payload_sha256:
            return event_of(ContactsErased, command, erased_at=at)
    raise IllegalTransition("unknown", type(command).__name__)


def evolve(participant: Participant, event: ParticipantEvent) -> Participant:
    """Return the state after the event."""
    match event:
        case ParticipantImported(payload_sha256=digest):
            return Participant(payload_sha256=digest)
        case ContactsErased(payload_sha256=digest):
            return Participant(payload_sha256=digest, is_erased=True)
        case _:
            assert_never(event)


def stream_of(organisation: str, code: int) -> str:
    """Return the stream id. Names of organisations contain no slash."""
    return f"participant/{organisation}/{code}"


def identity_of(stream: str) -> tuple[str, int]:
    """Return organisation and code of a participant's stream."""
    _, organisation, code = stream.split("/", 2)
    return organisation, int(code)


EVENTS: Events = {
    "participant_imported.v1": (ParticipantImported, ImportParticipant),
    "contacts_erased.v1": (ContactsErased, EraseContacts),
}
PARTICIPANT = Aggregate("participant", EVENTS, Participant(), decide, evolve, parts=3)
