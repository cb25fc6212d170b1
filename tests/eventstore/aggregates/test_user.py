"""The user of the console: who may sign in, and as what."""

from datetime import timedelta

import pytest

from eventstore.aggregates.user import (
    USER,
    ChangeUserRole,
    CreateUser,
    DisableUser,
    EnableUser,
    EndSessions,
    EraseUser,
    IssueSignInLink,
    PasswordSet,
    SessionsEnded,
    SetPassword,
    SignIn,
    SignInLinkIssued,
    SignOut,
    User,
    UserCommand,
    UserCreated,
    UserDisabled,
    UserEnabled,
    UserErased,
    UserEvent,
    UserRoleChanged,
    UserSignedIn,
    UserSignedOut,
    decide,
    evolve,
    stream_of,
)
from eventstore.clock import now
from eventstore.errors import IllegalTransition

AT = now()
LATER = AT + timedelta(minutes=15)
CREATED = UserCreated(organisation="Nordwind", role="support", suppliers=("NW",))
SIGNING_IN: tuple[UserCommand, ...] = (
    SignIn(session="s", method="link"),
    SetPassword(),
    IssueSignInLink(expires_at=LATER),
)


def after(*events: UserEvent) -> User:
    user = User()
    for event in events:
        user = evolve(user, event)
    return user


def test_a_user_is_created_once() -> None:
    command = CreateUser(organisation="Nordwind", role="support", suppliers=("NW",))
    assert decide(command, User(), AT) == CREATED
    with pytest.raises(IllegalTransition, match="CreateUser is not allowed while the state is active"):
        decide(command, after(CREATED), AT)
    assert after(CREATED) == User(status="active", organisation="Nordwind", role="support", suppliers=("NW",))


@pytest.mark.parametrize(
    ("command", "event"),
    [
        (SignIn(session="s", method="password"), UserSignedIn(session="s", method="password")),
        (SetPassword(), PasswordSet()),
        (IssueSignInLink(expires_at=LATER), SignInLinkIssued(expires_at=LATER)),
        (SignOut(session="s"), UserSignedOut(session="s")),
        (EndSessions(), SessionsEnded()),
    ],
)
def test_an_active_user_signs_in_and_out(command: UserCommand, event: UserEvent) -> None:
    assert decide(command, after(CREATED), AT) == event
    assert evolve(after(CREATED), event) == after(CREATED)


@pytest.mark.parametrize("command", SIGNING_IN)
def test_a_disabled_user_cannot_sign_in(command: UserCommand) -> None:
    with pytest.raises(IllegalTransition, match=f"{type(command).__name__} is not allowed while the state is disabled"):
        decide(command, after(CREATED, UserDisabled()), AT)
    assert decide(command, after(CREATED, UserDisabled(), UserEnabled()), AT) is not None


def test_a_disabled_user_can_still_be_signed_out() -> None:
    assert decide(EndSessions(), after(CREATED, UserDisabled()), AT) == SessionsEnded()
    assert decide(SignOut(session="s"), after(CREATED, UserDisabled()), AT) == UserSignedOut(session="s")


def test_disabling_and_enabling_twice_is_no_event() -> None:
    assert decide(DisableUser(), after(CREATED), AT) == UserDisabled()
    assert decide(DisableUser(), after(CREATED, UserDisabled()), AT) is None
    assert decide(EnableUser(), after(CREATED, UserDisabled()), AT) == UserEnabled()
    assert decide(EnableUser(), after(CREATED), AT) is None


def test_a_role_is_changed_where_it_is_another() -> None:
    changed = UserRoleChanged(role="operator", suppliers=("*",))
    assert decide(ChangeUserRole(role="operator", suppliers=("*",)), after(CREATED), AT) == changed
    assert decide(ChangeUserRole(role="support", suppliers=("NW",)), after(CREATED), AT) is None
    assert decide(ChangeUserRole(role="support", suppliers=("*",)), after(CREATED), AT) is not None
    assert after(CREATED, changed) == User(status="active", organisation="Nordwind", role="operator", suppliers=("*",))


@pytest.mark.parametrize(
    "command", [*SIGNING_IN, DisableUser(), EnableUser(), ChangeUserRole(role="auditor"), EndSessions()]
)
def test_who_is_not_known_or_was_erased_can_do_nothing(command: UserCommand) -> None:
    for user in (User(), after(CREATED, UserErased())):
        with pytest.raises(IllegalTransition):
            decide(command, user, AT)


def test_erasing_works_once_and_never_for_a_stranger() -> None:
    assert decide(EraseUser(), after(CREATED, UserDisabled()), AT) == UserErased()
    assert decide(EraseUser(), after(CREATED, UserErased()), AT) is None
    with pytest.raises(IllegalTransition):
        decide(EraseUser(), User(), AT)
    with pytest.raises(IllegalTransition):
        decide(CreateUser(organisation="X", role="auditor"), after(CREATED, UserErased()), AT)


def test_a_stream_names_its_user() -> None:
    assert stream_of("u_1") == "user/u_1"
    assert USER.prefix == "user"
