"""Disclosures of accounts' personal data to users. Table `disclosure`; written in the append's transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

import msgspec
from psycopg import AsyncConnection

from eventstore.aggregates.disclosure import DISCLOSURE, PersonalDataShown
from eventstore.log.rows import fetch_rows, fetch_structs
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

_MATCHES: LiteralString = """
FROM disclosure
WHERE (%(suppliers)s::text[] IS NULL OR supplier = ANY(%(suppliers)s))
  AND (%(user)s = '' OR user_id = %(user)s)
  AND (%(external)s = '' OR external_account_number = %(external)s)
  AND (%(begins_at)s::timestamptz IS NULL OR (shown_at >= %(begins_at)s AND shown_at < %(ends_at)s))"""
_SELECT_NEWEST: LiteralString = f"""
SELECT supplier, external_account_number, number, user_id, what, reason, shown_at, position {_MATCHES}
  AND (%(before)s = 0 OR position < %(before)s)
ORDER BY position DESC
LIMIT %(limit)s
"""
_COUNT: LiteralString = f"SELECT count(*) {_MATCHES}"
_SELECT_USERS = """
SELECT DISTINCT user_id
FROM disclosure
WHERE %(suppliers)s::text[] IS NULL OR supplier = ANY(%(suppliers)s)
"""
_SELECT_SHOWN = """
SELECT FROM disclosure
WHERE supplier = %s AND external_account_number = %s AND user_id = %s AND shown_at >= %s
LIMIT 1
"""


class DisclosureFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of disclosures. `suppliers` is None for all suppliers; fields with "" or None do not filter."""

    suppliers: list[str] | None
    user: str = ""
    external: str = ""
    begins_at: datetime | None = None
    ends_at: datetime | None = None


async def newest_disclosures(
    connection: AsyncConnection[Any], criteria: DisclosureFilter, before: int, limit: int
) -> list[Disclosure]:
    """Read the matching disclosures, newest first, before a position [0: from the end]."""
    parameters = msgspec.structs.asdict(criteria) | {"before": before, "limit": limit}
    return await fetch_structs(connection, Disclosure, _SELECT_NEWEST, **parameters)


async def count_disclosures(connection: AsyncConnection[Any], criteria: DisclosureFilter) -> int:
    """Return the number of matching disclosures."""
    [(number,)] = await fetch_rows(connection, _COUNT, **msgspec.structs.asdict(criteria))
    return int(number)


async def users_with_disclosures(connection: AsyncConnection[Any], suppliers: Sequence[str] | None) -> list[str]:
    """Read the ids of users who were shown accounts of suppliers [None: all]."""
    rows = await fetch_rows(connection, _SELECT_USERS, suppliers=None if suppliers is None else list(suppliers))
    return [user_id for (user_id,) in rows]


async def was_shown(
    connection: AsyncConnection[Any], supplier: str, external: str, user_id: str, since: datetime
) -> bool:
    """Return whether the user was shown the account's personal data since a time."""
    cursor = await connection.execute(_SELECT_SHOWN, (supplier, external, user_id, since))
    return await cursor.fetchone() is not None
