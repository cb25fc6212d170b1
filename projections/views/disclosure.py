"""Disclosures of accounts' personal data to users. Table `disclosure`; written in the append's transaction."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.aggregates.disclosure import DISCLOSURE, PersonalDataShown
from eventstore.log.rows import fetch_structs
from eventstore.operations.rights import Rights
from projections.versions.view import View


class Disclosure(msgspec.Struct, frozen=True, kw_only=True):
    """A disclosure. `what` names the shown parts, separated by commas; `reason` is the id of the typed reason."""

    supplier: str
    external_account_number: str
    number: int
    user_id: str
    what: str
    reason: str
    shown_at: datetime
    position: int


DISCLOSURE_VIEW = View(
    "disclosure",
    "supplier text NOT NULL, external_account_number text NOT NULL, number bigint NOT NULL, user_id text NOT NULL,"
    " what text NOT NULL, reason text NOT NULL, shown_at timestamptz NOT NULL, position bigint NOT NULL",
    {
        PersonalDataShown: lambda event, recorded: {
            "number": recorded.version,
            "user_id": event.user,
            "what": ",".join(event.what),
            "reason": event.reason,
        }
    },
    prefix=DISCLOSURE.prefix,
    named=("supplier", "external_account_number"),
    key=("supplier", "external_account_number", "number"),
    times=("shown_at",),
    folds_all=True,
    indexes={"disclosure_newest": "(position)"},
    rights=Rights(api="SIU", worker="", relay=""),
)

_SELECT_NEWEST = """
SELECT supplier, external_account_number, number, user_id, what, reason, shown_at, position
FROM disclosure
WHERE (%(before)s = 0 OR position < %(before)s) AND (%(suppliers)s::text[] IS NULL OR supplier = ANY(%(suppliers)s))
ORDER BY position DESC
LIMIT %(limit)s
"""
_SELECT_SHOWN = """
SELECT FROM disclosure
WHERE supplier = %s AND external_account_number = %s AND user_id = %s AND shown_at >= %s
LIMIT 1
"""


async def newest_disclosures(
    connection: AsyncConnection[Any], suppliers: Collection[str] | None, before: int, limit: int
) -> list[Disclosure]:
    """Read disclosures of these suppliers' accounts, or of all, newest first, before a position [0: from the end]."""
    parameters = {"suppliers": None if suppliers is None else list(suppliers), "before": before, "limit": limit}
    return await fetch_structs(connection, Disclosure, _SELECT_NEWEST, **parameters)


async def was_shown(
    connection: AsyncConnection[Any], supplier: str, external: str, user_id: str, since: datetime
) -> bool:
    """Return whether the user was shown the account's personal data since a time."""
    cursor = await connection.execute(_SELECT_SHOWN, (supplier, external, user_id, since))
    return await cursor.fetchone() is not None
