"""A second person: proposals are carried out only with an approval by somebody else, and only as previewed."""

from contextlib import closing
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import (
    CompleteImport,
    FailImport,
    ImportCancelled,
    ImportRetried,
    ImportReverted,
    SubjectErased,
)
from eventstore.aggregates.owner_task import (
    PROPOSAL_LASTS,
    SECOND_PERSON,
    ApproveOwnerTask,
    OwnerTaskApproved,
    OwnerTaskKind,
    OwnerTaskRequested,
    OwnProposal,
    StartOwnerTask,
    approval_of,
    stream_of,
)
from eventstore.aggregates.supplier import AccountsReleased, CreateSupplier, SupplierStatusChanged
from eventstore.aggregates.user import ChangeUserRole, CreateUser, DisableUser, EnableUser, IssueSignInLink
from eventstore.aggregates.user import stream_of as user_stream
from eventstore.clock import now
from eventstore.errors import IllegalTransition
from eventstore.log.ledger import Ledger
from projections import PROJECTIONS
from projections.retention import reverting
from projections.versions.build import administrator
from projections.versions.versions import switch_if_needed
from projections.views.owner_task import open_tasks
from tests.support.console import AUTHORITY, new_user, stage_account
from tests.support.databases import Admin, owner_of
from tests.support.make import start
from tests.support.owner_tasks import Tasks
from workers.followers.owner_tasks import write_progress
from workers.operations import packed
from workers.proposals import (
    CHANGED,
    DECIDED,
    NOT_ALLOWED,
    NOT_APPROVED,
    SAME_USER,
    ProposalFailed,
    approve,
    reject,
    request_of,
)

ARGUMENTS: dict[OwnerTaskKind, dict[str, str]] = {
    "revert": {"supplier": "NW", "accounts": packed(["1", "2"])},
    "release": {"supplier": "NW"},
    "erase": {"supplier": "NW", "external": "1"},
    "complete": {"supplier": "NW"},
    "projection_switch": {"name": "import_supplier", "version": "2"},
    "retry": {"supplier": "NW"},
    "cancel": {"supplier": "NW", "accounts": packed(["3", "1"])},
}
PREVIEWS: dict[OwnerTaskKind, dict[str, int]] = {
    "revert": {"revertible": 1, "failed": 1},
    "release": {"released": 1},
    "erase": {"erased": 1},
    "complete": {"released": 1},
    "projection_switch": {"former": 1, "version": 2},
    "retry": {"imports": 1},
    "cancel": {"imports": 1},
}
EVENTS = {
    "revert": ("import/NW/1", ImportReverted),
    "release": ("supplier/NW", AccountsReleased),
    "erase": ("import/NW/1", SubjectErased),
    "complete": ("supplier/NW", SupplierStatusChanged),
    "retry": ("import/NW/2", ImportRetried),
    "cancel": ("import/NW/3", ImportCancelled),
}


def complete(ledger: Ledger, external: str) -> None:
    stage_account(ledger, "NW", external)
    command = CompleteImport(start=2, account_number=f"A-{external}")
    for step in (start(), command):
        ledger.execute(f"import/NW/{external}", step, at=now(), by="worker:7")


@pytest.fixture
def tasks(ledger: Ledger, database: PostgresUrls) -> Tasks:
    """A relay that lists every action; imports that are processed (1), failed (2) and pending (3)."""
    ledger.execute("supplier/NW", CreateSupplier(), at=now(), by="t")
    complete(ledger, "1")
    for external in ("2", "3"):
        stage_account(ledger, "NW", external)
    for step in (start(), FailImport(start=2, code="c", detail="D.", problems=(), rules_edition="")):
        ledger.execute("import/NW/2", step, at=now(), by="worker:7")
    return Tasks(ledger, database, [*SECOND_PERSON.values()])


@pytest.fixture
def anna(ledger: Ledger) -> str:
    return new_user(ledger, role="operator")


@pytest.fixture
def ben(ledger: Ledger) -> str:
    return new_user(ledger, role="operator")


