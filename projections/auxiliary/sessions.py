"""Open sessions, links that sign in once, and failed attempts to sign in.

Tokens are 256 random bits. The tables have the SHA-256 of tokens, so that a reader of the tables cannot sign in. A
session has a MAC, and only the database's owner writes links, so that a writer of the tables cannot sign in either.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

from eventstore.log.authority import AuthorityKey
from eventstore.log.rows import fetch_rows, fetch_struct, rows_of

SESSION_LASTS = timedelta(hours=8)
LINK_LASTS = timedelta(minutes=15)
FAILURE_RETENTION = timedelta(days=1)
CLOCKS_APART = timedelta(minutes=1)
"""Allowed difference between the clocks of two processes. Failures further in the future are ignored."""


def new_token() -> str:
    """Return 256 random bits as text for a cookie or link. Random bits need no slow hash."""
    return secrets.token_urlsafe(32)


def token_sha256(token: str) -> bytes:
    """Return the digest under which a token is stored."""
    return hashlib.sha256(token.encode()).digest()


class OpenSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that has not ended, with the present rights of its user."""

    session: str
    user_id: str
    organisation: str
    role: str
    suppliers: list[str]
    began_at: datetime
    expires_at: datetime
    email: str
    name: str
    saved_filters: str
    mac: str


_SESSION = "session"
_SELECT_SESSION = """
SELECT s.session, s.user_id, u.organisation, u.role, u.suppliers, s.began_at, s.expires_at, d.email, d.name,
       d.saved_filters, s.mac
FROM user_sessions AS s
JOIN console_user AS u USING (user_id)
JOIN user_details AS d USING (user_id)
WHERE s.token_sha256 = %s AND s.expires_at > %s AND u.status = 'active'
  AND NOT EXISTS (
      SELECT FROM events AS e
      WHERE e.stream = 'user/' || s.user_id
        AND e.version > (
            SELECT min(b.version) FROM events AS b
            WHERE b.stream = e.stream AND b.topic = 'user_signed_in.v1'
              AND b.recorded_at > s.began_at - interval '1 day'
              AND readable_event(b.state) ->> 'session' = s.session)
        AND (e.topic IN ('sessions_ended.v1', 'user_disabled.v1')
             OR e.topic = 'password_set.v1' AND readable_event(e.state) ->> 'session' IS DISTINCT FROM s.session
             OR e.topic = 'user_signed_out.v1' AND readable_event(e.state) ->> 'session' = s.session))
"""
"""Query of an open session.

It reads the end of the session from the log, because an attacker could insert the row again.
"""
_INSERT_SESSION = """
INSERT INTO user_sessions (token_sha256, session, user_id, began_at, expires_at, mac)
VALUES (%(token)s, %(session)s, %(user_id)s, %(at)s, %(expires_at)s, %(mac)s)
"""
_DELETE_SESSION = "DELETE FROM user_sessions WHERE session = %s"
_DELETE_SESSIONS = "DELETE FROM user_sessions WHERE user_id = %s AND session <> %s"
_DELETE_EXPIRED = "DELETE FROM user_sessions WHERE expires_at <= %s"

_INSERT_LINK = "INSERT INTO sign_in_links (token_sha256, user_id, expires_at) VALUES (%s, %s, %s)"
_SELECT_LINK = "SELECT user_id FROM sign_in_links WHERE token_sha256 = %s AND expires_at > %s"
_DELETE_LINK = "DELETE FROM sign_in_links WHERE token_sha256 = %s AND expires_at > %s RETURNING user_id"
_DELETE_LINKS = "DELETE FROM sign_in_links WHERE user_id = %s"
_DELETE_OLD_LINKS = "DELETE FROM sign_in_links WHERE expires_at <= %s"

_LOCK_FAILURES = "SELECT pg_advisory_xact_lock(name) FROM (SELECT unnest(%s::bigint[]) AS name ORDER BY name) AS names"
_SELECT_FAILURES = """
SELECT who_sha256, failures, last_at FROM failed_sign_ins WHERE who_sha256 = ANY(%s) AND last_at BETWEEN %s AND %s
"""
_COUNT_TRIES = """
INSERT INTO failed_sign_ins AS f (who_sha256, failures, last_at) SELECT who, 1, %(at)s FROM unnest(%(who)s) AS who
ON CONFLICT (who_sha256) DO UPDATE
SET failures = CASE WHEN f.last_at BETWEEN %(since)s AND %(upto)s THEN f.failures + 1 ELSE 1 END,
    last_at = excluded.last_at
"""
_UNDO_TRY = """
UPDATE failed_sign_ins SET failures = greatest(failures - 1, 0),
    last_at = CASE WHEN last_at = %(at)s THEN %(former)s ELSE last_at END
WHERE who_sha256 = %(who)s
"""
_DELETE_FAILURES = "DELETE FROM failed_sign_ins WHERE who_sha256 = %s OR last_at < %s"


