"""Accounts that nothing has followed are taken back; the platform is then as if they had never been sent."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as for_all
from hypothesis import strategies as st
from psycopg.rows import dict_row

from cli.known import NotFound, require_run
from embedded.postgres import PostgresUrls
from eventstore.aggregates import customer_mail
from eventstore.aggregates import supplier as suppliers
from eventstore.aggregates.import_process import CompleteImport, FailImport, ImportProcessed, ImportReverted, stream_of
from eventstore.aggregates.run import ReplayAccounts
from eventstore.aggregates.run import stream_of as run_stream
from eventstore.clock import now
from eventstore.events import recorded_of
from eventstore.log import recorder
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of
from eventstore.replay import Replay
from projections import INLINE, PROJECTIONS
from projections.platform.change import delete_accounts
from projections.platform.tables import ACCOUNT_TABLE, table_columns
from projections.retention import reverting
from projections.retention.erasure import erase
from projections.retention.reverting import (
    AccountReverted,
    Reverted,
    RunsBehind,
    Selection,
    apart_from_reverts,
    of_existing,
    releasable,
    release,
)
from projections.versions.build import administrator
from projections.versions.compare import heal, verify
from projections.versions.versions import build_version, switch, version_lock
from projections.views.account_release import account_released_at, run_released_at
from projections.views.import_run import run_imports
from projections.views.import_status import import_statuses, transfer_status
from tests.support.databases import Admin
from tests.support.following import attach, follow
from tests.support.make import an_account, changed, encoded, start
from tests.support.rows import find_accounts, run_query
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor


def revert(owner: Ledger, selection: Selection, reason: str, *, by: str, **named: Any) -> Reverted:
    follow(owner)
    return reverting.revert(owner, selection, reason, by=by, **named)


def preview(owner: Ledger, selection: Selection) -> Reverted:
    follow(owner)
    return reverting.preview(owner, selection)


RUN = Selection(supplier=SUPPLIER, run="monday")


def external(number: int) -> str:
    return str(an_account(SUPPLIER, number)["external_account_number"])


def named(*numbers: int) -> Selection:
    return Selection(supplier=SUPPLIER, externals=tuple(map(external, numbers)))


@pytest.fixture(autouse=True)
def supplier(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supplier. No projector runs beside the tests, so that nothing is waited for."""
    monkeypatch.setattr(reverting, "WAIT_S", 0.0)
    ledger.execute(suppliers.stream_of(SUPPLIER), suppliers.CreateSupplier(), at=now(), by="t")


def push(ledger: Ledger, *numbers: int, run: str = "monday", name: str = "") -> None:
    """Send accounts and process them."""
    accounts = [an_account(SUPPLIER, number) for number in numbers]
    if name:
        accounts = [changed(account, name, "customers", 0, "family_name") for account in accounts]
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, account, run=run) for account in accounts])
    follow(ledger)


def number_of(ledger: Ledger, number: int) -> str:
    stream = stream_of(SUPPLIER, external(number))
    return str(ledger.load([stream])[stream].state.account_number)


def on_the_platform(admin: Admin) -> dict[str, list[Any]]:
    """Return the rows of all accounts by table: by external number instead of account number, and without times."""
    content = {}
    for table in ACCOUNT_TABLE.all():
        columns = [name for name, _ in table_columns(table) if name not in ("account_number", "created_at")]
        names = ", ".join(f't."{name}"::text' for name in columns)
        query = (
            f"SELECT a.external_account_number, {names} FROM platform.{table.name} AS t"
            " JOIN platform.service_account AS a USING (account_number) ORDER BY 1, t::text"
        )
        content[table.name] = sorted(rows_of(admin, query), key=repr)
    return content


def assert_everything_agrees(database: PostgresUrls, admin: Admin) -> None:
    """Every projection is what the log says, and today's code would decide every event again."""
    for projection in PROJECTIONS:
        assert verify(database.admin, admin, projection, limit=3).first == (), projection.name
    with administrator(database.admin) as connection, connection.cursor(binary=True, row_factory=dict_row) as cursor:
        events = [recorded_of(row) for row in cursor.execute(f"{SELECT_EVENTS} ORDER BY position".encode())]
    assert [divergence.says for divergence in Replay().divergences(events)] == []


