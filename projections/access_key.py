"""The keys that may call the service: digest, role and suppliers. Table `access_key`; written with the append."""

from datetime import datetime
from typing import Any

import msgspec

from eventstore.aggregates.organisation import ORGANISATION, KeyCreated, KeyRevoked
from eventstore.events import Recorded


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


class AccessKeyView:
    """See the module; `project` is pure. Supplier codes hold no comma, so that a row carries them as one text."""

    name = "access_key"
    columns = KeyRow.__struct_fields__
    key_columns = 1
    events = frozenset(ORGANISATION.topics.values())
    upsert = """
        INSERT INTO access_key (
            key_id, organisation, role, suppliers, rate_per_s, secret_sha256, created_at, revoked_at, position)
        SELECT n.key_id, n.organisation, n.role, string_to_array(n.suppliers, ','), n.rate_per_s, n.secret_sha256,
               n.created_at, n.revoked_at, appended.base + n.position
        FROM appended, unnest(
            %(access_key_key_id)b::text[], %(access_key_organisation)b::text[], %(access_key_role)b::text[],
            %(access_key_suppliers)b::text[], %(access_key_rate_per_s)b::integer[],
            %(access_key_secret_sha256)b::text[],
            %(access_key_created_at)b::timestamptz[], %(access_key_revoked_at)b::timestamptz[],
            %(access_key_position)b::bigint[]
        ) AS n (key_id, organisation, role, suppliers, rate_per_s, secret_sha256, created_at, revoked_at, position)
        ON CONFLICT (key_id) DO UPDATE SET revoked_at = excluded.revoked_at, position = excluded.position
    """

    folds_all = True
    skipped = "false"

    def key_of(self, stream: str) -> dict[str, str] | None:
        return {"organisation": stream.split("/", 1)[1]} if stream.startswith("organisation/") else None

    def project(self, recorded: Recorded, position: int) -> tuple[Any, ...] | None:
        """The row that the event makes, or None for events of other aggregates."""
        organisation = recorded.stream.split("/", 1)[1]
        match recorded.event:
            case KeyCreated() as event:
                row = KeyRow(
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
                row = KeyRow(
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
        return msgspec.structs.astuple(row)


ACCESS_KEY = AccessKeyView()

SELECT_KEYS = """
SELECT key_id, organisation, role, suppliers, secret_sha256, created_at, revoked_at, position, rate_per_s
FROM access_key
WHERE position > %s
ORDER BY key_id
"""
