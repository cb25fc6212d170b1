"""Owner's tasks: each request of a user is carried out once, if the user has the right to make it."""

import itertools
import threading
from contextlib import closing
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CompleteImport, ImportReverted, SubjectErased
from eventstore.aggregates.owner_task import OwnerTaskKind, RequestOwnerTask, StartOwnerTask, stream_of
from eventstore.aggregates.user import ChangeUserRole, User
from eventstore.aggregates.user import stream_of as user_stream
from eventstore.clock import now
from eventstore.errors import IllegalTransition, StoreUnavailable
from eventstore.log.ledger import Ledger
from projections.auxiliary.sessions import token_sha256, use_link
from projections.auxiliary.user_details import find_user_details
from projections.retention import reverting
from projections.views.access_key import SELECT_KEYS
from projections.views.owner_task import open_tasks
from telemetry.supervision import supervision
from tests.support.console import new_user, stage_account
from tests.support.databases import Admin, owner_of
from tests.support.following import follow
from tests.support.make import start
from tests.support.owner_tasks import Tasks
from tests.support.running import wait_for
from tests.support.threads import running
from workers.operations import insert_details, new_details, user_of
from workers.proposals import request_of

NO_RIGHT = ("FAILED", "the user must have the right to do this")
KEY = {"organisation": "Nordwind Energie", "key_id": "abcd1234"}
NEW_KEY = KEY | {"secret_sha256": "0" * 64, "role": "importer"}


@pytest.fixture
def tasks(ledger: Ledger, database: PostgresUrls) -> Tasks:
    stage_account(ledger, "NW", "1")
    return Tasks(ledger, database)


@pytest.fixture
def operator(ledger: Ledger) -> str:
    return new_user(ledger, role="operator")


@pytest.fixture
def of_nw(ledger: Ledger) -> str:
    """An operator of the supplier NW only."""
    return new_user(ledger, role="operator", suppliers=["NW"])


def erased(ledger: Ledger, external: str) -> list[str]:
    """Actors of the erasures of an import."""
    return [
        recorded.caused_by
        for recorded in ledger.history(f"import/NW/{external}")
        if isinstance(recorded.event, SubjectErased)
    ]


def test_a_person_is_erased_once_by_the_user_who_requested_it(ledger: Ledger, tasks: Tasks, of_nw: str) -> None:
    task_id = tasks.request(of_nw, "erase", supplier="NW", external="1")
    ledger.execute(stream_of(task_id), StartOwnerTask(), at=now(), by="relay")  # and then the relay was killed
    tasks.carry_out(task_id)
    task = tasks.task(task_id)
    assert (task.status, task.outcome) == ("DONE", '{"is_changed":true}')
    assert erased(ledger, "1") == [f"user:{of_nw}"]


