"""Users of the console: persons of an organisation, their role and their sign-ins. Pure.

Events name a user by an id only. Name, e-mail address and password are rows outside of the log that can be deleted
(`projections.auxiliary.user_details`).
"""

from datetime import datetime
from typing import Literal, assert_never

from msgspec.structs import asdict, replace

from eventstore.aggregates.aggregate import Aggregate, Command, Event, Events, Instant, State, event_of
from eventstore.errors import IllegalTransition

UserRole = Literal["importer", "auditor", "support", "operator"]
SignInMethod = Literal["link", "password", "openid"]


class UserCreated(Event, frozen=True):
    """A person may sign in, for an organisation, with a role and for the named suppliers (`*` for all)."""

    organisation: str
    role: UserRole
    suppliers: tuple[str, ...] = ()


class UserRoleChanged(Event, frozen=True):
    """The user has another role, or sees other suppliers, also in open sessions."""

    role: UserRole
    suppliers: tuple[str, ...] = ()


class UserDisabled(Event, frozen=True):
    """The user can no longer sign in. All sessions have ended."""


class UserEnabled(Event, frozen=True):
    """The user may sign in again."""


class SignInLinkIssued(Event, frozen=True):
    """A link was issued that signs in once."""

    expires_at: Instant


class PasswordSet(Event, frozen=True):
    """The user has set a password. All other sessions of the user have ended."""

    session: str = ""


class UserSignedIn(Event, frozen=True):
    """The user has signed in by a method.

    `session` is the id of the session, which cannot be used to open the session.
    """

    session: str
    method: SignInMethod


class UserSignedOut(Event, frozen=True):
    """The user has ended a session."""

    session: str


class SessionsEnded(Event, frozen=True):
    """All sessions of the user were ended."""


class UserErased(Event, frozen=True):
    """Name, address, password and typed reasons of the user are deleted.

    Past actions of the user stay in the log under the user's id.
    """


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
    """Create a user who may sign in."""

    organisation: str
    role: UserRole
    suppliers: tuple[str, ...] = ()


class ChangeUserRole(Command, frozen=True):
    """Change the user's role and suppliers."""

    role: UserRole
    suppliers: tuple[str, ...] = ()


class DisableUser(Command, frozen=True):
    """Disable the user."""


class EnableUser(Command, frozen=True):
    """Enable the user again."""


class IssueSignInLink(Command, frozen=True):
    """Issue a link that signs in once."""

    expires_at: datetime


class SetPassword(Command, frozen=True):
    """Set a password. All sessions of the user end, except `session`."""

    session: str = ""


class SignIn(Command, frozen=True):
    """Begin a session."""

    session: str
    method: SignInMethod


class SignOut(Command, frozen=True):
    """End a session."""

    session: str


class EndSessions(Command, frozen=True):
    """End all sessions."""


class EraseUser(Command, frozen=True):
    """Delete the user's personal data."""


UserStatus = Literal["unknown", "active", "disabled", "erased"]


class User(State, frozen=True):
    """State of a user: status, organisation, role and suppliers."""

    status: UserStatus = "unknown"
    organisation: str = ""
    role: UserRole | Literal[""] = ""
    suppliers: tuple[str, ...] = ()


def decide(command: Command, user: User, at: datetime) -> UserEvent | None:  # noqa: C901 - one match, a case for each command and state
    """Return the event that follows, or None. Raises IllegalTransition, always for unknown and erased users."""
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
            applies = (command.role, command.suppliers) == (user.role, user.suppliers)
            return None if applies else event_of(UserRoleChanged, command)
        case DisableUser(), "active":
            return UserDisabled()
        case EnableUser(), "disabled":
            return UserEnabled()
        case DisableUser() | EnableUser(), _:
            return None
        case IssueSignInLink(), "active":
            return event_of(SignInLinkIssued, command)
        case SetPassword(), "active":
            return event_of(PasswordSet, command)
        case SignIn(), "active":
            return event_of(UserSignedIn, command)
    raise IllegalTransition(user.status, type(command).__name__)


def evolve(user: User, event: UserEvent) -> User:
    """Return the state after the event."""
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
"""Topics that the api appends. A user can be disabled even if an event of these topics is unreadable."""

USER = Aggregate("user", EVENTS, User(), decide, evolve, inert=INERT)
