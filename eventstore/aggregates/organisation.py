"""Organisations: callers and their API keys, of which only digests are stored. Pure."""

from datetime import datetime
from typing import Literal, assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, Events, State, event_of
from eventstore.errors import IllegalTransition

Role = Literal["importer", "auditor", "support", "operator"]


class KeyCreated(Event, frozen=True):
    """A key was issued.

    `secret_sha256` is the digest of the whole key, `suppliers` are the suppliers that the key may access. `rate_per_s`
    limits the requests per second; 0 is no limit.
    """

    key_id: str
    secret_sha256: str
    role: Role
    suppliers: tuple[str, ...] = ()
    rate_per_s: Count = 0


class KeyRevoked(Event, frozen=True):
    """The key and all tokens made from it are revoked.

    `until_confirmed` is set after a restore from a backup: the restored log lacks revocations that came after the
    backup, so every key is revoked as a precaution. An operator confirms each key that may be used again.
    """

    key_id: str
    reason: str = ""
    until_confirmed: bool = False


class KeyConfirmed(Event, frozen=True):
    """The key is valid again: an operator has confirmed that it was not revoked after the backup."""

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
    """Revoke a key, permanently or until an operator confirms the key."""

    key_id: str
    reason: str = ""
    until_confirmed: bool = False


class ConfirmKey(Command, frozen=True):
    """Make a key valid again that waits for confirmation."""

    key_id: str


class Organisation(State, frozen=True):
    """Keys of the organisation: valid, waiting for confirmation, and revoked."""

    valid: frozenset[str] = frozenset()
    unconfirmed: frozenset[str] = frozenset()
    void: frozenset[str] = frozenset()


def decide(command: Command, organisation: Organisation, at: datetime) -> OrganisationEvent | None:
    """Return the event that follows, or None. Raises IllegalTransition for a key that does not exist.

    Also raises it for the confirmation of a key that is revoked permanently.
    """
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
    """Return the state after the event."""
    key = frozenset({event.key_id})
    valid, unconfirmed, void = organisation.valid - key, organisation.unconfirmed - key, organisation.void
    match event:
        case KeyCreated() | KeyConfirmed():
            valid |= key
        case KeyRevoked(until_confirmed=True):
            unconfirmed |= key
        case KeyRevoked():
            void |= key
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