@pytest.mark.promise("requested-operation-tried")
def test_a_task_is_tried_until_the_owner_of_the_database_can_connect(
    tasks: Tasks, operator: str, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.recorder.CONNECT_TIMEOUT_S", 0.05)
    tasks._admin_url = "postgresql://127.0.0.1:9/nowhere?connect_timeout=1"
    task_id = tasks.request(operator, "key_create", **NEW_KEY, suppliers="NW")
    for _ in range(4):
        with pytest.raises(StoreUnavailable):
            tasks.carry_out(task_id)
        assert tasks.task(task_id).status == "RUNNING"
    tasks._admin_url = database.admin
    monkeypatch.undo()
    tasks.carry_out(task_id)
    assert (tasks.task(task_id).status, tasks.task(task_id).error) == ("DONE", "")


def test_a_task_that_ends_its_process_is_given_up_after_three_attempts(
    tasks: Tasks, operator: str, database: PostgresUrls, ledger: Ledger
) -> None:
    task_id = tasks.request(operator, "key_create", **NEW_KEY, suppliers="NW")
    for _ in range(3):
        assert Tasks(ledger, database)._attempt(task_id) is not None  # each in a process of its own
    tasks.carry_out(task_id)
    assert (tasks.task(task_id).status, tasks.task(task_id).error) == ("FAILED", "given up after 3 attempts")


@pytest.mark.promise("revert-continues-after-kill")
def test_a_revert_that_the_relay_did_not_finish_goes_on_with_progress(
    ledger: Ledger, tasks: Tasks, of_nw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reverting, "BATCH", 1)
    numbers = ("A-1", "A-2")
    for external, number in zip(("1", "2"), numbers, strict=True):
        if external != "1":
            stage_account(ledger, "NW", external)
        stream = f"import/NW/{external}"
        for command in (start(), CompleteImport(start=2, account_number=number)):
            ledger.execute(stream, command, at=now(), by="worker:7")
    with closing(owner_of(ledger)) as owner:
        reverting.revert(owner, reverting.Selection(supplier="NW", externals=("1",)), "r_1", by=f"user:{of_nw}")
    task_id = tasks.request(of_nw, "revert", supplier="NW", external="2")
    ledger.execute(stream_of(task_id), StartOwnerTask(), at=now(), by="relay")  # and then the relay was killed
    tasks.carry_out(task_id)
    task = tasks.task(task_id)
    assert (task.status, task.done, task.total) == ("DONE", 1, 1)
    assert msgspec.json.decode(task.outcome) == {"reverted": 1, "kept": {}, "failed": 0, "events": 1}
    last = ledger.history("import/NW/2")[-1]
    assert (last.event, last.caused_by) == (ImportReverted(account_number="A-2", reason="r_1"), f"user:{of_nw}")


@pytest.mark.asvs("V8.3.1")
def test_a_user_without_the_right_is_refused_by_the_relay_too(ledger: Ledger, tasks: Tasks) -> None:
    users = [new_user(ledger, role="support"), new_user(ledger, role="operator", suppliers=["SW"])]
    requests: list[tuple[OwnerTaskKind, dict[str, str]]] = [
        ("erase", {"external": "1"}),
        ("revert", {"run": "monday"}),
        ("release", {"run": "monday"}),
    ]
    for (kind, arguments), (number, user) in itertools.product(requests, enumerate(users)):
        task = tasks.done(user, kind, str(number), supplier="NW", **arguments)
        assert (task.status, task.error) == NO_RIGHT, (kind, number)


@pytest.mark.asvs("V8.3.1")
@pytest.mark.promise("key-heals-account")
def test_a_key_heals_accounts_of_its_suppliers_and_requests_nothing_else(tasks: Tasks, operator: str) -> None:
    cases: list[tuple[OwnerTaskKind, str, str, bool, bool]] = [
        ("heal", "operator", "NW", False, True),
        ("heal", "operator", "*", False, True),
        ("heal", "operator", "SW", False, False),
        ("heal", "support", "NW", False, False),
        ("heal", "operator", "NW", True, False),
        ("erase", "operator", "NW", False, False),
    ]
    for number, (kind, role, suppliers, is_revoked, is_done) in enumerate(cases):
        key = {"organisation": "Nordwind Energie", "key_id": f"abcd123{number}"}
        new_key = NEW_KEY | key | {"role": role, "secret_sha256": str(number) * 64}
        tasks.done(operator, "key_create", str(number), **new_key, suppliers=suppliers)
        if is_revoked:
            tasks.done(operator, "key_revoke", **key)
        arguments = {"supplier": "NW", "external": "1", "organisation": key["organisation"]}
        task = tasks.done(f"key:{key['key_id']}", kind, str(number), **arguments)
        assert (task.status, task.error) == (("DONE", "") if is_done else NO_RIGHT), cases[number]


def test_a_role_that_was_taken_away_counts_before_the_task_begins(ledger: Ledger, tasks: Tasks, operator: str) -> None:
    task_id = tasks.request(operator, "heal", supplier="NW", external="1")
    with closing(owner_of(ledger)) as owner:
        command = ChangeUserRole(role="auditor", suppliers=("*",))
        owner.execute(user_stream(operator), command, at=now(), by="operator:test")
    tasks.carry_out(task_id)
    assert tasks.task(task_id).status == "FAILED"


def test_a_projection_is_verified_rebuilt_and_switched(tasks: Tasks, operator: str) -> None:
    wanted: list[tuple[OwnerTaskKind, dict[str, str], str]] = [
        ("projection_verify", {"name": "import_supplier"}, '"changed":0'),
        ("projection_rebuild", {"name": "import_supplier"}, '"changed":0,"added":0,"removed":0'),
        ("projection_switch", {"name": "import_supplier", "version": "2"}, '"is_changed":true'),
        ("log_verify", {"all": "yes"}, '"problems":[]'),
        ("heal", {"supplier": "NW", "external": "1"}, '"projections":'),
    ]
    for kind, arguments, outcome in wanted:
        task = tasks.done(operator, kind, **arguments)
        assert (task.status, task.error, outcome in task.outcome) == ("DONE", "", True), kind
    [task] = tasks.seen
    assert (task.done, task.total >= 10) == (1, True)
    failed = tasks.done(operator, "projection_switch", "9", name="import_supplier", version="9")
    assert (failed.status, bool(failed.error)) == ("FAILED", True)


def test_a_version_that_cannot_be_compared_is_built_all_the_same(tasks: Tasks, operator: str, admin: Admin) -> None:
    """As by `projections rebuild`, which leaves the version that it has built."""
    admin.execute("ALTER TABLE import_supplier RENAME TO moved_away")
    task = tasks.done(operator, "projection_rebuild", name="import_supplier")
    outcome = msgspec.json.decode(task.outcome)
    assert (task.status, outcome["version"], outcome["is_switched"]) == ("DONE", 2, False)
    assert "changed" not in outcome, "nothing is said about rows"


def test_rows_that_differ_are_in_the_result_without_persons(
    ledger: Ledger, tasks: Tasks, operator: str, admin: Admin
) -> None:
    stage_account(ledger, "SW", "2", customers=[{"given_name": "Anna", "family_name": "Zauberwald"}])
    follow(ledger)
    admin.execute("UPDATE import_status SET status = 'CANCELLED' WHERE supplier = 'SW'")
    admin.execute("UPDATE account_search SET names = 'anna zauberberg' WHERE stream LIKE '%/SW/%'")
    for name, column, before, after in (
        ("import_status", "status", "CANCELLED", "PENDING"),
        ("account_search", "names", "a•••", "a•••"),
    ):
        outcome = msgspec.json.decode(tasks.done(operator, "projection_verify", name, name=name).outcome)
        assert (outcome["changed"], outcome["added"], outcome["removed"]) == (1, 0, 0)
        [row] = outcome["rows"]
        assert (row["table"], row["kind"], row["columns"]) == (name, "changed", [[column, before, after]])
        assert "2" in str(row["key"])
        assert "zauber" not in str(outcome).lower()


def test_keys_are_created_and_revoked_by_operators_of_their_suppliers(ledger: Ledger, tasks: Tasks, of_nw: str) -> None:
    assert tasks.done(of_nw, "key_create", **NEW_KEY, suppliers="NW").status == "DONE"
    assert tasks.done(of_nw, "key_revoke", **KEY).status == "DONE"
    with ledger.connection() as connection:
        [key] = connection.execute(SELECT_KEYS, (0,)).fetchall()
    assert (key["organisation"], key["revoked_at"] is not None) == ("Nordwind Energie", True)


@pytest.mark.asvs("V8.4.1")
@pytest.mark.api_top_10("API5")
def test_nobody_creates_or_revokes_a_key_for_suppliers_that_they_do_not_see(
    tasks: Tasks, operator: str, of_nw: str
) -> None:
    for suppliers in ("NW,SW", "*"):
        key = KEY | {"key_id": f"of {suppliers}"}
        new_key = NEW_KEY | key | {"suppliers": suppliers}
        assert tasks.done(of_nw, "key_create", f"1{suppliers}", **new_key).status == "FAILED"
        assert tasks.done(operator, "key_create", f"2{suppliers}", **new_key).status == "DONE"
        assert tasks.done(of_nw, "key_revoke", suppliers, **key).status == "FAILED"


def test_a_task_whose_stream_cannot_be_read_does_not_block_other_tasks(
    tasks: Tasks, operator: str, admin: Admin
) -> None:
    broken = tasks.request(operator, "log_verify")
    other = tasks.request(operator, "projection_verify", name="import_status")
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    admin.execute("UPDATE events SET state = '\\xff' WHERE stream = %s", (stream_of(broken),))
    with running(tasks.start):
        wait_for(lambda: tasks.task(other).status == "DONE", "the other task is carried out")
        assert [trouble.name for trouble in supervision.troubles()] == [f"owner's task {broken}"]


@pytest.mark.promise("authority-outside-database")
@pytest.mark.asvs("V13.2.1")
def test_a_request_that_the_api_has_not_made_is_not_carried_out(
    ledger: Ledger, tasks: Tasks, operator: str, database: PostgresUrls, admin: Admin
) -> None:
    """The service's database role can name any user, copy a request, and change the view of it."""
    stage_account(ledger, "NW", "2")
    authentic = tasks.request(operator, "erase", supplier="NW", external="1")
    [requested] = [recorded.event for recorded in ledger.history(stream_of(authentic))]
    copy = msgspec.convert(msgspec.structs.asdict(requested), RequestOwnerTask)
    forged = {
        "without": msgspec.structs.replace(copy, mac=""),
        "copied": copy,
        "changed": msgspec.structs.replace(copy, arguments={"supplier": "NW", "external": "2"}),
        "of_another": msgspec.structs.replace(copy, user=new_user(ledger, role="operator")),
    }
    for task_id, command in forged.items():
        ledger.execute(stream_of(task_id), command, at=now(), by=f"user:{operator}")
        tasks.carry_out(task_id)
        assert tasks.task(task_id).error == "the request must have a MAC of the api"
    admin.execute("UPDATE owner_task SET arguments = %s", ('{"supplier":"NW","external":"2"}',))
    tasks.carry_out(authentic)
    assert (len(erased(ledger, "1")), erased(ledger, "2")) == (1, [])


@pytest.mark.promise("authority-outside-database")
def test_a_request_that_is_inserted_again_is_not_carried_out_again(tasks: Tasks, operator: str, admin: Admin) -> None:
    tasks.done(operator, "projection_verify", name="import_status")
    admin.execute(
        "INSERT INTO events (position, stream, version, topic, recorded_at, caused_by, code_version, state)"
        " SELECT (SELECT max(position) + 1 FROM events), stream, 4, topic, recorded_at, caused_by, '', state"
        " FROM events WHERE stream = %s AND version = 1",
        (stream_of("t_projection_verify"),),
    )
    with pytest.raises(IllegalTransition):
        tasks.carry_out("t_projection_verify")


def test_tasks_of_users_take_turns(ledger: Ledger, tasks: Tasks, database: PostgresUrls) -> None:
    """Also if a task of the user was carried out just now."""
    many, few = (new_user(ledger, role="operator") for _ in range(2))
    first, *rest = [tasks.request(many, "heal", str(number), supplier="NW", external="1") for number in range(4)]
    other = tasks.request(few, "heal", supplier="NW", external="1")
    with psycopg.connect(database.roles["relay"], autocommit=True) as connection:
        assert open_tasks(connection, of_access=False) == [first, other, *rest]
        tasks.carry_out(first)
        assert open_tasks(connection, of_access=False) == [other, *rest]


def test_keys_and_users_do_not_wait_for_other_tasks(
    tasks: Tasks, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, ends = threading.Event(), threading.Event()

    def verify_slowly(arguments: Any, progress: Any) -> dict[str, Any]:
        begins.set()
        assert ends.wait(60)
        return {}

    monkeypatch.setattr(tasks, "_verify_log", verify_slowly)
    verification = tasks.request(operator, "log_verify")
    with running(tasks.start):
        assert begins.wait(60)
        of_key = tasks.request(operator, "key_create", **NEW_KEY, suppliers="NW")
        following = tasks.request(operator, "heal", supplier="NW", external="1")
        wait_for(lambda: tasks.task(of_key).status == "DONE", "the key is created")
        assert [tasks.task(task).status for task in (verification, following)] == ["RUNNING", "REQUESTED"]
        ends.set()
        wait_for(lambda: tasks.task(following).status == "DONE", "the other tasks follow")
    assert tasks.task(verification).status == "DONE"


def new_person(ledger: Ledger) -> str:
    """Write the details of a user who is not created yet, and return the id."""
    details = new_details("eve@example.org", "Eve", "O")
    with ledger.connection() as connection:
        insert_details(connection, details)
    return details.user_id


def is_known(ledger: Ledger) -> bool:
    with ledger.connection() as connection:
        return bool(find_user_details(connection, "eve@example.org"))


def test_a_user_is_created_changed_and_erased(ledger: Ledger, tasks: Tasks, operator: str) -> None:
    user_id = new_person(ledger)
    changes: list[tuple[OwnerTaskKind, dict[str, str], Any, Any]] = [
        ("user_create", {"organisation": "X", "role": "auditor", "suppliers": "NW"}, "active", "auditor"),
        ("user_role", {"role": "support", "suppliers": "NW"}, "active", "support"),
        ("user_disable", {}, "disabled", "support"),
        ("user_enable", {}, "active", "support"),
        ("user_sign_out", {}, "active", "support"),
        ("user_erase", {}, "erased", "support"),
    ]
    for kind, arguments, status, role in changes:
        task = tasks.done(operator, kind, **arguments, user_id=user_id)
        assert (task.status, task.error) == ("DONE", "")
        assert user_of(ledger, user_id) == User(status=status, organisation="X", role=role, suppliers=("NW",))
    assert not is_known(ledger)


def test_nobody_changes_a_user_who_sees_more_suppliers(ledger: Ledger, tasks: Tasks, of_nw: str) -> None:
    cases: list[tuple[str, list[str], OwnerTaskKind, dict[str, str]]] = [
        ("Nordwind Energie", ["*"], "user_disable", {}),
        ("Nordwind Energie", ["NW"], "user_role", {"role": "operator", "suppliers": "*"}),
        ("Nordwind Energie", ["NW"], "user_role", {"role": "operator", "suppliers": "NW,SW"}),
        ("Nordwind Energie", ["NW", "SW"], "user_erase", {}),
        ("Südwind", ["NW"], "user_link", {"token_sha256": "0" * 64}),
    ]
    for number, (organisation, suppliers, kind, arguments) in enumerate(cases):
        target = new_user(ledger, organisation=organisation, suppliers=suppliers)
        before = user_of(ledger, target)
        task = tasks.done(of_nw, kind, str(number), user_id=target, **arguments)
        assert (task.status, task.error) == NO_RIGHT, cases[number]
        assert user_of(ledger, target) == before


def test_the_details_of_a_user_whose_creation_is_refused_are_deleted(ledger: Ledger, tasks: Tasks) -> None:
    wanted = {"organisation": "X", "role": "operator", "suppliers": "*", "user_id": new_person(ledger)}
    assert tasks.done(new_user(ledger, role="support"), "user_create", **wanted).status == "FAILED"
    assert not is_known(ledger)


def test_the_address_of_a_user_whose_creation_was_given_up_can_be_used_again(
    ledger: Ledger, tasks: Tasks, operator: str, database: PostgresUrls
) -> None:
    wanted = {"organisation": "X", "role": "operator", "suppliers": "*"}
    task_id = tasks.request(operator, "user_create", **wanted, user_id=new_person(ledger))
    for _ in range(3):
        assert Tasks(ledger, database)._attempt(task_id) is not None  # each in a process of its own
    tasks.carry_out(task_id)
    assert tasks.task(task_id).status == "FAILED"

    assert tasks.done(operator, "user_create", "2", **wanted, user_id=new_person(ledger)).status == "DONE"


def test_a_link_that_was_used_is_not_written_again(ledger: Ledger, tasks: Tasks, operator: str) -> None:
    """The relay may die between its work and the event that records it."""
    user = new_user(ledger)
    task_id = tasks.request(operator, "user_link", user_id=user, token_sha256=token_sha256("token").hex())
    ledger.execute(stream_of(task_id), StartOwnerTask(), at=now(), by="relay")
    request = request_of(ledger, task_id)
    assert request is not None
    tasks._execute(task_id, request)
    with ledger.connection() as connection:
        assert use_link(connection, "token", now())
    tasks.carry_out(task_id)
    assert tasks.task(task_id).status == "DONE"
    with ledger.connection() as connection:
        assert not use_link(connection, "token", now() - timedelta(minutes=1))
