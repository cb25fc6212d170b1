"""Authority of steps: a MAC of what a user has started, and the token with which the step calls the api while it runs.

Both are made with a key that the database does not have. A row of `book_steps` that the api has not written runs
nothing and has no token.
"""

from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.log.authority import AuthorityKey
from eventstore.log.rows import fetch_struct

PREFIX = "ils_"
ROLES = ("importer", "operator")
"""Roles of users who may run steps."""

MAY_RUN = """
u.status = 'active' AND u.role = ANY(%s) AND u.organisation = b.organisation AND u.suppliers && ARRAY[b.supplier, '*']
"""
"""Condition that the user `u` may run steps of the book `b`. Its parameter is ROLES."""

_SELECT = f"""
SELECT s.step, s.kind, s.arguments, s.book, b.supplier, b.organisation, s.holder, s.expires_at, s.mac
FROM book_steps AS s
JOIN books AS b USING (book)
JOIN console_user AS u ON u.user_id = s.holder
WHERE s.step = %s AND s.state IN ('running', 'pausing') AND s.expires_at > clock_timestamp() AND b.key IS NOT NULL
  AND {MAY_RUN}
"""  # noqa: S608 - constants


class StepRight(msgspec.Struct, frozen=True, kw_only=True):
    """Right of a step: to run its command for a book, with the rights of the user `holder`, until `expires_at`."""

    step: str
    kind: str
    arguments: str
    book: str
    supplier: str
    organisation: str
    holder: str
    expires_at: datetime
    mac: str = ""

    def made(self, authority: AuthorityKey) -> str:
        """Return the MAC of all parts."""
        parts = (self.step, self.kind, self.arguments, self.book, self.supplier, self.organisation, self.holder)
        return authority.mac("book step", *parts, self.expires_at)

    def is_valid(self, authority: AuthorityKey) -> bool:
        """Return True if `mac` was made by the api, over these parts."""
        return bool(self.mac) and self.made(authority) == self.mac

    def token(self, authority: AuthorityKey) -> str:
        """Return the token of the step. It is in no table."""
        return f"{PREFIX}{self.step}_{authority.mac('book step token', self.mac)}"


async def running_step(connection: AsyncConnection[Any], authority: AuthorityKey, step: str) -> StepRight | None:
    """Return what a running step of a book may do.

    None if the step does not run, or its user has lost the role or the supplier of the book.
    """
    found = await fetch_struct(connection, StepRight, _SELECT, step, list(ROLES))
    return found if found is not None and found.is_valid(authority) else None
