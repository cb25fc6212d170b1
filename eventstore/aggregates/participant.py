"""The market participant: imported once, and never changed by importing it again. Pure.

It belongs to the organisation that sent it, or to the operator of the service, whose organisation is "". The record
itself, which names people to contact, is a payload beside the log. Their contacts can be erased; the rest stays.
"""

from datetime import datetime
from typing import assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Digest, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition


class ParticipantImported(Event, frozen=True):
    """The participant is known; `payload_sha256` names its record. Its rows are dated `imported_at`."""

    payload_sha256: Digest
    imported_at: Instant


class ContactsErased(Event, frozen=True):
    """The record was thrown away with its key; `payload_sha256` names the rest of it, without contacts."""

    payload_sha256: Digest
    imported_at: Instant
    erased_at: Instant
    reason: str = ""


ParticipantEvent = ParticipantImported | ContactsErased


class ImportParticipant(Command, frozen=True):
    """Keep the participant's record, unless there is one."""

    payload_sha256: str


class EraseContacts(Command, frozen=True):
    """Replace the record with one that has no contacts."""

    payload_sha256: str
    imported_at: datetime
    reason: str = ""


class Participant(State, frozen=True):
    """`payload_sha256` is "" for a participant that is not known."""

    payload_sha256: str = ""
    is_erased: bool = False


def decide(command: Command, participant: Participant, at: datetime) -> ParticipantEvent | None:
    """The event that follows; none for a participant that is known, and for one whose contacts were erased.

    Raises IllegalTransition where there is nothing to erase.
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
    """The state after the event."""
    match event:
        case ParticipantImported(payload_sha256=digest):
            return Participant(payload_sha256=digest)
        case ContactsErased(payload_sha256=digest):
            return Participant(payload_sha256=digest, is_erased=True)
        case _:
            assert_never(event)


def stream_of(organisation: str, code: int) -> str:
    """The stream id. An organisation's name holds no slash."""
    return f"participant/{organisation}/{code}"


def identity_of(stream: str) -> tuple[str, int]:
    """(organisation, code) of a participant's stream."""
    _, organisation, code = stream.split("/", 2)
    return organisation, int(code)


EVENTS: Events = {
    "participant_imported.v1": (ParticipantImported, ImportParticipant),
    "contacts_erased.v1": (ContactsErased, EraseContacts),
}
PARTICIPANT = Aggregate("participant", EVENTS, Participant(), decide, evolve, parts=3)
