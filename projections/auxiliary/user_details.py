"""Personal data of the console's users, outside the log: name, e-mail address, password. Rows can be deleted.

A password or OpenID subject is accepted only if the row has a MAC over both and the user's id. The MAC also covers the
password's number: the log counts the passwords of a user, so a writer of the table cannot restore an old password.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.rows import class_row

from eventstore.log.authority import AuthorityKey
from eventstore.log.rows import fetch_rows, fetch_struct, fetch_structs, structs_of


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
    password_number: int = 0
    passwords_set: int = 0
    """Number of passwords that the user has set, according to the log.

    After a restore, the row may have a greater number.
    """

    def authentic(self, authority: AuthorityKey) -> "UserDetails":
        """Return the details without an outdated password.

        With a wrong MAC, return them without password and OpenID subject.
        """
        if not authority.is_mac(self.mac, _DETAILS, *self._covered):
            return msgspec.structs.replace(self, password_hash="", openid=None, password_number=0)
        return self if self.password_number >= self.passwords_set else msgspec.structs.replace(self, password_hash="")

    def with_mac(self, authority: AuthorityKey) -> "UserDetails":
        """Return the details with the MAC of their password and OpenID subject."""
        return msgspec.structs.replace(self, mac=authority.mac(_DETAILS, *self._covered))

    @property
    def _covered(self) -> tuple[str | None, ...]:
        return self.user_id, self.openid, self.password_hash, str(self.password_number)

    @property
    def display_name(self) -> str:
        """Name of the user on pages: the name, or the e-mail address without one."""
        return self.name or self.email


_DETAILS = "user details"
_COLUMNS = (
    "user_id, email, organisation, name, password_hash, openid, mac, password_number, (SELECT count(*) FROM events"
    " WHERE stream = 'user/' || user_id AND topic = 'password_set.v1') AS passwords_set"
)
_INSERT = """
INSERT INTO user_details (user_id, email, organisation, name, openid, mac, written_at)
VALUES (%(user_id)s, %(email)s, %(organisation)s, %(name)s, %(openid)s, %(mac)s, %(at)s)
"""
_SELECT_NAMED = f"SELECT {_COLUMNS} FROM user_details WHERE user_id = ANY(%s)"  # noqa: S608 - constants
_SELECT_BY_EMAIL = f"SELECT {_COLUMNS} FROM user_details WHERE lower(email) = lower(%s) ORDER BY user_id"  # noqa: S608
_SELECT_BY_OPENID = f"SELECT {_COLUMNS} FROM user_details WHERE openid = %s"  # noqa: S608 - constants
_LOCK = f"SELECT {_COLUMNS} FROM user_details WHERE user_id = %s FOR UPDATE"  # noqa: S608 - constants
_SET = """
UPDATE user_details
SET password_hash = %(password_hash)s, password_number = %(password_number)s, openid = %(openid)s, mac = %(mac)s,
    written_at = %(at)s
WHERE user_id = %(user_id)s
"""
_RENEW_HASH = "UPDATE user_details SET password_hash = %s, mac = %s WHERE user_id = %s AND mac = %s"
_LOCK_FILTERS = "SELECT saved_filters FROM user_details WHERE user_id = %s FOR UPDATE"
_SET_FILTERS = "UPDATE user_details SET saved_filters = %s WHERE user_id = %s"
_DELETE = "DELETE FROM user_details WHERE user_id = %s"
_DELETE_PASSWORDS = "UPDATE user_details SET password_hash = ''"


def write_user_details(connection: Connection[Any], details: UserDetails, at: datetime) -> None:
    """Insert a user. Raises psycopg's UniqueViolation if the organisation has a user with this address."""
    connection.execute(_INSERT, msgspec.structs.asdict(details) | {"at": at})


def set_password_hash(
    connection: Connection[Any], authority: AuthorityKey, user_id: str, password_hash: str, at: datetime
) -> None:
    """Set the user's password. The caller appends `PasswordSet` later, in the same transaction."""
    _set(connection, authority, user_id, at, password_hash=password_hash)


