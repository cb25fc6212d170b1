"""The user of the console: a person of an organisation, what they may do, and when they signed in. Pure.

Events know a user by an id only. Name, e-mail address and password lie in rows beside the log that can be erased
(`projections.unlogged.user_details`).
"""

from datetime import datetime
from typing import Literal, assert_never

from msgspec.structs import asdict, replace

from eventstore.aggregates.aggregate import Aggregate, Command, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition

UserRole = Literal["auditor", "support", "operator"]
SignInMethod = Literal["link", "password", "openid"]


class UserCreated(Event, frozen=True):
    """Somebody may sign in: for which organisation, as what, and which suppliers they see (`*` for all)."""

    organisation: str
    role: UserRole
    suppliers: tuple[str, ...] = ()


class UserRoleChanged(Event, frozen=True):
    """What the user may do, or which suppliers they see, is another from now on; it holds for open sessions too."""

    role: UserRole
    suppliers: tuple[str, ...] = ()


class UserDisabled(Event, frozen=True):
    """The user cannot sign in any more, and is signed out everywhere."""


class UserEnabled(Event, frozen=True):
    """The user may sign in again."""


class SignInLinkIssued(Event, frozen=True):
    """A link was given out that signs in once."""

    expires_at: Instant


class PasswordSet(Event, frozen=True):
    """The user has chosen a password; other sessions have ended."""


class UserSignedIn(Event, frozen=True):
    """The user has signed in, and by what; `session` names the session without opening it."""

    session: str
    method: SignInMethod


class UserSignedOut(Event, frozen=True):
    """A session was ended by the user."""

    session: str


class SessionsEnded(Event, frozen=True):
    """Every session of the user was ended."""


class UserErased(Event, frozen=True):
    """Name, address, password and typed reasons of the user are gone; what they did stays under their id."""


UserEvent = (
    UserCreated
    | UserRoleChanged
    | UserDisabled
    | UserEnabled
    | SignInLinkIssued
    | PasswordSet
    | UserSignedIn
    | UserSignedOut
    | SessionsEnded
    | UserErased
)


class CreateUser(Command, frozen=True):
    """Let somebody sign in."""

    organisation: str
    role: UserRole
    suppliers: tuple[str, ...] = ()


class ChangeUserRole(Command, frozen=True):
    """Change what the user may do and see."""

    role: UserRole
    suppliers: tuple[str, ...] = ()


class DisableUser(Command, frozen=True):
    """Let the user sign in no more."""


class EnableUser(Command, frozen=True):
    """Let the user sign in again."""


class IssueSignInLink(Command, frozen=True):
    """Give out a link that signs in once."""

    expires_at: datetime


class SetPassword(Command, frozen=True):
    """Choose a password."""


class SignIn(Command, frozen=True):
    """Begin a session."""

    session: str
    method: SignInMethod


class SignOut(Command, frozen=True):
    """End a session."""

    session: str


class EndSessions(Command, frozen=True):
    """End every session."""


class EraseUser(Command, frozen=True):
    """Forget who the user is."""


UserStatus = Literal["unknown", "active", "disabled", "erased"]


class User(State, frozen=True):
    """Whether the user may sign in, as what, and for which suppliers."""

    status: UserStatus = "unknown"
    organisation: str = ""
    role: UserRole | Literal[""] = ""
    suppliers: tuple[str, ...] = ()


def decide(command: Command, user: User, at: datetime) -> UserEvent | None:  # noqa: C901 - one match, a case for each command and state
    """The event that follows, or none. Raises IllegalTransition: for a user who is not known or was erased, always."""
    match command, user.status:
        case CreateUser(), "unknown":
            return event_of(UserCreated, command)
        case EraseUser(), "erased":
            return None
        case _, "unknown" | "erased":
            pass
        case EraseUser(), _:
            return UserErased()
        case EndSessions(), _:
            return SessionsEnded()
        case SignOut(), _:
            return event_of(UserSignedOut, command)
        case ChangeUserRole(), _:
            is_so = (command.role, command.suppliers) == (user.role, user.suppliers)
            return None if is_so else event_of(UserRoleChanged, command)
        case DisableUser(), "active":
            return UserDisabled()
        case EnableUser(), "disabled":
            return UserEnabled()
        case DisableUser() | EnableUser(), _:
            return None
        case IssueSignInLink(), "active":
            return event_of(SignInLinkIssued, command)
        case SetPassword(), "active":
            return PasswordSet()
        case SignIn(), "active":
            return event_of(UserSignedIn, command)
    raise IllegalTransition(user.status, type(command).__name__)


def evolve(user: User, event: UserEvent) -> User:
    """The state after the event."""
    match event:
        case UserCreated():
            return User(status="active", **asdict(event))
        case UserRoleChanged(role=role, suppliers=suppliers):
            return replace(user, role=role, suppliers=suppliers)
        case UserDisabled():
            return replace(user, status="disabled")
        case UserEnabled():
            return replace(user, status="active")
        case UserErased():
            return replace(user, status="erased")
        case SignInLinkIssued() | PasswordSet() | UserSignedIn() | UserSignedOut() | SessionsEnded():
            return user
        case _:
            assert_never(event)


def stream_of(user_id: str) -> str:
    return f"user/{user_id}"


EVENTS: Events = {
    "user_created.v1": (UserCreated, CreateUser),
    "user_role_changed.v1": (UserRoleChanged, ChangeUserRole),
    "user_disabled.v1": (UserDisabled, DisableUser),
    "user_enabled.v1": (UserEnabled, EnableUser),
    "sign_in_link_issued.v1": (SignInLinkIssued, IssueSignInLink),
    "password_set.v1": (PasswordSet, SetPassword),
    "user_signed_in.v1": (UserSignedIn, SignIn),
    "user_signed_out.v1": (UserSignedOut, SignOut),
    "sessions_ended.v1": (SessionsEnded, EndSessions),
    "user_erased.v1": (UserErased, EraseUser),
}
INERT = frozenset({"user_signed_in.v1", "user_signed_out.v1", "password_set.v1"})
"""Topics that the api appends. An event of these that cannot be read does not keep the user from being disabled."""

USER = Aggregate("user", EVENTS, User(), decide, evolve, inert=INERT)
