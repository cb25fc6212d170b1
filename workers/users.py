"""Changes of the console's users: each an event, with its rows beside it.

It needs the rights of the database's owner. Verbs have them, and the relay does what pages of the console ask for.
"""

import re
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.errors import UniqueViolation

from eventstore.aggregates.user import (
    ChangeUserRole,
    CreateUser,
    DisableUser,
    EnableUser,
    EndSessions,
    EraseUser,
    IssueSignInLink,
    UserRole,
    stream_of,
)
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.ledger import Ledger
from projections.unlogged.sessions import LINK_LASTS, end_sessions, new_token, token_sha256, write_link
from projections.unlogged.typed_reasons import delete_reasons_of_user
from projections.unlogged.user_details import UserDetails, delete_user_details, write_user_details
from schemas.sentence import Sentence

SUPPLIER_CODE = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")
ORGANISATION_NAME = re.compile(r"[^/\s][^/]{0,127}\Z")
ROLES: tuple[UserRole, ...] = ("auditor", "support", "operator")
MAX_NAME = 100


class UserNotPossible(Exception):
    """A user cannot be created or changed like this; the message says why, in both languages."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(str(sentence))
        self.sentence = sentence


class SignInLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that signs in once: its token, and until when."""

    user_id: str
    token: str
    expires_at: datetime

    def address(self, base_url: str) -> str:
        return f"{base_url.rstrip('/')}/console/sign-in/{self.token}/"


def known_email(text: str) -> str:
    """The address as it is kept. Raises UserNotPossible for what is none."""
    from email_validator import EmailNotValidError, validate_email  # it is large, and most verbs need no address

    try:
        return validate_email(text.strip(), check_deliverability=False, test_environment=True).normalized
    except EmailNotValidError:
        raise UserNotPossible(Sentence("This is no e-mail address.", "Das ist keine E-Mail-Adresse.")) from None


def new_details(email: str, name: str, organisation: str) -> UserDetails:
    """The details of a user who is still to be created. Raises UserNotPossible where the address is none."""
    return UserDetails(user_id=new_user_id(), email=known_email(email), organisation=organisation, name=name[:MAX_NAME])


def new_user_id() -> str:
    return f"u_{secrets.token_hex(6)}"


def keep_details(connection: Connection[Any], details: UserDetails) -> None:
    """Write the details of a new user. Raises UserNotPossible where the organisation has one with this address."""
    try:
        write_user_details(connection, details, now())
    except UniqueViolation:
        raise UserNotPossible(
            Sentence(
                "The organisation must not have another user with this address.",
                "Die Organisation darf keine andere Person mit dieser Adresse haben.",
            )
        ) from None


def create_user(
    ledger: Ledger,
    user_id: str,
    *,
    organisation: str,
    role: UserRole,
    suppliers: Sequence[str],
    by: str,
    details: UserDetails | None = None,
) -> None:
    """Let somebody sign in, whose details are written as well, or already. Raises UserNotPossible."""

    def beside(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        if details is not None:
            keep_details(connection, details)

    command = CreateUser(organisation=organisation, role=role, suppliers=tuple(dict.fromkeys(suppliers)))
    ledger.execute(stream_of(user_id), command, at=now(), by=by, beside=beside)


def issue_link(ledger: Ledger, user_id: str, sha256: bytes, at: datetime, *, by: str) -> datetime:
    """Let a token with this digest sign in once within 15 minutes; former ones are void. Return when it expires.

    Raises IllegalTransition.
    """

    def beside(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        write_link(connection, sha256, user_id, at)

    expires_at = at + LINK_LASTS
    ledger.execute(stream_of(user_id), IssueSignInLink(expires_at=expires_at), at=now(), by=by, beside=beside)
    return expires_at


def new_link(ledger: Ledger, user_id: str, *, by: str) -> SignInLink:
    """A fresh link of the user. Raises IllegalTransition."""
    token = new_token()
    expires_at = issue_link(ledger, user_id, token_sha256(token), now(), by=by)
    return SignInLink(user_id=user_id, token=token, expires_at=expires_at)


def change_role(ledger: Ledger, user_id: str, role: UserRole, suppliers: Sequence[str], *, by: str) -> bool:
    """What the user may do and see from now on; whether that is another."""
    command = ChangeUserRole(role=role, suppliers=tuple(dict.fromkeys(suppliers)))
    return ledger.execute(stream_of(user_id), command, at=now(), by=by) is not None


def disable_user(ledger: Ledger, user_id: str, *, by: str) -> bool:
    """Sign the user out everywhere, and let them in no more; whether they could."""
    return _ending(ledger, user_id, DisableUser(), by) is not None


def enable_user(ledger: Ledger, user_id: str, *, by: str) -> bool:
    """Let the user sign in again; whether they could not."""
    return ledger.execute(stream_of(user_id), EnableUser(), at=now(), by=by) is not None


def sign_out_user(ledger: Ledger, user_id: str, *, by: str) -> None:
    """End all sessions of the user."""
    _ending(ledger, user_id, EndSessions(), by)


def erase_user(ledger: Ledger, user_id: str, *, by: str) -> bool:
    """Forget who the user is, and what they have typed; what they did stays under their id. Whether it was known."""

    def beside(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        end_sessions(connection, user_id)
        delete_user_details(connection, user_id)
        delete_reasons_of_user(connection, user_id)

    return ledger.execute(stream_of(user_id), EraseUser(), at=now(), by=by, beside=beside) is not None


def _ending(ledger: Ledger, user_id: str, command: DisableUser | EndSessions, by: str) -> Recorded | None:
    def beside(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        end_sessions(connection, user_id)

    return ledger.execute(stream_of(user_id), command, at=now(), by=by, beside=beside)