@pytest.mark.promise("second-person", "second-person-preview")
@pytest.mark.parametrize("kind", ARGUMENTS)
def test_each_listed_action_waits_for_another_person(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str, database: PostgresUrls, kind: OwnerTaskKind
) -> None:
    assert set(ARGUMENTS) == set(SECOND_PERSON.values())
    if kind == "projection_switch":
        built = tasks.done(anna, "projection_rebuild", name="import_supplier", switch="yes")
        assert msgspec.json.decode(built.outcome)["is_switched"] is False, "a rebuild does not switch by itself"
    task_id = tasks.propose(anna, kind, **ARGUMENTS[kind])
    request = request_of(ledger, task_id)
    assert request is not None
    assert request.preview == PREVIEWS[kind]
    with psycopg.connect(database.roles["relay"], autocommit=True) as connection:
        assert open_tasks(connection, of_access=False) == []
        with pytest.raises(IllegalTransition):
            tasks.carry_out(task_id)
        with pytest.raises(OwnProposal):
            approve(ledger, AUTHORITY, task_id, anna)
        assert tasks.task(task_id).status == "PROPOSED"
        approve(ledger, AUTHORITY, task_id, ben)
        assert open_tasks(connection, of_access=False) == [task_id]
    tasks.carry_out(task_id)
    task = tasks.task(task_id)
    assert (task.status, task.error, task.user_id, task.decided_by) == ("DONE", "", anna, ben)
    if kind != "projection_switch":
        stream, expected = EVENTS[kind]
        event: Any
        [(event, cause)] = [
            (recorded.event, recorded.caused_by)
            for recorded in ledger.history(stream)
            if isinstance(recorded.event, expected)
        ]
        assert cause == f"user:{anna}"
        is_encrypted = kind in ("retry", "cancel")
        assert event.private if is_encrypted else event.reason == "r_1"


@pytest.mark.promise("second-person", "authority-outside-database")
def test_an_api_that_is_configured_differently_cannot_leave_the_second_person_out(
    ledger: Ledger, tasks: Tasks, anna: str
) -> None:
    for kind, arguments in ARGUMENTS.items():
        task = tasks.done(anna, kind, **arguments)
        assert (task.status, task.error) == ("FAILED", NOT_APPROVED), kind


@pytest.mark.promise("second-person", "authority-outside-database")
def test_an_approval_that_only_the_database_knows_does_not_count(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str
) -> None:
    """The service's database role can append an approval in any name, or copy another one."""
    authentic = request_of(ledger, tasks.propose(anna, "erase", **ARGUMENTS["erase"]))
    assert authentic is not None
    forged = {
        "without": ApproveOwnerTask(user=ben, approved_at=now()),
        "copied": approval_of(authentic, "t_erase", ben, now(), AUTHORITY.mac),
    }
    for number, command in forged.items():
        task_id = tasks.propose(anna, "erase", number, **ARGUMENTS["erase"])
        ledger.execute(stream_of(task_id), command, at=now(), by=f"user:{ben}")
        tasks.carry_out(task_id)
        assert tasks.task(task_id).error == NOT_APPROVED, number


@pytest.mark.promise("second-person", "authority-outside-database")
def test_an_approval_that_only_the_database_knows_neither_blocks_nor_repeats_an_action(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str
) -> None:
    def forge(event: OwnerTaskApproved) -> None:
        ledger.append_undecided(
            stream_of(task_id), event, at=now(), by=f"user:{ben}", write_rows=lambda connection, events: None
        )

    task_id = tasks.propose(anna, "erase", **ARGUMENTS["erase"])
    approve(ledger, AUTHORITY, task_id, ben)
    [approval] = [r.event for r in ledger.history(stream_of(task_id)) if isinstance(r.event, OwnerTaskApproved)]
    forge(OwnerTaskApproved(user="nobody", approved_at=now(), mac=""))
    tasks.carry_out(task_id)
    assert (tasks.task(task_id).status, tasks.task(task_id).error) == ("DONE", "")
    forge(approval)
    with pytest.raises(IllegalTransition):
        tasks.carry_out(task_id)


@pytest.mark.promise("second-person")
def test_only_a_user_who_may_request_the_same_approves_or_rejects(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str
) -> None:
    task_id = tasks.propose(anna, "erase", **ARGUMENTS["erase"])
    foreign = new_user(ledger, role="operator", suppliers=["SW"])
    for person in (new_user(ledger, role="support"), foreign, "nobody"):
        with pytest.raises(ProposalFailed, match=NOT_ALLOWED):
            approve(ledger, AUTHORITY, task_id, person)
        with pytest.raises(ProposalFailed, match=NOT_ALLOWED):
            reject(ledger, AUTHORITY, task_id, person, "no")
    approve(ledger, AUTHORITY, task_id, ben)
    with closing(owner_of(ledger)) as owner:
        command = ChangeUserRole(role="auditor", suppliers=("*",))
        owner.execute(user_stream(ben), command, at=now(), by="operator:test")
    tasks.carry_out(task_id)
    assert tasks.task(task_id).error == NOT_ALLOWED, "the right of the second person counts before the task begins"
    with pytest.raises(ProposalFailed, match="there is no proposal"):
        approve(ledger, AUTHORITY, "t_nowhere", anna)


ACCESS: dict[str, tuple[Command, ...]] = {
    "created": (CreateUser(organisation="Nordwind Energie", role="operator", suppliers=("*",)),),
    "role": (ChangeUserRole(role="operator", suppliers=("*", "NW")),),
    "enabled": (DisableUser(), EnableUser()),
    "link": (IssueSignInLink(expires_at=now()),),
}
"""Commands by which a user gets access as another user."""