def has_password(connection: Connection[Any], details: UserDetails) -> bool:
    """Return whether the user has the same password still, in the transaction of an event of the user."""
    present = structs_of(connection, UserDetails, _SELECT_NAMED, [details.user_id])
    return any(user.password_number == details.password_number for user in present)


async def renew_password_hash(
    connection: AsyncConnection[Any], authority: AuthorityKey, details: UserDetails, password_hash: str
) -> None:
    """Store another hash of the same password, unless another password was set meanwhile."""
    new = msgspec.structs.replace(details, password_hash=password_hash).with_mac(authority)
    await connection.execute(_RENEW_HASH, (password_hash, new.mac, details.user_id, details.mac))


async def change_saved_filters(connection: AsyncConnection[Any], user_id: str, change: Callable[[str], str]) -> None:
    """Replace the saved filters of a user, an encrypted text, by the result of `change`."""
    async with connection.transaction():
        for (stored,) in await fetch_rows(connection, _LOCK_FILTERS, user_id):
            await connection.execute(_SET_FILTERS, (change(stored), user_id))


def set_openid(connection: Connection[Any], authority: AuthorityKey, user_id: str, openid: str, at: datetime) -> None:
    """Set the subject of an OpenID provider that signs the user in."""
    _set(connection, authority, user_id, at, openid=openid)


def _set(connection: Connection[Any], authority: AuthorityKey, user_id: str, at: datetime, **values: str) -> None:
    """Change values of a row and its MAC. If the old MAC is invalid, drop the old password and subject."""
    with connection.transaction(), connection.cursor(row_factory=class_row(UserDetails)) as cursor:
        former = cursor.execute(_LOCK, (user_id,)).fetchone()
        if former is None:
            return
        new = msgspec.structs.replace(former.authentic(authority), **values)
        if "password_hash" in values:
            number = max(new.password_number, new.passwords_set) + 1
            new = msgspec.structs.replace(new, password_number=number)
        connection.execute(_SET, msgspec.structs.asdict(new.with_mac(authority)) | {"at": at})


def delete_user_details(connection: Connection[Any], user_id: str) -> None:
    """Delete the personal data of a user."""
    connection.execute(_DELETE, (user_id,))


def delete_passwords(connection: Connection[Any]) -> None:
    """Delete all passwords."""
    connection.execute(_DELETE_PASSWORDS)


async def details_by_email(connection: AsyncConnection[Any], authority: AuthorityKey, email: str) -> list[UserDetails]:
    """Return the users with an e-mail address, ignoring case: at most one user per organisation."""
    rows = await fetch_structs(connection, UserDetails, _SELECT_BY_EMAIL, email)
    return [details.authentic(authority) for details in rows]


async def details_by_openid(
    connection: AsyncConnection[Any], authority: AuthorityKey, openid: str
) -> UserDetails | None:
    """Return the user with this subject of an OpenID provider."""
    details = await fetch_struct(connection, UserDetails, _SELECT_BY_OPENID, openid)
    return None if details is None or details.authentic(authority).openid is None else details


async def details_of(connection: AsyncConnection[Any], user_ids: Collection[str]) -> dict[str, UserDetails]:
    """Return details by user id, to show names. The MACs of the rows are not checked. Erased users are missing."""
    rows = await fetch_structs(connection, UserDetails, _SELECT_NAMED, list(user_ids))
    return {details.user_id: details for details in rows}


def find_user_details(connection: Connection[Any], email_or_id: str) -> list[UserDetails]:
    """Return the users with an address or id. The MACs of their rows are not checked."""
    by_id = structs_of(connection, UserDetails, _SELECT_NAMED, [email_or_id])
    return by_id or structs_of(connection, UserDetails, _SELECT_BY_EMAIL, email_or_id)
