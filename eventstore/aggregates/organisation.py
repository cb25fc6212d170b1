"""The organisation: who may call, with which keys. Only digests of keys are kept. Pure."""

from datetime import datetime
from typing import Literal, assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Events, State, event_of
from eventstore.errors import IllegalTransition

Role = Literal["importer", "auditor", "support", "operator"]


class KeyCreated(Event, frozen=True):
    """A key was issued; `secret_sha256` is the digest of the whole key, `suppliers` what it may touch.

    `rate_per_s` is how many requests a second it may make, 0 for any number.
    """

    key_id: str
    secret_sha256: str
    role: Role
    suppliers: tuple[str, ...] = ()
    rate_per_s: Count = 0


class KeyRevoked(Event, frozen=True):
    """The key and every token that came from it are void.

    `until_confirmed`: a restored backup does not show whether the key was revoked later, and an operator decides.
    """

    key_id: str
    reason: str = ""
    until_confirmed: bool = False


class KeyConfirmed(Event, frozen=True):
    """The key is valid again: an operator knows that it was not revoked after the backup."""

    key_id: str


OrganisationEvent = KeyCreated | KeyRevoked | KeyConfirmed


class CreateKey(Command, frozen=True):
    """Issue a key."""

    key_id: str
    secret_sha256: str
    role: Role
    suppliers: tuple[str, ...] = ()
    rate_per_s: int = 0


class RevokeKey(Command, frozen=True):
    """Void a key, for good or until it is confirmed."""

    key_id: str
    reason: str = ""
    until_confirmed: bool = False


class ConfirmKey(Command, frozen=True):
    """Make a key valid again that waits for this."""

    key_id: str


class Organisation(State, frozen=True):
    """Which of the organisation's keys are valid, which wait to be confirmed, and which are void."""

    valid: frozenset[str] = frozenset()
    unconfirmed: frozenset[str] = frozenset()
    void: frozenset[str] = frozenset()


def decide(command: Command, organisation: Organisation, at: datetime) -> OrganisationEvent | None:
    """The event that follows, or none. Raises IllegalTransition for a key that does not exist."""
    match command:
        case CreateKey(key_id=key_id) if (
            key_id not in organisation.valid | organisation.unconfirmed | organisation.void
        ):
            return event_of(KeyCreated, command)
        case CreateKey():
            return None
        case RevokeKey(key_id=key_id) if key_id in organisation.void:
            return None
        case RevokeKey(key_id=key_id, until_confirmed=True) if key_id in organisation.unconfirmed:
            return None
        case RevokeKey(key_id=key_id) if key_id in organisation.valid | organisation.unconfirmed:
            return event_of(KeyRevoked, command)
        case ConfirmKey(key_id=key_id) if key_id in organisation.valid:
            return None
        case ConfirmKey(key_id=key_id) if key_id in organisation.unconfirmed:
            return event_of(KeyConfirmed, command)
        case ConfirmKey(key_id=key_id) if key_id in organisation.void:
            raise IllegalTransition("revoked", type(command).__name__)
    raise IllegalTransition("unknown key", type(command).__name__)


def evolve(organisation: Organisation, event: OrganisationEvent) -> Organisation:
    """The state after the event."""
    one = frozenset({event.key_id})
    valid, unconfirmed, void = organisation.valid - one, organisation.unconfirmed - one, organisation.void
    match event:
        case KeyCreated() | KeyConfirmed():
            valid |= one
        case KeyRevoked(until_confirmed=True):
            unconfirmed |= one
        case KeyRevoked():
            void |= one
        case _:
            assert_never(event)
    return Organisation(valid=valid, unconfirmed=unconfirmed, void=void)


def stream_of(name: str) -> str:
    return f"organisation/{name}"


EVENTS: Events = {
    "key_created.v1": (KeyCreated, CreateKey),
    "key_revoked.v1": (KeyRevoked, RevokeKey),
    "key_confirmed.v1": (KeyConfirmed, ConfirmKey),
}
ORGANISATION = Aggregate("organisation", EVENTS, Organisation(), decide, evolve)