@pytest.mark.promise("revert-takes-back")
def test_a_reverted_run_is_gone_from_the_platform_and_stays_in_the_log(
    ledger: Ledger, owner: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    push(ledger, 1, 2)
    before = number_of(ledger, 1)
    assert preview(owner, RUN) == Reverted(reverted=2, kept={}, failed=0)
    done: list[tuple[int, int]] = []
    result = revert(owner, RUN, "wrong mapping", by="operator:t", progress=lambda *numbers: done.append(numbers))
    assert result == Reverted(reverted=2, kept={}, failed=0)
    assert done == [(2, 2)]
    follow(ledger)
    assert not any(on_the_platform(admin).values())
    assert find_accounts(admin, external(1), None).accounts == []
    [(_, status)] = run_query(database.service, import_statuses, [(SUPPLIER, external(1))]).items()
    assert (status.status, status.service_identifier, status.latest_error) == ("CANCELLED", None, None)
    assert (transfer_status(status).status, transfer_status(status).service_account_number) == ("UNKNOWN", "")
    recorded = ledger.history(stream_of(SUPPLIER, external(1)))[-1]
    assert recorded.event == ImportReverted(account_number=before, run="monday", reason="wrong mapping")
    assert recorded.caused_by == "operator:t"
    staged = ledger.history(stream_of(SUPPLIER, external(1)))[0].event
    assert ledger.payloads({stream_of(SUPPLIER, external(1)): staged.payload_sha256})  # type: ignore[attr-defined]
    assert revert(owner, RUN, "again", by="t") == Reverted(reverted=0, kept={}, failed=2)
    assert_everything_agrees(database, admin)


@pytest.mark.promise("revert-and-push-again")
def test_a_reverted_account_is_sent_again_with_other_content_under_a_new_number(
    ledger: Ledger, owner: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    push(ledger, 1)
    first = number_of(ledger, 1)
    revert(owner, RUN, "r", by="t")
    push(ledger, 1, name="Andersen")
    assert number_of(ledger, 1) not in ("", first)
    [(name,)] = rows_of(admin, "SELECT family_name FROM platform.customer WHERE ordinal = 1")
    assert name == "Andersen"
    for projection in PROJECTIONS:
        with version_lock(admin, projection):
            switch(admin, projection, build_version(database.admin, admin, projection).version)
    with administrator(database.admin) as connection:
        for projection in PROJECTIONS:
            heal(connection, projection, [stream_of(SUPPLIER, external(1))])
    assert_everything_agrees(database, admin)


@pytest.mark.promise("revert-takes-back", "revert-and-push-again")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@for_all(
    st.lists(st.integers(1, 6), min_size=1, max_size=6, unique=True),
    st.lists(st.sampled_from(["", "Andersen", "Becker"]), min_size=1, max_size=3),
)
def test_push_revert_push_is_push(
    ledger: Ledger, owner: Ledger, admin: Admin, numbers: list[int], names: list[str]
) -> None:
    """Both laws: revert ∘ push leaves nothing, and push ∘ revert ∘ push is push; histories and numbers aside."""
    push(ledger, *numbers, name=names[-1])
    expected = on_the_platform(admin)
    revert(owner, named(*numbers), "r", by="t")
    for name in names:
        push(ledger, *numbers, name=name)
        assert revert(owner, named(*numbers), "r", by="t").reverted == len(numbers)
        assert not any(on_the_platform(admin).values())
    push(ledger, *numbers, name=names[-1])
    assert on_the_platform(admin) == expected
    given_numbers = rows_of(
        admin, "SELECT state FROM events WHERE topic = 'import_processed.v1' AND supplier = %s", SUPPLIER
    )
    assert len(set(given_numbers)) == len(given_numbers)
    revert(owner, named(*numbers), "r", by="t")


@pytest.mark.promise("revert-keeps-what-was-followed")
def test_what_was_followed_is_kept_with_its_reason(
    ledger: Ledger, owner: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    push(ledger, 1, 2, 3)
    push(ledger, 4, run="friday")
    stage(ledger, an_account(SUPPLIER, 5), run="monday")
    wrong = changed(an_account(SUPPLIER, 6), "999999.99", "transfer_balance")
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, wrong, run="monday")])
    replayed = ReplayAccounts(accounts=(external(4),), mode="create")
    ledger.execute(run_stream(SUPPLIER, "monday", "1"), replayed, at=now(), by="t")
    attach(ledger, database, 1, is_cancelled=False)
    erase(owner, SUPPLIER, external(2), reason="r", at=now(), by="t")
    reference = [{"namespace": "platform", "value": number_of(ledger, 3)}]
    referring = changed(an_account(SUPPLIER, 7), reference, "references")
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, referring)])
    follow(ledger)
    expected = Reverted(
        reverted=0,
        kept={"erasure": 1, "other_run": 1, "pending": 1, "post_account_data": 1, "reference": 1},
        failed=1,
    )
    before = on_the_platform(admin)
    assert preview(owner, RUN) == expected
    assert revert(owner, RUN, "r", by="t") == expected
    assert on_the_platform(admin) == before
    assert revert(owner, named(7), "r", by="t").reverted == 1
    assert revert(owner, RUN, "r", by="t").reverted == 1, "nothing refers to it any more"
    assert revert(owner, named(4, 99), "r", by="t") == Reverted(reverted=1, kept={}, failed=1)