def take_over(ledger: Ledger, user: str, way: str, by: str) -> None:
    with closing(owner_of(ledger)) as owner:
        for command in ACCESS[way]:
            owner.execute(user_stream(user), command, at=now(), by=f"user:{by}")


@pytest.mark.promise("second-person")
def test_a_user_who_gives_another_one_access_does_not_count_as_two_persons(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str
) -> None:
    for way in ACCESS:
        stage_account(ledger, "NW", way)
        arguments = {"supplier": "NW", "external": way}
        task_id, late = (tasks.propose(anna, "erase", f"{way}{number}", **arguments) for number in (1, 2))
        other = "u_created" if way == "created" else new_user(ledger, role="operator")
        if way != "created":
            approve(ledger, AUTHORITY, late, other)
        take_over(ledger, other, way, anna)
        with pytest.raises(ProposalFailed, match=SAME_USER):
            approve(ledger, AUTHORITY, task_id, other)
        backwards = tasks.propose(other, "erase", f"{way}3", **arguments)
        with pytest.raises(ProposalFailed, match=SAME_USER):
            approve(ledger, AUTHORITY, backwards, anna)
        if way != "created":
            tasks.carry_out(late)
            assert tasks.task(late).error == SAME_USER, "it is checked again before the task begins"
        approve(ledger, AUTHORITY, task_id, ben)
        tasks.carry_out(task_id)
        assert tasks.task(task_id).status == "DONE", way


@pytest.mark.promise("second-person")
def test_a_user_who_gives_access_through_others_does_not_count_as_two_persons(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str
) -> None:
    task_id = tasks.propose(anna, "erase", **ARGUMENTS["erase"])
    between, carl = (new_user(ledger, role="operator") for _ in range(2))
    take_over(ledger, between, "link", anna)
    take_over(ledger, ben, "role", between)
    take_over(ledger, between, "enabled", ben)
    with pytest.raises(ProposalFailed, match=SAME_USER):
        approve(ledger, AUTHORITY, task_id, ben)
    take_over(ledger, carl, "link", new_user(ledger, role="operator"))
    approve(ledger, AUTHORITY, task_id, carl)
    take_over(ledger, carl, "link", between)
    tasks.carry_out(task_id)
    assert tasks.task(task_id).error == SAME_USER
    third, *both = (new_user(ledger, role="operator") for _ in range(3))
    for person in both:
        take_over(ledger, person, "link", third)
    of_both = tasks.propose(both[0], "erase", "2", **ARGUMENTS["erase"])
    with pytest.raises(ProposalFailed, match=SAME_USER):
        approve(ledger, AUTHORITY, of_both, both[1])
    link = tasks.done(both[0], "user_link", user_id=anna, token_sha256="ab" * 32)
    assert (link.status, link.error) == ("DONE", "")
    with pytest.raises(ProposalFailed, match=SAME_USER):  # the relay wrote the link in the name of the user
        approve(ledger, AUTHORITY, of_both, anna)


@pytest.mark.promise("second-person-preview")
def test_what_has_changed_since_the_proposal_is_not_done(ledger: Ledger, tasks: Tasks, anna: str, ben: str) -> None:
    before = tasks.propose(anna, "release", "1", supplier="NW")
    approve(ledger, AUTHORITY, before, ben)
    tasks.propose(anna, "release", "2", supplier="NW")
    complete(ledger, "4")
    with pytest.raises(ProposalFailed, match=CHANGED):
        approve(ledger, AUTHORITY, "t_release2", ben)
    tasks.carry_out(before)
    assert (tasks.task(before).status, tasks.task(before).error) == ("FAILED", CHANGED)
    assert not any(isinstance(recorded.event, AccountsReleased) for recorded in ledger.history("supplier/NW"))


def interrupted(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str, kind: OwnerTaskKind, **arguments: str
) -> OwnerTaskRequested:
    """An approved action whose first attempt has saved its subjects, and then lost the database."""
    if kind == "projection_switch":
        for number in ("2", "3"):
            tasks.done(anna, "projection_rebuild", number, name="import_supplier")
    task_id = tasks.propose(anna, kind, **(arguments or ARGUMENTS[kind]))
    approve(ledger, AUTHORITY, task_id, ben)
    request = request_of(ledger, task_id)
    assert request is not None
    ledger.execute(stream_of(task_id), StartOwnerTask(), at=now(), by="relay")
    tasks._subjects(task_id, request)
    return request


