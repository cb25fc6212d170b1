"""What events do not hold of the console's users: name, e-mail address, password. Rows that can be deleted."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.rows import class_row


class UserDetails(msgspec.Struct, frozen=True, kw_only=True):
    """One user; "" for what is not known. `openid` is issuer and subject of an OpenID provider."""

    user_id: str
    email: str
    name: str = ""
    password_hash: str = ""
    openid: str | None = None

    @property
    def shown(self) -> str:
        """What others see of the user."""
        return self.name or self.email


_COLUMNS = "user_id, email, name, password_hash, openid"
_INSERT = """
INSERT INTO user_details (user_id, email, name, openid, written_at)
VALUES (%(user_id)s, %(email)s, %(name)s, %(openid)s, %(at)s)
"""
_SELECT_NAMED = f"SELECT {_COLUMNS} FROM user_details WHERE user_id = ANY(%s)"  # noqa: S608 - constants
_SELECT_BY_EMAIL = f"SELECT {_COLUMNS} FROM user_details WHERE lower(email) = lower(%s)"  # noqa: S608 - constants
_SELECT_BY_OPENID = f"SELECT {_COLUMNS} FROM user_details WHERE openid = %s"  # noqa: S608 - constants
_SET_HASH = "UPDATE user_details SET password_hash = %s, written_at = %s WHERE user_id = %s"
_RENEW_HASH = "UPDATE user_details SET password_hash = %s WHERE user_id = %s AND password_hash = %s"
_SET_OPENID = "UPDATE user_details SET openid = %s, written_at = %s WHERE user_id = %s"
_DELETE = "DELETE FROM user_details WHERE user_id = %s"
_DELETE_PASSWORDS = "UPDATE user_details SET password_hash = ''"


def write_user_details(connection: Connection[Any], details: UserDetails, at: datetime) -> None:
    """Raises psycopg's UniqueViolation where somebody has this address already."""
    connection.execute(_INSERT, msgspec.structs.asdict(details) | {"at": at})


def set_password_hash(connection: Connection[Any], user_id: str, password_hash: str, at: datetime) -> None:
    """Let the user sign in with this password."""
    connection.execute(_SET_HASH, (password_hash, at, user_id))


async def renew_password_hash(connection: AsyncConnection[Any], details: UserDetails, password_hash: str) -> None:
    """Keep another hash of the same password, unless another password was set meanwhile."""
    await connection.execute(_RENEW_HASH, (password_hash, details.user_id, details.password_hash))


def set_openid(connection: Connection[Any], user_id: str, openid: str, at: datetime) -> None:
    """Let the user sign in as this subject of an OpenID provider."""
    connection.execute(_SET_OPENID, (openid, at, user_id))


def delete_user_details(connection: Connection[Any], user_id: str) -> None:
    """Forget who the user is."""
    connection.execute(_DELETE, (user_id,))


def delete_passwords(connection: Connection[Any]) -> None:
    """Let nobody sign in with a password that was set before."""
    connection.execute(_DELETE_PASSWORDS)


async def details_by_email(connection: AsyncConnection[Any], email: str) -> UserDetails | None:
    """The user with this address, however it is written in capitals."""
    async with connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        return await (await cursor.execute(_SELECT_BY_EMAIL, (email,))).fetchone()


async def details_by_openid(connection: AsyncConnection[Any], openid: str) -> UserDetails | None:
    """The user who is this subject of an OpenID provider."""
    async with connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        return await (await cursor.execute(_SELECT_BY_OPENID, (openid,))).fetchone()


async def details_of(connection: AsyncConnection[Any], user_ids: Collection[str]) -> dict[str, UserDetails]:
    """By id; who was erased is missing."""
    async with connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        rows = await (await cursor.execute(_SELECT_NAMED, (list(user_ids),))).fetchall()
    return {details.user_id: details for details in rows}


def find_user_details(connection: Connection[Any], email_or_id: str) -> UserDetails | None:
    """The user with this address or id, for the command line."""
    with connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        by_id = cursor.execute(_SELECT_NAMED, ([email_or_id],)).fetchone()
        return by_id or cursor.execute(_SELECT_BY_EMAIL, (email_or_id,)).fetchone()
