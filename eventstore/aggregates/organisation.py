"""The organisation: who may call, with which keys. Only digests of keys are kept. Pure."""

from datetime import datetime
from typing import Literal, assert_never

from eventstore.aggregates.aggregate import Aggregate, Command, Count, Event, State
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
    """The key and every token that came from it are void."""

    key_id: str
    reason: str = ""


OrganisationEvent = KeyCreated | KeyRevoked

TOPICS: dict[str, type[Event]] = {
    "key_created.v1": KeyCreated,
    "key_revoked.v1": KeyRevoked,
}


class CreateKey(Command, frozen=True):
    """Issue a key."""

    key_id: str
    secret_sha256: str
    role: Role
    suppliers: tuple[str, ...] = ()
    rate_per_s: int = 0


class RevokeKey(Command, frozen=True):
    """Void a key."""

    key_id: str
    reason: str = ""


OrganisationCommand = CreateKey | RevokeKey


class Organisation(State, frozen=True):
    """Which of the organisation's keys are valid, and which are void."""

    valid: frozenset[str] = frozenset()
    void: frozenset[str] = frozenset()


def decide(command: OrganisationCommand, organisation: Organisation, at: datetime) -> OrganisationEvent | None:
    """The event that follows, or none. Raises IllegalTransition for a key that does not exist."""
    match command:
        case CreateKey(key_id=key_id) if key_id not in organisation.valid | organisation.void:
            return KeyCreated(
                key_id=key_id,
                secret_sha256=command.secret_sha256,
                role=command.role,
                suppliers=command.suppliers,
                rate_per_s=command.rate_per_s,
            )
        case CreateKey():
            return None
        case RevokeKey(key_id=key_id) if key_id in organisation.void:
            return None
        case RevokeKey(key_id=key_id, reason=reason) if key_id in organisation.valid:
            return KeyRevoked(key_id=key_id, reason=reason)
    raise IllegalTransition("unknown key", type(command).__name__)


def evolve(organisation: Organisation, event: OrganisationEvent) -> Organisation:
    """The state after the event."""
    match event:
        case KeyCreated(key_id=key_id):
            return Organisation(valid=organisation.valid | {key_id}, void=organisation.void)
        case KeyRevoked(key_id=key_id):
            return Organisation(valid=organisation.valid - {key_id}, void=organisation.void | {key_id})
        case _:
            assert_never(event)


def stream_of(name: str) -> str:
    return f"organisation/{name}"


COMMANDS: dict[type[Event], type[Command]] = {
    KeyCreated: CreateKey,
    KeyRevoked: RevokeKey,
}
"""The command that each event follows from. A replay asks it again."""

ORGANISATION = Aggregate("organisation", TOPICS, Organisation(), decide, evolve, COMMANDS)
