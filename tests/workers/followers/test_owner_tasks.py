"""What users ask of the database's owner is carried out once, for those who may ask."""

import threading
from contextlib import closing
from typing import Any

import msgspec
import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import SubjectErased
from eventstore.aggregates.owner_task import OwnerTaskKind, RequestOwnerTask, StartOwnerTask, stream_of, with_mac
from eventstore.aggregates.user import ChangeUserRole
from eventstore.aggregates.user import stream_of as user_stream
from eventstore.clock import now
from eventstore.errors import IllegalTransition
from eventstore.log.ledger import Ledger
from projections.views.access_key import SELECT_KEYS
from projections.views.owner_task import OwnerTask, open_tasks, owner_task
from telemetry.supervision import supervision
from tests.support.console import AUTHORITY, new_user, stage_account
from tests.support.databases import owner_of
from tests.support.following import follow
from tests.support.rows import asked_beside
from tests.support.running import wait_for
from workers.followers.owner_tasks import OwnerTasks


def ask(ledger: Ledger, user: str, kind: OwnerTaskKind, number: str = "", **arguments: str) -> str:
    task_id = f"t_{kind}{number}"
    command = RequestOwnerTask(kind=kind, arguments=arguments, user=user, reason="r_1", requested_at=now())
    command = with_mac(command, task_id, AUTHORITY.mac)
    ledger.execute(stream_of(task_id), command, at=now(), by=f"user:{user}")
    return task_id


def told(ledger: Ledger, task_id: str) -> OwnerTask:
    with ledger.connection() as connection:
        task: OwnerTask = asked_beside(connection, owner_task, task_id)
        return task


def verified(asked: Any, progress: Any) -> dict[str, Any]:
    progress(1)
    return {"events": 7, "problems": []}


@pytest.fixture
def tasks(ledger: Ledger, database: PostgresUrls) -> OwnerTasks:
    return OwnerTasks(ledger, database.admin, AUTHORITY, verified)


def test_a_person_is_erased_once_by_whoever_asked(ledger: Ledger, tasks: OwnerTasks) -> None:
    stage_account(ledger, "NW", "1")
    user = new_user(ledger, role="operator", suppliers=["NW"])
    task_id = ask(ledger, user, "erase", supplier="NW", external="1")
    ledger.execute(stream_of(task_id), StartOwnerTask(), at=now(), by="relay")  # and then the relay was killed
    tasks.carry_out(task_id)
    task = told(ledger, task_id)
    assert (task.status, task.outcome) == ("DONE", '{"is_changed":true}')
    [erased] = [one for one in ledger.history("import/NW/1") if type(one.event).__name__ == "SubjectErased"]
    assert erased.caused_by == f"user:{user}"


@pytest.mark.asvs("V8.3.1")
@pytest.mark.parametrize(("role", "suppliers"), [("support", ["*"]), ("operator", ["SW"])])
def test_who_may_not_do_it_is_refused_by_the_relay_too(
    ledger: Ledger, tasks: OwnerTasks, role: Any, suppliers: list[str]
) -> None:
    stage_account(ledger, "NW", "1")
    task_id = ask(ledger, new_user(ledger, role=role, suppliers=suppliers), "erase", supplier="NW", external="1")
    tasks.carry_out(task_id)
    assert (told(ledger, task_id).status, told(ledger, task_id).error) == (
        "FAILED",
        "the user must have the right to do this",
    )


def test_a_role_that_was_taken_away_counts_before_the_task_begins(ledger: Ledger, tasks: OwnerTasks) -> None:
    stage_account(ledger, "NW", "1")
    user = new_user(ledger, role="operator")
    task_id = ask(ledger, user, "heal", supplier="NW", external="1")
    command = ChangeUserRole(role="auditor", suppliers=("*",))
    with closing(owner_of(ledger)) as owner:
        owner.execute(user_stream(user), command, at=now(), by="operator:test")
    tasks.carry_out(task_id)
    assert told(ledger, task_id).status == "FAILED"


def test_a_projection_is_verified_rebuilt_and_switched(ledger: Ledger, tasks: OwnerTasks) -> None:
    stage_account(ledger, "NW", "1")
    user = new_user(ledger, role="operator")
    outcomes = {}
    for kind, arguments in (
        ("projection_verify", {"name": "import_supplier"}),
        ("projection_rebuild", {"name": "import_supplier"}),
        ("projection_switch", {"name": "import_supplier", "version": "2"}),
        ("log_verify", {"all": "yes"}),
        ("heal", {"supplier": "NW", "external": "1"}),
    ):
        tasks.carry_out(ask(ledger, user, kind, **arguments))  # type: ignore[arg-type]
        task = told(ledger, f"t_{kind}")
        assert (task.status, task.error) == ("DONE", "")
        outcomes[kind] = task.outcome
    assert '"is_changed":true' in outcomes["projection_switch"]
    assert '"changed":0,"added":0,"removed":0' in outcomes["projection_rebuild"]


