"""Users of the console with role and suppliers. Table `console_user`; written in the append's transaction."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection

from eventstore.aggregates.user import USER, UserCreated, UserDisabled, UserEnabled, UserErased, UserRoleChanged
from eventstore.log.rows import fetch_rows, fetch_struct, fetch_structs
from eventstore.operations.rights import Rights
from projections.versions.view import View

CONSOLE_USER = View(
    "console_user",
    "user_id text NOT NULL, organisation text NOT NULL, role text NOT NULL, suppliers text[] NOT NULL,"
    " status text NOT NULL, created_at timestamptz NOT NULL, modified_at timestamptz NOT NULL,"
    " position bigint NOT NULL",
    {
        UserCreated: lambda event, _: {
            "organisation": event.organisation,
            "role": event.role,
            "suppliers": ",".join(event.suppliers),
            "status": "active",
        },
        UserRoleChanged: lambda event, _: {"role": event.role, "suppliers": ",".join(event.suppliers)},
        UserDisabled: {"status": "disabled"},
        UserEnabled: {"status": "active"},
        UserErased: {"status": "erased"},
    },
    prefix=USER.prefix,
    named=("user_id",),
    first=("created_at",),
    keeps_old=True,
    folds_all=True,
    indexes={"console_user_of_organisation": "(organisation, user_id)"},
    rights=Rights(worker=""),
)
"""View of users. Supplier codes contain no comma, so a column joins them with commas."""


class UserListed(msgspec.Struct, frozen=True, kw_only=True):
    """A user in lists for operators; `email` is "" for an erased user."""

    user_id: str
    email: str
    name: str
    organisation: str
    role: str
    suppliers: list[str]
    status: str
    created_at: datetime
    has_password: bool
    sessions: int


_SELECT_LISTED = """
SELECT u.user_id, coalesce(d.email, '') AS email, coalesce(d.name, '') AS name, u.organisation, u.role, u.suppliers,
       u.status, u.created_at, coalesce(d.password_hash, '') <> '' AS has_password,
       (SELECT count(*) FROM user_sessions AS s WHERE s.user_id = u.user_id AND s.expires_at > now()) AS sessions
FROM console_user AS u
LEFT JOIN user_details AS d USING (user_id)
"""
_SELECT_PAGE = f"""{_SELECT_LISTED}
WHERE (%(organisation)s = '' OR u.organisation = %(organisation)s) AND u.user_id > %(after)s
  AND (%(within)s::text[] IS NULL OR u.suppliers <@ %(within)s::text[])
ORDER BY u.user_id
LIMIT %(limit)s
"""
_SELECT_ONE = f"{_SELECT_LISTED} WHERE u.user_id = %s"


_COUNT = """
SELECT count(*)
FROM console_user
WHERE (%(organisation)s = '' OR organisation = %(organisation)s)
  AND (%(within)s::text[] IS NULL OR suppliers <@ %(within)s::text[])
"""


async def count_users(connection: AsyncConnection[Any], organisation: str, within: Collection[str] | None) -> int:
    """Count the users of an organisation or "" for all, whose suppliers are all in `within`."""
    suppliers = None if within is None else list(within)
    [(number,)] = await fetch_rows(connection, _COUNT, organisation=organisation, within=suppliers)
    return int(number)


async def users_page(
    connection: AsyncConnection[Any], organisation: str, after: str, limit: int, within: Collection[str] | None = None
) -> list[UserListed]:
    """Read users after an id, of an organisation or "" for all, whose suppliers are all in `within`."""
    parameters = {"organisation": organisation, "after": after, "within": None if within is None else list(within)}
    return await fetch_structs(connection, UserListed, _SELECT_PAGE, **parameters, limit=limit)


async def user_listed(connection: AsyncConnection[Any], user_id: str) -> UserListed | None:
    """Read one user; None if it does not exist."""
    return await fetch_struct(connection, UserListed, _SELECT_ONE, user_id)
