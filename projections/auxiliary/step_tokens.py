"""Tokens of steps: keys of the api for the time in which a step runs, with the rights of the user who started it."""

from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.log.authority import AuthorityKey
from eventstore.log.rows import fetch_struct

PREFIX = "ils_"
ROLES = ("importer", "operator")
"""Roles of users who may run steps."""

_SELECT = """
SELECT s.step, s.book, b.supplier, b.organisation, s.holder, s.expires_at, s.token
FROM book_steps AS s
JOIN books AS b USING (book)
JOIN console_user AS u ON u.user_id = s.holder
WHERE s.step = %s AND s.state IN ('running', 'pausing') AND s.expires_at > clock_timestamp() AND b.key IS NOT NULL
  AND u.status = 'active' AND u.role = ANY(%s) AND u.organisation = b.organisation
  AND u.suppliers && ARRAY[b.supplier, '*']
"""


class RunningStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that runs, with a user who may still do what it does."""

    step: str
    book: str
    supplier: str
    organisation: str
    holder: str
    expires_at: datetime
    token: str


def step_token(
    authority: AuthorityKey, step: str, book: str, supplier: str, organisation: str, user: str, expires_at: datetime
) -> str:
    """Return the token of a step: a MAC, which only the api can make."""
    mac = authority.mac("book step", step, book, supplier, organisation, user, expires_at)
    return f"{PREFIX}{step}_{mac}"


async def running_step(connection: AsyncConnection[Any], authority: AuthorityKey, step: str) -> RunningStep | None:
    """Return the step if it runs, its user still has role and supplier, and its row has the token of this step."""
    found = await fetch_struct(connection, RunningStep, _SELECT, step, list(ROLES))
    if found is None:
        return None
    expected = step_token(
        authority, step, found.book, found.supplier, found.organisation, found.holder, found.expires_at
    )
    return found if expected == found.token else None