def test_the_rows_that_differ_are_told_and_persons_in_them_are_not(
    ledger: Ledger, tasks: OwnerTasks, database: PostgresUrls
) -> None:
    stage_account(ledger, "NW", "1", customers=[{"given_name": "Anna", "family_name": "Zauberwald"}])
    follow(ledger)
    user = new_user(ledger, role="operator")
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("UPDATE import_status SET status = 'CANCELLED'")
        connection.execute("UPDATE account_search SET names = 'anna zauberberg'")
    for name, column, before, after in (
        ("import_status", "status", "CANCELLED", "PENDING"),
        ("account_search", "names", "a•••", "a•••"),
    ):
        task_id = f"t_{name}"
        command = RequestOwnerTask(kind="projection_verify", arguments={"name": name}, user=user)
        command = with_mac(command, task_id, AUTHORITY.mac)
        ledger.execute(stream_of(task_id), command, at=now(), by=f"user:{user}")
        tasks.carry_out(task_id)
        outcome = msgspec.json.decode(told(ledger, task_id).outcome)
        assert (outcome["changed"], outcome["added"], outcome["removed"]) == (1, 0, 0)
        [row] = outcome["rows"]
        assert (row["table"], row["kind"], row["columns"]) == (name, "changed", [[column, before, after]])
        assert "1" in str(row["key"])
        assert "zauber" not in str(outcome).lower()


def test_how_far_verifying_the_log_is_can_be_shown(ledger: Ledger, database: PostgresUrls) -> None:
    seen = []

    def verified(asked: Any, progress: Any) -> dict[str, Any]:
        progress(1)
        with ledger.connection() as connection:
            seen.append(asked_beside(connection, owner_task, "t_log_verify"))
        return {"events": 4, "problems": []}

    stage_account(ledger, "NW", "1")
    task_id = ask(ledger, new_user(ledger, role="operator"), "log_verify", all="yes")
    OwnerTasks(ledger, database.admin, AUTHORITY, verified).carry_out(task_id)
    [task] = seen
    assert (task.done, task.total) == (1, 4)


def test_what_cannot_be_done_says_why(ledger: Ledger, tasks: OwnerTasks) -> None:
    user = new_user(ledger, role="operator")
    task_id = ask(ledger, user, "projection_switch", name="import_supplier", version="9")
    tasks.carry_out(task_id)
    assert told(ledger, task_id).status == "FAILED"
    assert told(ledger, task_id).error


def test_keys_are_created_and_revoked_by_those_whose_they_are(ledger: Ledger, tasks: OwnerTasks) -> None:
    own = {"organisation": "Nordwind Energie", "key_id": "abcd1234"}
    new = own | {"secret_sha256": "0" * 64, "role": "importer", "suppliers": "NW"}
    user = new_user(ledger, role="operator", suppliers=["NW"])
    tasks.carry_out(ask(ledger, user, "key_create", **new))
    tasks.carry_out(ask(ledger, user, "key_revoke", **own))
    assert [told(ledger, f"t_{kind}").status for kind in ("key_create", "key_revoke")] == ["DONE", "DONE"]
    with ledger.connection() as connection:
        [key] = connection.execute(SELECT_KEYS, (0,)).fetchall()
    assert (key["organisation"], key["revoked_at"] is not None) == ("Nordwind Energie", True)


@pytest.mark.asvs("V8.4.1")
@pytest.mark.api_top_10("API5")
def test_no_key_reaches_further_than_who_asked_for_it(ledger: Ledger, tasks: OwnerTasks) -> None:
    new = {"organisation": "Nordwind Energie", "key_id": "abcd1234", "secret_sha256": "0" * 64, "role": "importer"}
    user = new_user(ledger, role="operator", suppliers=["NW"])
    tasks.carry_out(ask(ledger, user, "key_create", **new, suppliers="NW,SW"))
    assert told(ledger, "t_key_create").status == "FAILED"


@pytest.mark.asvs("V8.4.1")
@pytest.mark.api_top_10("API5")
@pytest.mark.parametrize("suppliers", ["NW,SW", "*"])
def test_nobody_revokes_a_key_that_reaches_further_than_they_do(
    ledger: Ledger, tasks: OwnerTasks, suppliers: str
) -> None:
    own = {"organisation": "Nordwind Energie", "key_id": "abcd1234"}
    new = own | {"secret_sha256": "0" * 64, "role": "importer", "suppliers": suppliers}
    tasks.carry_out(ask(ledger, new_user(ledger, role="operator"), "key_create", **new))
    tasks.carry_out(ask(ledger, new_user(ledger, role="operator", suppliers=["NW"]), "key_revoke", **own))
    assert [told(ledger, f"t_{kind}").status for kind in ("key_create", "key_revoke")] == ["DONE", "FAILED"]