@pytest.mark.promise("revert-keeps-what-was-followed")
def test_an_account_of_another_supplier_keeps_nobody(ledger: Ledger, owner: Ledger, admin: Admin) -> None:
    """Otherwise a tenant could prevent the reverts of another one."""
    push(ledger, 1)
    other = changed(an_account("OTHER", 1), [{"namespace": "x", "value": number_of(ledger, 1)}], "references")
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, other)])
    assert revert(owner, RUN, "r", by="t").reverted == 1
    assert revert(owner, Selection(supplier="OTHER", run="monday"), "r", by="t") == Reverted(
        reverted=0, kept={}, failed=0
    )


@pytest.mark.promise("release-ends-reverts")
def test_released_accounts_are_never_reverted_and_show_it(
    ledger: Ledger, owner: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    push(ledger, 1)
    push(ledger, 2, run="friday")
    assert run_query(database.service, run_released_at, SUPPLIER, "monday") is None
    assert release(owner, SUPPLIER, "monday", "checked", by="operator:t")
    assert not release(owner, SUPPLIER, "monday", "checked", by="operator:t")
    assert preview(owner, named(1, 2)) == Reverted(reverted=1, kept={"release": 1}, failed=0)
    [(released_at,)] = rows_of(admin, "SELECT released_at FROM account_release")
    assert run_query(database.service, account_released_at, SUPPLIER, external(1)) == released_at
    assert run_query(database.service, run_released_at, SUPPLIER, "monday") == released_at
    statuses = run_query(database.service, import_statuses, [(SUPPLIER, external(n)) for n in (1, 2)])
    shown = {name: b'"released_at"' in encoded(status) for (_, name), status in statuses.items()}
    assert shown == {external(1): True, external(2): False}
    imports, _ = run_query(database.service, run_imports, (0, ""), supplier=SUPPLIER, run="monday", status=None)
    assert [one.released_at for one in imports] == [released_at]
    push(ledger, 3)
    assert preview(owner, RUN) == Reverted(reverted=1, kept={"release": 1}, failed=0)
    with owner.connection() as connection:
        assert releasable(connection, SUPPLIER, "") == 2
        assert releasable(connection, SUPPLIER, "", most=1) == 1
    assert release(owner, SUPPLIER, "", "all", by="t")
    assert revert(owner, named(1, 2, 3), "r", by="t") == Reverted(reverted=0, kept={"release": 3}, failed=0)
    assert run_query(database.service, account_released_at, SUPPLIER, external(1)) == released_at, "the first counts"
    assert_everything_agrees(database, admin)


@pytest.mark.promise("complete-is-a-release")
def test_a_complete_supplier_is_released_also_what_is_processed_meanwhile_and_after_it_was_opened_again(
    ledger: Ledger, owner: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    push(ledger, 1)
    waiting = stage(ledger, an_account(SUPPLIER, 2), run="monday")
    complete, ongoing = (suppliers.ChangeSupplierStatus(status=status) for status in ("complete", "ongoing"))
    ledger.execute(suppliers.stream_of(SUPPLIER), complete, at=now(), by="t", write_rows=apart_from_reverts(SUPPLIER))
    ImportProcessor(ledger, worker=lambda: 7).process([waiting])
    follow(ledger)
    for _ in range(2):
        assert revert(owner, RUN, "r", by="t") == Reverted(reverted=0, kept={"release": 2}, failed=0)
        [(created_at,)] = rows_of(
            admin, "SELECT account_created_at FROM import_status WHERE external_account_number = %s", external(2)
        )
        assert run_query(database.service, account_released_at, SUPPLIER, external(2)) == created_at
        assert run_query(database.service, run_released_at, SUPPLIER, "monday") == created_at
        ledger.execute(
            suppliers.stream_of(SUPPLIER), ongoing, at=now(), by="t", write_rows=apart_from_reverts(SUPPLIER)
        )
    push(ledger, 3)
    assert revert(owner, RUN, "r", by="t") == Reverted(reverted=1, kept={"release": 2}, failed=0)
    assert_everything_agrees(database, admin)


@pytest.mark.promise("revert-cancels-mail")
def test_an_e_mail_that_is_not_sent_goes_and_the_next_account_has_its_own(
    ledger: Ledger, owner: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    sends = suppliers.ConfigureSupplier(sends_customer_emails=True)
    ledger.execute(suppliers.stream_of(SUPPLIER), sends, at=now(), by="t")
    push(ledger, 1, 2)
    sent = customer_mail.stream_of(SUPPLIER, external(2))
    for command in (
        customer_mail.StartMail(worker=7, lease_until=now(), max_attempts=3),
        customer_mail.DeliverMail(attempt=1, message_id="<m>"),
    ):
        ledger.execute(sent, command, at=now(), by="t")
    revert(owner, RUN, "r", by="t")
    states: dict[str, str] = dict(rows_of(admin, "SELECT external_account_number, status FROM customer_mail"))
    assert states == {external(1): "CANCELLED", external(2): "DELIVERED"}
    push(ledger, 1, 2)
    for number in (1, 2):
        stream = customer_mail.stream_of(SUPPLIER, external(number))
        mail = ledger.load([stream])[stream].state
        assert (mail.status, mail.requested.account_number) == ("REQUESTED", number_of(ledger, number))
    assert_everything_agrees(database, admin)


def attached(ledger: Ledger, database: PostgresUrls) -> None:
    attach(ledger, database, 1, is_cancelled=False)


def released(ledger: Ledger, owner: Ledger, run: str) -> None:
    command = suppliers.ReleaseAccounts(run=run)
    owner.execute(suppliers.stream_of(SUPPLIER), command, at=now(), by="t", write_rows=apart_from_reverts(SUPPLIER))
    follow(ledger)


def completed(ledger: Ledger) -> None:
    command = suppliers.ChangeSupplierStatus(status="complete")
    ledger.execute(suppliers.stream_of(SUPPLIER), command, at=now(), by="t", write_rows=apart_from_reverts(SUPPLIER))


@pytest.mark.promise("revert-keeps-what-was-followed")
@pytest.mark.parametrize(
    ("interfering", "reason"),
    [
        (lambda ledger, owner, database: attached(ledger, database), "post_account_data"),
        (lambda ledger, owner, database: released(ledger, owner, ""), "release"),
        (lambda ledger, owner, database: released(ledger, owner, "monday"), "release"),
        (lambda ledger, owner, database: completed(ledger), "release"),
        (
            lambda ledger, owner, database: erase(owner, SUPPLIER, external(1), reason="r", at=now(), by="t"),
            "erasure",
        ),
    ],
    ids=["record", "release", "release of the run", "complete", "erasure"],
)
def test_what_follows_between_the_decision_and_the_append_is_seen(
    ledger: Ledger,
    owner: Ledger,
    database: PostgresUrls,
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
    interfering: Callable[[Ledger, Ledger, PostgresUrls], Any],
    reason: str,
) -> None:
    push(ledger, 1)
    planned, left = reverting._planned, [interfering]

    def planned_then_changed(*arguments: Any) -> Any:
        plan = planned(*arguments)
        while left:
            left.pop()(ledger, owner, database)
        return plan

    monkeypatch.setattr(reverting, "_planned", planned_then_changed)
    assert revert(owner, RUN, "r", by="t") == Reverted(reverted=0, kept={reason: 1}, failed=0)
    assert len(on_the_platform(admin)["service_account"]) == 1
    follow(ledger)
    assert_everything_agrees(database, admin)


@pytest.mark.promise("revert-keeps-what-was-followed")
def test_a_record_waits_for_a_revert_and_finds_its_account_gone(ledger: Ledger, owner: Ledger, admin: Admin) -> None:
    push(ledger, 1)
    number, wrote = number_of(ledger, 1), list[str]()
    has_waited, ended = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with ledger.connection() as connection, connection.transaction():
                of_existing([(SUPPLIER, number)], lambda connection, events: wrote.append("a record"))(connection, ())
        except AccountReverted:
            has_waited.set()
        ended.set()

    thread = threading.Thread(target=write)
    with owner.connection() as connection, connection.transaction():
        apart_from_reverts(SUPPLIER)(connection, ())
        thread.start()
        assert not ended.wait(0.3)
        delete_accounts(connection, "platform", [number])
    thread.join(30)
    assert has_waited.is_set()
    assert not wrote


def test_accounts_that_take_long_to_delete_are_reverted(
    ledger: Ledger, database: PostgresUrls, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(ledger, 1)
    admin.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.6); RETURN OLD; END$$;"
        " CREATE TRIGGER wait BEFORE DELETE ON platform.service_account FOR EACH ROW EXECUTE FUNCTION wait()"
    )
    monkeypatch.setattr(recorder, "SESSION", recorder.SESSION.replace("'15s'", "'300ms'"))
    with closing(Ledger(database.admin, views=INLINE)) as owner:
        assert revert(owner, RUN, "r", by="t").reverted == 1
    assert on_the_platform(admin)["service_account"] == []


def test_a_worker_that_is_late_cannot_bring_an_account_back(ledger: Ledger, owner: Ledger, admin: Admin) -> None:
    push(ledger, 1)
    stream = stream_of(SUPPLIER, external(1))
    first = ledger.load([stream])[stream].state
    revert(owner, RUN, "r", by="t")
    late = [
        CompleteImport(start=first.start, account_number=first.account_number),
        FailImport(start=first.start, code="c", detail="D."),
        start(),
    ]
    assert [ledger.execute_many({stream: command}, at=now(), by="t")[0].recorded for command in late] == [None] * 3
    stage(ledger, an_account(SUPPLIER, 1))
    [outcome] = ledger.execute_many({stream: late[0]}, at=now(), by="t")
    assert outcome.recorded is None
    ImportProcessor(ledger, worker=lambda: 8).process([stream])
    events = [recorded.event for recorded in ledger.history(stream)]
    assert sum(isinstance(event, ImportProcessed) for event in events) == 2


@pytest.mark.promise("revert-continues-after-kill")
def test_a_revert_that_ends_in_the_middle_continues_where_it_was(
    ledger: Ledger, owner: Ledger, database: PostgresUrls, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reverting, "BATCH", 2)
    push(ledger, *range(1, 6))

    def die(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        revert(owner, RUN, "r", by="t", progress=die)
    query = "SELECT stream FROM events WHERE topic = 'import_reverted.v1' ORDER BY position"
    expected = [(stream_of(SUPPLIER, external(number)),) for number in range(1, 5)]
    assert rows_of(admin, query) == expected, "in the order of the log"
    assert preview(owner, RUN) == Reverted(reverted=1, kept={}, failed=4)
    assert revert(owner, RUN, "r", by="t") == Reverted(reverted=1, kept={}, failed=4)
    follow(ledger)
    assert_everything_agrees(database, admin)


def test_two_reverts_at_once_revert_each_account_once(
    ledger: Ledger, database: PostgresUrls, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reverting, "BATCH", 3)
    push(ledger, *range(1, 13))

    def one(_: int) -> Reverted:
        with closing(Ledger(database.admin, views=INLINE)) as ledger:
            return reverting.revert(ledger, named(*range(1, 13)), "r", by="t")

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(one, range(2)))
    assert sum(result.reverted for result in results) == 12
    assert all(result.kept == {} for result in results)
    follow(ledger)
    assert_everything_agrees(database, admin)


def test_a_run_whose_accounts_are_not_all_known_is_not_reverted(ledger: Ledger, owner: Ledger) -> None:
    """As while no relay runs. A release of a run counts as well only when its accounts are known."""
    push(ledger, 1)
    stage(ledger, an_account(SUPPLIER, 2), run="monday")
    with pytest.raises(RunsBehind):
        reverting.revert(owner, RUN, "r", by="t")
    assert reverting.preview(owner, named(1)).reverted == 1
    command = suppliers.ReleaseAccounts(run="monday")
    owner.execute(suppliers.stream_of(SUPPLIER), command, at=now(), by="t")
    with pytest.raises(RunsBehind):
        reverting.revert(owner, named(1), "r", by="t")


def test_a_run_that_has_just_begun_is_not_called_unknown(ledger: Ledger, owner: Ledger) -> None:
    """The lists of runs follow the log."""
    stage(ledger, an_account(SUPPLIER, 1), run="tuesday")
    with owner.connection() as connection, pytest.raises(RunsBehind):
        require_run(connection, SUPPLIER, "tuesday")
    follow(owner)
    with owner.connection() as connection:
        require_run(connection, SUPPLIER, "tuesday")
        with pytest.raises(NotFound):
            require_run(connection, SUPPLIER, "wednesday")


@pytest.mark.parametrize("topic", ["import_reverted.v1", "accounts_released.v1", "mail_cancelled.v1"])
def test_only_the_owner_may_append_what_reverts_and_releases(admin: Admin, topic: str) -> None:
    assert rows_of(admin, "SELECT role FROM appenders WHERE topic = %s", topic) == []