@pytest.mark.promise("second-person-preview")
def test_a_further_attempt_does_not_do_more_than_was_approved(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str, database: PostgresUrls
) -> None:
    kinds: list[OwnerTaskKind] = ["release", "complete", "projection_switch"]
    for kind in kinds:
        interrupted(ledger, tasks, anna, ben, kind)
    interrupted(ledger, tasks, anna, ben, "erase", supplier="NW", external="2")
    with administrator(database.admin) as connection:
        switch_if_needed(connection, next(p for p in PROJECTIONS if p.name == "import_supplier"), 3)
    complete(ledger, "4")
    stage_account(ledger, "NW", "2", name="another person")
    for kind in (*kinds, "erase"):
        tasks.carry_out(f"t_{kind}")
        assert (tasks.task(f"t_{kind}").status, tasks.task(f"t_{kind}").error) == ("FAILED", CHANGED), kind
    assert not any(
        isinstance(recorded.event, AccountsReleased | SupplierStatusChanged | SubjectErased)
        for recorded in ledger.history("supplier/NW", "import/NW/2")
    )


@pytest.mark.promise("second-person-preview")
@pytest.mark.parametrize("kind", ["release", "complete", "projection_switch", "erase"])
def test_a_further_attempt_of_an_action_that_is_done_succeeds_and_does_nothing(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str, kind: OwnerTaskKind
) -> None:
    request = interrupted(ledger, tasks, anna, ben, kind)
    tasks._execute(f"t_{kind}", request, tasks._subjects(f"t_{kind}", request))
    complete(ledger, "4")
    streams = ("supplier/NW", "import/NW/1", "import/NW/4")
    before = ledger.history(*streams)
    tasks.carry_out(f"t_{kind}")
    task = tasks.task(f"t_{kind}")
    assert (task.status, task.error, msgspec.json.decode(task.outcome)["is_changed"]) == ("DONE", "", False)
    assert ledger.history(*streams) == before


@pytest.mark.promise("second-person-preview", "revert-continues-after-kill")
def test_an_approved_revert_that_the_relay_did_not_finish_goes_on(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str, database: PostgresUrls
) -> None:
    complete(ledger, "4")
    arguments = {"supplier": "NW", "accounts": packed(["1", "4", "5"])}
    task_id = tasks.propose(anna, "revert", **arguments)
    approve(ledger, AUTHORITY, task_id, ben)
    request = request_of(ledger, task_id)
    assert request is not None
    tasks._subjects(task_id, request)
    ledger.execute(stream_of(task_id), StartOwnerTask(), at=now(), by="relay")
    with closing(owner_of(ledger)) as owner:  # of two accounts one is reverted, and then the relay was killed
        reverting.revert(owner, reverting.Selection(supplier="NW", externals=("1",)), "r_1", by=f"user:{anna}")
    complete(ledger, "5")
    tasks.carry_out(task_id)
    task = tasks.task(task_id)
    assert (task.status, task.error) == ("DONE", "")
    assert msgspec.json.decode(task.outcome) == {
        "reverted": 1, "kept": {"not_previewed": 1}, "failed": 1, "events": 3,
    }  # fmt: skip
    assert isinstance(ledger.history("import/NW/4")[-1].event, ImportReverted)
    assert not isinstance(ledger.history("import/NW/5")[-1].event, ImportReverted)


@pytest.mark.promise("second-person-preview", "authority-outside-database")
def test_accounts_that_only_the_database_adds_to_a_proposal_are_not_changed(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str, database: PostgresUrls
) -> None:
    """The relay's database role can write the list that a further attempt reads."""
    stage_account(ledger, "NW", "5")
    task_id = tasks.propose(anna, "cancel", supplier="NW", accounts=packed(["3"]))
    approve(ledger, AUTHORITY, task_id, ben)
    with psycopg.connect(database.roles["relay"], autocommit=True) as connection:
        write_progress(connection, task_id, 0, 0, '{"subjects": ["3", "5"]}')
    tasks.carry_out(task_id)
    assert tasks.task(task_id).status == "DONE"
    assert isinstance(ledger.history("import/NW/3")[-1].event, ImportCancelled)
    assert not isinstance(ledger.history("import/NW/5")[-1].event, ImportCancelled)


def test_a_proposal_that_nobody_decides_expires_and_a_rejected_one_ends(
    ledger: Ledger, tasks: Tasks, anna: str, ben: str, admin: Admin
) -> None:
    task_id = tasks.propose(anna, "erase", **ARGUMENTS["erase"])
    admin.execute("UPDATE owner_task SET requested_at = %s", (now() - PROPOSAL_LASTS - timedelta(seconds=1),))
    assert tasks.task(task_id).status == "EXPIRED"
    reject(ledger, AUTHORITY, task_id, ben, "not agreed")
    task = tasks.task(task_id)
    assert (task.status, task.decided_by, task.decided_for) == ("REJECTED", ben, "not agreed")
    with pytest.raises(ProposalFailed, match=DECIDED):
        approve(ledger, AUTHORITY, task_id, ben)