def test_tasks_are_carried_out_while_the_relay_runs(ledger: Ledger, tasks: OwnerTasks) -> None:
    stop = threading.Event()
    thread = tasks.start(stop)
    task_id = ask(ledger, new_user(ledger, role="operator"), "log_verify")
    for _ in range(600):
        if not told(ledger, task_id).is_open:
            break
        stop.wait(0.1)
    stop.set()
    thread.join()
    assert told(ledger, task_id).status == "DONE"


def test_a_task_whose_stream_cannot_be_read_keeps_no_other_task_back(
    ledger: Ledger, tasks: OwnerTasks, database: PostgresUrls
) -> None:
    user = new_user(ledger, role="operator")
    broken, other = ask(ledger, user, "log_verify"), ask(ledger, user, "projection_verify", name="import_status")
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
        admin.execute("UPDATE events SET state = '\\xff' WHERE stream = %s", (stream_of(broken),))
    stop = threading.Event()
    thread = tasks.start(stop)
    wait_for(lambda: told(ledger, other).status == "DONE", "the other task is carried out")
    assert [one.name for one in supervision.troubles()] == [f"owner's task {broken}"]
    stop.set()
    thread.join()


@pytest.mark.promise("authority-outside-database")
@pytest.mark.asvs("V13.2.1")
def test_a_request_that_the_api_has_not_made_is_not_carried_out(
    ledger: Ledger, tasks: OwnerTasks, database: PostgresUrls
) -> None:
    """The service's database role can name any user, copy a request, and change the view of it."""
    stage_account(ledger, "NW", "1")
    stage_account(ledger, "NW", "2")
    user = new_user(ledger, role="operator")
    authentic = ask(ledger, user, "erase", supplier="NW", external="1")
    [requested] = [one.event for one in ledger.history(stream_of(authentic))]
    copy = msgspec.convert(msgspec.structs.asdict(requested), RequestOwnerTask)
    forged = {
        "without": msgspec.structs.replace(copy, mac=""),
        "copied": copy,
        "changed": msgspec.structs.replace(copy, arguments={"supplier": "NW", "external": "2"}),
        "of_another": msgspec.structs.replace(copy, user=new_user(ledger, role="operator")),
    }
    for task_id, command in forged.items():
        ledger.execute(stream_of(task_id), command, at=now(), by=f"user:{user}")
        tasks.carry_out(task_id)
        assert told(ledger, task_id).error == "the request must have a MAC of the api"
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute("UPDATE owner_task SET arguments = %s", ('{"supplier":"NW","external":"2"}',))
    tasks.carry_out(authentic)
    erased = {n: any(isinstance(one.event, SubjectErased) for one in ledger.history(f"import/NW/{n}")) for n in (1, 2)}
    assert erased == {1: True, 2: False}


@pytest.mark.promise("authority-outside-database")
def test_a_request_that_is_inserted_again_is_not_carried_out_again(
    ledger: Ledger, tasks: OwnerTasks, database: PostgresUrls
) -> None:
    user = new_user(ledger, role="operator")
    task_id = ask(ledger, user, "projection_verify", name="import_status")
    tasks.carry_out(task_id)
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute(
            "INSERT INTO events (position, stream, version, topic, recorded_at, caused_by, code_version, state)"
            " SELECT (SELECT max(position) + 1 FROM events), stream, 4, topic, recorded_at, caused_by, '', state"
            " FROM events WHERE stream = %s AND version = 1",
            (stream_of(task_id),),
        )
    with pytest.raises(IllegalTransition):
        tasks.carry_out(task_id)


def test_users_take_turns_with_tasks(ledger: Ledger, tasks: OwnerTasks, database: PostgresUrls) -> None:
    """Also a user whose tasks were carried out just now."""
    stage_account(ledger, "NW", "1")
    many, few = (new_user(ledger, role="operator") for _ in range(2))
    asked = [ask(ledger, many, "heal", str(one), supplier="NW", external="1") for one in range(4)]
    other = ask(ledger, few, "heal", supplier="NW", external="1")
    with psycopg.connect(database.roles["relay"], autocommit=True) as connection:
        assert open_tasks(connection) == [asked[0], other, *asked[1:]]
        tasks.carry_out(asked[0])
        assert open_tasks(connection) == [other, *asked[1:]]
