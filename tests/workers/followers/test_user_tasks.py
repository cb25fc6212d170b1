"""Users are changed by the relay: for operators who reach as far, once for each request, and for nobody else."""

from datetime import timedelta
from typing import Any

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.owner_task import OwnerTaskKind, RequestOwnerTask, StartOwnerTask, stream_of, with_mac
from eventstore.aggregates.user import User, UserRole
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.unlogged.sessions import token_sha256, use_link
from projections.unlogged.user_details import find_user_details
from projections.views.owner_task import owner_task
from tests.support.console import AUTHORITY, new_user
from tests.support.rows import asked_beside
from workers.followers.owner_tasks import OwnerTasks
from workers.operations import keep_details, new_details, user_of


@pytest.fixture
def tasks(ledger: Ledger, database: PostgresUrls) -> OwnerTasks:
    return OwnerTasks(ledger, database.admin, AUTHORITY, lambda asked, progress: {})


def ask(ledger: Ledger, task_id: str, user: str, kind: OwnerTaskKind, **arguments: str) -> None:
    command = RequestOwnerTask(kind=kind, arguments=arguments, user=user, requested_at=now())
    ledger.execute(stream_of(task_id), with_mac(command, task_id, AUTHORITY.mac), at=now(), by=f"user:{user}")


def outcome(ledger: Ledger, tasks: OwnerTasks, task_id: str) -> tuple[str, str]:
    tasks.carry_out(task_id)
    with ledger.connection() as connection:
        task = asked_beside(connection, owner_task, task_id)
    return task.status, task.error


def test_a_user_is_created_changed_and_erased(ledger: Ledger, tasks: OwnerTasks) -> None:
    operator = new_user(ledger, role="operator")
    details = new_details("eve@example.org", "Eve", "O")
    with ledger.connection() as connection:
        keep_details(connection, details)
    of = {"user_id": details.user_id}
    changes: list[tuple[OwnerTaskKind, dict[str, str], User]] = [
        ("user_create", {"organisation": "X", "role": "auditor", "suppliers": "NW"}, a_user("active", "auditor")),
        ("user_role", {"role": "support", "suppliers": "NW"}, a_user("active", "support")),
        ("user_disable", {}, a_user("disabled", "support")),
        ("user_enable", {}, a_user("active", "support")),
        ("user_sign_out", {}, a_user("active", "support")),
        ("user_erase", {}, a_user("erased", "support")),
    ]
    for kind, arguments, expected in changes:
        ask(ledger, f"t_{kind}", operator, kind, **arguments, **of)
        assert outcome(ledger, tasks, f"t_{kind}") == ("DONE", "")
        assert user_of(ledger, details.user_id) == expected
    with ledger.connection() as connection:
        assert find_user_details(connection, "eve@example.org") == []


def a_user(status: Any, role: UserRole) -> User:
    return User(status=status, organisation="X", role=role, suppliers=("NW",))


@pytest.mark.parametrize(
    ("organisation", "suppliers", "kind", "arguments"),
    [
        ("Nordwind Energie", ["*"], "user_disable", {}),
        ("Nordwind Energie", ["NW"], "user_role", {"role": "operator", "suppliers": "*"}),
        ("Nordwind Energie", ["NW"], "user_role", {"role": "operator", "suppliers": "NW,SW"}),
        ("Nordwind Energie", ["NW", "SW"], "user_erase", {}),
        ("Südwind", ["NW"], "user_link", {"token_sha256": "0" * 64}),
    ],
)
def test_nobody_changes_a_user_who_reaches_further(
    ledger: Ledger, tasks: OwnerTasks, organisation: str, suppliers: list[str], kind: OwnerTaskKind, arguments: Any
) -> None:
    operator = new_user(ledger, role="operator", suppliers=["NW"])
    target = new_user(ledger, organisation=organisation, suppliers=suppliers)
    before = user_of(ledger, target)
    ask(ledger, "t_1", operator, kind, user_id=target, **arguments)
    assert outcome(ledger, tasks, "t_1") == ("FAILED", "the user must have the right to do this")
    assert user_of(ledger, target) == before


def test_the_details_of_a_user_who_is_not_created_are_forgotten(ledger: Ledger, tasks: OwnerTasks) -> None:
    support = new_user(ledger, role="support")
    details = new_details("eve@example.org", "Eve", "O")
    with ledger.connection() as connection:
        keep_details(connection, details)
    said = {"organisation": "X", "role": "operator", "suppliers": "*"}
    ask(ledger, "t_1", support, "user_create", user_id=details.user_id, **said)
    assert outcome(ledger, tasks, "t_1")[0] == "FAILED"
    with ledger.connection() as connection:
        assert find_user_details(connection, "eve@example.org") == []


def test_a_link_that_was_used_is_not_written_again(ledger: Ledger, tasks: OwnerTasks) -> None:
    """The relay may die between its work and the event that says so."""
    operator, user = new_user(ledger, role="operator"), new_user(ledger)
    ask(ledger, "t_1", operator, "user_link", user_id=user, token_sha256=token_sha256("token").hex())
    ledger.execute(stream_of("t_1"), StartOwnerTask(), at=now(), by="relay")
    request = ledger.history(stream_of("t_1"))[0].event
    tasks._done("t_1", tasks._request("t_1"))
    with ledger.connection() as connection:
        assert use_link(connection, "token", now())
    assert outcome(ledger, tasks, "t_1") == ("DONE", "")
    with ledger.connection() as connection:
        assert not use_link(connection, "token", now() - timedelta(minutes=1))
    assert request.requested_at is not None  # type: ignore[attr-defined]
