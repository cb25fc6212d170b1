"""Personal data of the console's users, outside the log: name, e-mail address, password. Rows can be deleted.

A password or OpenID subject is accepted only if the row has a MAC over both and the user's id.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.rows import class_row

from eventstore.log.authority import AuthorityKey


class UserDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A user; "" is unknown. `openid` is issuer and subject of an OpenID provider."""

    user_id: str
    email: str
    """Unique within an organisation."""
    organisation: str
    name: str = ""
    password_hash: str = ""
    openid: str | None = None
    mac: str = ""

    def authentic(self, authority: AuthorityKey) -> "UserDetails":
        """Return the details; without password and OpenID subject if their MAC is not of this key."""
        if authority.is_mac(self.mac, _DETAILS, self.user_id, self.openid, self.password_hash):
            return self
        return msgspec.structs.replace(self, password_hash="", openid=None)

    def vouched_for(self, authority: AuthorityKey) -> "UserDetails":
        """Return the details with the MAC of their password and OpenID subject."""
        return msgspec.structs.replace(self, mac=authority.mac(_DETAILS, self.user_id, self.openid, self.password_hash))

    @property
    def shown(self) -> str:
        """Name of the user on pages."""
        return self.name or self.email


_DETAILS = "user details"
_COLUMNS = "user_id, email, organisation, name, password_hash, openid, mac"
_INSERT = """
INSERT INTO user_details (user_id, email, organisation, name, openid, mac, written_at)
VALUES (%(user_id)s, %(email)s, %(organisation)s, %(name)s, %(openid)s, %(mac)s, %(at)s)
"""
_SELECT_NAMED = f"SELECT {_COLUMNS} FROM user_details WHERE user_id = ANY(%s)"  # noqa: S608 - constants
_SELECT_BY_EMAIL = f"SELECT {_COLUMNS} FROM user_details WHERE lower(email) = lower(%s) ORDER BY user_id"  # noqa: S608
_SELECT_BY_OPENID = f"SELECT {_COLUMNS} FROM user_details WHERE openid = %s"  # noqa: S608 - constants
_LOCK = f"SELECT {_COLUMNS} FROM user_details WHERE user_id = %s FOR UPDATE"  # noqa: S608 - constants
_SET = "UPDATE user_details SET password_hash = %s, openid = %s, mac = %s, written_at = %s WHERE user_id = %s"
_RENEW_HASH = "UPDATE user_details SET password_hash = %s, mac = %s WHERE user_id = %s AND mac = %s"
_DELETE = "DELETE FROM user_details WHERE user_id = %s"
_DELETE_PASSWORDS = "UPDATE user_details SET password_hash = ''"


def write_user_details(connection: Connection[Any], details: UserDetails, at: datetime) -> None:
    """Insert a user. Raises psycopg's UniqueViolation if the organisation has a user with this address."""
    connection.execute(_INSERT, msgspec.structs.asdict(details) | {"at": at})


def set_password_hash(
    connection: Connection[Any], authority: AuthorityKey, user_id: str, password_hash: str, at: datetime
) -> None:
    """Set the password that signs the user in."""
    _set(connection, authority, user_id, at, password_hash=password_hash)


async def renew_password_hash(
    connection: AsyncConnection[Any], authority: AuthorityKey, details: UserDetails, password_hash: str
) -> None:
    """Store another hash of the same password, unless another password was set meanwhile."""
    new = msgspec.structs.replace(details, password_hash=password_hash).vouched_for(authority)
    await connection.execute(_RENEW_HASH, (password_hash, new.mac, details.user_id, details.mac))


def set_openid(connection: Connection[Any], authority: AuthorityKey, user_id: str, openid: str, at: datetime) -> None:
    """Set the subject of an OpenID provider that signs the user in."""
    _set(connection, authority, user_id, at, openid=openid)


def _set(connection: Connection[Any], authority: AuthorityKey, user_id: str, at: datetime, **values: str) -> None:
    """Change values of a row and its MAC; a password or subject without a valid MAC is dropped."""
    with connection.transaction(), connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        former = cursor.execute(_LOCK, (user_id,)).fetchone()
        if former is None:
            return
        new = msgspec.structs.replace(former.authentic(authority), **values)
        new = new.vouched_for(authority)
        connection.execute(_SET, (new.password_hash, new.openid, new.mac, at, user_id))


def delete_user_details(connection: Connection[Any], user_id: str) -> None:
    """Delete the personal data of a user."""
    connection.execute(_DELETE, (user_id,))


def delete_passwords(connection: Connection[Any]) -> None:
    """Delete all passwords."""
    connection.execute(_DELETE_PASSWORDS)


async def details_by_email(connection: AsyncConnection[Any], authority: AuthorityKey, email: str) -> list[UserDetails]:
    """Return the users with this address, ignoring case: at most one per organisation."""
    async with connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        rows = await (await cursor.execute(_SELECT_BY_EMAIL, (email,))).fetchall()
    return [details.authentic(authority) for details in rows]


async def details_by_openid(
    connection: AsyncConnection[Any], authority: AuthorityKey, openid: str
) -> UserDetails | None:
    """Return the user with this subject of an OpenID provider."""
    async with connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        details = await (await cursor.execute(_SELECT_BY_OPENID, (openid,))).fetchone()
    return None if details is None or details.authentic(authority).openid is None else details


async def details_of(connection: AsyncConnection[Any], user_ids: Collection[str]) -> dict[str, UserDetails]:
    """By id; who was erased is missing."""
    async with connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        rows = await (await cursor.execute(_SELECT_NAMED, (list(user_ids),))).fetchall()
    return {details.user_id: details for details in rows}


def find_user_details(connection: Connection[Any], email_or_id: str) -> list[UserDetails]:
    """Return the users with this address or id."""
    with connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        by_id = cursor.execute(_SELECT_NAMED, ([email_or_id],)).fetchall()
        return by_id or cursor.execute(_SELECT_BY_EMAIL, (email_or_id,)).fetchall()
