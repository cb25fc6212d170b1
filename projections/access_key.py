"""The keys that may call the service: digest, role and suppliers. Table `access_key`; written with the append."""

from datetime import datetime

import msgspec

from eventstore.aggregates.organisation import ORGANISATION, KeyCreated, KeyRevoked
from eventstore.events import Recorded
from projections.versioning.view import View


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One key. A revocation brings `revoked_at` only; the rest of its row stays as it was."""

    key_id: str
    organisation: str
    role: str
    suppliers: str
    rate_per_s: int
    secret_sha256: str
    created_at: datetime
    revoked_at: datetime | None
    position: int


def key_row(recorded: Recorded, position: int) -> KeyRow | None:
    """The row that the event makes, or None for events of other aggregates."""
    organisation = recorded.stream.split("/", 1)[1]
    match recorded.event:
        case KeyCreated() as event:
            return KeyRow(
                key_id=event.key_id,
                organisation=organisation,
                role=event.role,
                suppliers=",".join(event.suppliers),
                rate_per_s=event.rate_per_s,
                secret_sha256=event.secret_sha256,
                created_at=recorded.recorded_at,
                revoked_at=None,
                position=position,
            )
        case KeyRevoked() as event:
            return KeyRow(
                key_id=event.key_id,
                organisation=organisation,
                role="",
                suppliers="",
                rate_per_s=0,
                secret_sha256="",
                created_at=recorded.recorded_at,
                revoked_at=recorded.recorded_at,
                position=position,
            )
        case _:
            return None


def _key_of(stream: str) -> dict[str, str] | None:
    return {"organisation": stream.split("/", 1)[1]} if stream.startswith("organisation/") else None


ACCESS_KEY = View(
    "access_key",
    KeyRow,
    key_row,
    events=ORGANISATION.topics.values(),
    key=("key_id",),
    key_of=_key_of,
    first=("organisation", "role", "suppliers", "rate_per_s", "secret_sha256", "created_at"),
    types={"suppliers": "text[]", "rate_per_s": "integer"},
    folds_all=True,
)
"""Supplier codes hold no comma, so that an event's row carries them as one text."""

SELECT_KEYS = """
SELECT key_id, organisation, role, suppliers, secret_sha256, created_at, revoked_at, position, rate_per_s
FROM access_key
WHERE position > %s
ORDER BY key_id
"""
