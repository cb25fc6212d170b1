"""Who was shown personal data of which account. Table `disclosure`; written in the append's transaction."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import class_row

from eventstore.aggregates.disclosure import DISCLOSURE, PersonalDataShown, identity_of
from eventstore.events import Recorded
from eventstore.operations.rights import Rights
from projections.versions.view import View


class DisclosureRow(msgspec.Struct, frozen=True, kw_only=True):
    """One showing. `what` are names of places, with commas between them; `reason` is the id of what was typed."""

    supplier: str
    external_account_number: str
    number: int
    user_id: str
    what: str
    reason: str
    shown_at: datetime
    position: int


def disclosure_row(recorded: Recorded, position: int) -> DisclosureRow | None:
    """The row that the event makes, or None for events of other aggregates."""
    if not isinstance(recorded.event, PersonalDataShown):
        return None
    supplier, external = identity_of(recorded.stream)
    return DisclosureRow(
        supplier=supplier,
        external_account_number=external,
        number=recorded.version,
        user_id=recorded.event.user,
        what=",".join(recorded.event.what),
        reason=recorded.event.reason,
        shown_at=recorded.recorded_at,
        position=position,
    )


def _key_of(stream: str) -> dict[str, str] | None:
    if not stream.startswith("disclosure/"):
        return None
    supplier, external = identity_of(stream)
    return {"supplier": supplier, "external_account_number": external}


DISCLOSURE_VIEW = View(
    "disclosure",
    DisclosureRow,
    disclosure_row,
    events=DISCLOSURE.topics.values(),
    rights=Rights(api="SIU", worker="", relay=""),
    key=("supplier", "external_account_number", "number"),
    key_of=_key_of,
    folds_all=True,
    recorded=("shown_at",),
    indexes={"disclosure_newest": "(position)"},
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
) -> list[DisclosureRow]:
    """What was shown of these suppliers' accounts, or of all; the newest first, those before a position or 0."""
    wanted = {"suppliers": None if suppliers is None else list(suppliers), "before": before, "limit": limit}
    async with connection.cursor(row_factory=class_row(DisclosureRow)) as cursor:
        return await (await cursor.execute(_SELECT_NEWEST, wanted)).fetchall()


async def was_shown(
    connection: AsyncConnection[Any], supplier: str, external: str, user_id: str, since: datetime
) -> bool:
    """Whether the user was shown the account's personal data since then."""
    cursor = await connection.execute(_SELECT_SHOWN, (supplier, external, user_id, since))
    return await cursor.fetchone() is not None
