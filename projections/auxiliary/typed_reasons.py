"""Reasons that users typed, by the id in events. A reason is deleted with its subject or its user."""

import re
import secrets
from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection

from eventstore.log.rows import fetch_structs

MAX_REASON = 500
"""Most characters of a reason. Longer reasons are refused."""
_ID = re.compile(r"r_[0-9a-f]{16}\Z")


class TypedReason(msgspec.Struct, frozen=True, kw_only=True):
    """Reason of an action. `subject` is the stream that the action is about; for an import, the person's stream."""

    reason: str
    user_id: str
    subject: str
    at: datetime
    content: str


def new_reason_id() -> str:
    return f"r_{secrets.token_hex(8)}"


_INSERT = """
INSERT INTO typed_reasons (reason, user_id, subject, at, content)
VALUES (%(reason)s, %(user_id)s, %(subject)s, %(at)s, %(content)s)
"""
_SELECT = "SELECT reason, user_id, subject, at, content FROM typed_reasons WHERE reason = ANY(%s)"
DELETE_REASONS = "DELETE FROM typed_reasons WHERE subject = ANY(%(streams)s)"
_DELETE_OF_USER = "DELETE FROM typed_reasons WHERE user_id = %s"


def write_reason(connection: Connection[Any], reason: TypedReason) -> None:
    """Store a reason in the transaction of the event that refers to it."""
    connection.execute(_INSERT, msgspec.structs.asdict(reason))


def delete_reasons_of_user(connection: Connection[Any], user_id: str) -> None:
    connection.execute(_DELETE_OF_USER, (user_id,))


async def reasons_of(connection: AsyncConnection[Any], ids: Collection[str]) -> dict[str, TypedReason]:
    """Return reasons by id. Erased reasons are missing."""
    rows = await fetch_structs(connection, TypedReason, _SELECT, list(ids))
    return {row.reason: row for row in rows}


def is_reason_id(text: str) -> bool:
    """Return True for an id, False for a reason that was given on a command line."""
    return _ID.match(text) is not None


async def texts_of(connection: AsyncConnection[Any], reasons: Collection[str]) -> dict[str, str]:
    """Return texts by reason: for an id, the stored text, or "" if it was erased; for any other reason, the reason
    itself.
    """
    ids = [reason for reason in reasons if is_reason_id(reason)]
    texts = {reason: "" if reason in ids else reason for reason in reasons}
    return texts | {reason: row.content for reason, row in (await reasons_of(connection, ids) if ids else {}).items()}