async def open_session(
    connection: AsyncConnection[Any], authority: AuthorityKey, token: str, at: datetime
) -> OpenSession | None:
    """Return the session of the token; None if it has ended or its user may no longer sign in.

    Also returns None for a forged row, whose MAC was not made with this key.
    """
    opened = await fetch_struct(connection, OpenSession, _SELECT_SESSION, token_sha256(token), at)
    if opened is None:
        return None
    parts = token_sha256(token).hex(), opened.session, opened.user_id, opened.began_at, opened.expires_at
    return opened if authority.is_mac(opened.mac, _SESSION, *parts) else None


def begin_session(
    connection: Connection[Any], authority: AuthorityKey, token: str, session: str, user_id: str, at: datetime
) -> None:
    """Open a session of 8 hours, and delete expired sessions."""
    connection.execute(_DELETE_EXPIRED, (at,))
    row = {"token": token_sha256(token), "session": session, "user_id": user_id, "at": at}
    row |= {"expires_at": at + SESSION_LASTS}
    mac = authority.mac(_SESSION, token_sha256(token).hex(), session, user_id, at, at + SESSION_LASTS)
    connection.execute(_INSERT_SESSION, row | {"mac": mac})


def is_open(connection: Connection[Any], session: str) -> bool:
    """Return whether the session has not ended, in the transaction of an event of its user."""
    return bool(rows_of(connection, "SELECT FROM user_sessions WHERE session = %s", session))


def end_session(connection: Connection[Any], session: str) -> None:
    connection.execute(_DELETE_SESSION, (session,))


def end_sessions(connection: Connection[Any], user_id: str, *, keep: str = "") -> None:
    """End the sessions of the user, except the session `keep`, and delete the user's sign-in links."""
    connection.execute(_DELETE_SESSIONS, (user_id, keep))
    connection.execute(_DELETE_LINKS, (user_id,))


def write_link(connection: Connection[Any], sha256: bytes, user_id: str, at: datetime) -> None:
    """Store a link by its token's digest, and delete the user's older links.

    The link signs in once within 15 minutes.
    """
    connection.execute(_DELETE_LINKS, (user_id,))
    connection.execute(_DELETE_OLD_LINKS, (at,))
    connection.execute(_INSERT_LINK, (sha256, user_id, at + LINK_LASTS))


async def link_user(connection: AsyncConnection[Any], token: str, at: datetime) -> str | None:
    """Return the user whom the link signs in; None if it was used or has expired."""
    rows = await fetch_rows(connection, _SELECT_LINK, token_sha256(token), at)
    return rows[0][0] if rows else None


def use_link(connection: Connection[Any], token: str, at: datetime) -> bool:
    """Delete the link in the transaction of the sign-in; return False if the link was already used."""
    return connection.execute(_DELETE_LINK, (token_sha256(token), at)).rowcount == 1


class Failures(msgspec.Struct, frozen=True):
    """Number of consecutive failures, and the time of the last failure."""

    number: int
    last_at: datetime


def name_sha256(name: str) -> bytes:
    """Return the digest of a user's or client's name, under which failures are counted: the table holds no names."""
    return hashlib.sha256(name.encode()).digest()


async def count_try(
    connection: AsyncConnection[Any],
    names: Sequence[str],
    at: datetime,
    is_free: Callable[[Mapping[str, Failures]], bool],
) -> dict[str, Failures]:
    """Count an attempt for each name if `is_free` allows it; return the earlier failures of the last day by name.

    The attempt is counted before the password is checked, in one transaction: concurrent attempts therefore count.
    Refused attempts are not counted.
    """
    by_digest = {name_sha256(name): name for name in names}
    digests, since, upto = sorted(by_digest), at - FAILURE_RETENTION, at + CLOCKS_APART
    locks = [int.from_bytes(digest[:8], signed=True) for digest in digests]
    async with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_LOCK_FAILURES, (locks,))
        rows = await (await cursor.execute(_SELECT_FAILURES, (digests, since, upto))).fetchall()
        failures = {by_digest[bytes(digest)]: Failures(number, last_at) for digest, number, last_at in rows if number}
        if is_free(failures):
            await cursor.execute(_COUNT_TRIES, {"who": digests, "at": at, "since": since, "upto": upto})
    return failures


async def undo_try(
    connection: AsyncConnection[Any], names: Sequence[str], at: datetime, failures: Mapping[str, Failures]
) -> None:
    """Undo the count of an attempt whose password was right.

    `failures` is the result of `count_try` for this attempt.
    """
    for name in sorted(names, key=name_sha256):
        former = failures[name].last_at if name in failures else at
        await connection.execute(_UNDO_TRY, {"who": name_sha256(name), "at": at, "former": former})


def forget_failures(connection: Connection[Any], name: str, at: datetime) -> None:
    """Delete the failures of a name after a success, and all failures older than a day."""
    connection.execute(_DELETE_FAILURES, (name_sha256(name), at - FAILURE_RETENTION))
