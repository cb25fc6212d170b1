"""Begin and end sessions, and set passwords. Event and rows are written in one transaction."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection

from api.access.auth import authentication_failed
from console.access import cookies
from console.access.visit import Visit
from console.presentation.texts import N_
from eventstore.aggregates.user import SetPassword, SignIn, SignInMethod, SignOut, stream_of
from eventstore.clock import now
from eventstore.events import Recorded
from projections.auxiliary.sessions import (
    SESSION_LASTS,
    begin_session,
    end_session,
    end_sessions,
    forget_failures,
    is_open,
    new_token,
    use_link,
)
from projections.auxiliary.user_details import UserDetails, has_password, set_password_hash

PASSWORD_VOID = N_("The password was changed during the sign-in. Sign in with the new password.")
LINK_VOID = N_("This link was used already or is older than 15 minutes. Ask for a new link.")


async def begin(
    visit: Visit,
    user_id: str,
    method: SignInMethod,
    *,
    link: str = "",
    password_of: UserDetails | None = None,
    throttle_keys: Sequence[str] = (),
) -> None:
    """Begin a new session, end the previous session, and set the cookie.

    `link` is the token of a sign-in link, which becomes invalid. `password_of` is the user whose password was checked.
    The failures counted under `throttle_keys` are deleted. Raises ApiError 403 for a link or password that is no longer
    valid.
    """
    session, token, at = f"s_{secrets.token_hex(8)}", new_token(), now()
    old_session = visit.opened.session if visit.opened else ""

    def write_rows(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        if link and not use_link(connection, link, at):
            raise visit.refusal(403, LINK_VOID)
        if password_of is not None and not has_password(connection, password_of):
            raise visit.refusal(403, PASSWORD_VOID)
        for name in throttle_keys:
            forget_failures(connection, name, at)
        end_session(connection, old_session)
        begin_session(connection, visit.services.authority, token, session, user_id, at)

    command = SignIn(session=session, method=method)
    await visit.execute(stream_of(user_id), command, write_rows=write_rows, by=f"user:{user_id}")
    visit.set_cookie(cookies.SESSION, token, SESSION_LASTS)
    visit.set_cookie(cookies.FORM, "")


async def end(visit: Visit) -> None:
    """End the session of the visit."""
    session = visit.person.session
    await visit.execute(
        stream_of(visit.person.user_id),
        SignOut(session=session),
        write_rows=lambda connection, events: end_session(connection, session),
    )
    visit.set_cookie(cookies.SESSION, "")


async def set_password(visit: Visit, password_hash: str, at: datetime) -> None:
    """Store the new password and end the user's other sessions. Raises ApiError 401 if this session has ended."""
    user_id, session = visit.person.user_id, visit.person.session

    def write_rows(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        if not is_open(connection, session):
            raise authentication_failed()
        set_password_hash(connection, visit.services.authority, user_id, password_hash, at)
        end_sessions(connection, user_id, keep=session)

    await visit.execute(stream_of(user_id), SetPassword(session=session), write_rows=write_rows)
