"""Numbers of runs, their accounts and their lists."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from api.intake import run_names
from api.intake.run_names import RunNames
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of as import_stream
from eventstore.aggregates.run import ReplayAccounts, stream_of
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import FOLLOWING
from projections.views.import_run import IMPORT_RUN, newest_runs, run_state, runs_page
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.make import stage as stage_run
from tests.support.problems import INVALID, MISSING, failed
from tests.support.rows import run_query
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor
from workers.followers.projector import Projector


def test_a_failure_counts_once_in_its_run_as_in_the_statistics(ledger: Ledger, database: PostgresUrls) -> None:
    for external, problems in (("1", (MISSING, "invalid_iban@payment_instructions.0")), ("2", ())):
        failed(ledger, external, INVALID, *problems, run="r")
    projector = Projector(ledger, FOLLOWING)
    with ledger.connection() as connection:
        while projector.advance(connection, IMPORT_RUN):
            pass
    state = run_query(database.service, run_state, "S", "r")
    assert [(error.code, error.path, error.number) for error in state.record.errors] == [
        (INVALID, "", 1),
        ("path_does_not_exist_in_file_store", "statements[].statement_path", 1),
    ]


def replay(ledger: Ledger, run: str, *externals: str) -> None:
    ledger.execute(
        stream_of(SUPPLIER, run, "batch"), ReplayAccounts(accounts=externals, mode="create"), at=now(), by="t"
    )


def test_accounts_that_join_many_runs_count_there_in_the_state_that_each_run_found(
    ledger: Ledger, database: PostgresUrls
) -> None:
    """The events may be applied together or one by one."""
    processor = ImportProcessor(ledger, worker=lambda: 7)
    ledger.execute(supplier_stream(SUPPLIER), CreateSupplier(), at=now(), by="t")
    records = []
    for is_one_by_one in (False, True):
        accounts = [an_account(SUPPLIER, number) for number in ((3, 4) if is_one_by_one else (1, 2))]
        numbers = [account["external_account_number"] for account in accounts]
        steps: list[Callable[[], Any]] = [
            partial(stage, ledger, accounts[0]),
            partial(replay, ledger, f"a{is_one_by_one}", *numbers),
            partial(processor.process, [import_stream(SUPPLIER, numbers[0])]),
            partial(replay, ledger, f"b{is_one_by_one}", *numbers),
            partial(stage, ledger, accounts[1]),
            partial(replay, ledger, f"c{is_one_by_one}", *numbers),
        ]
        for step in steps:
            step()
            if is_one_by_one:
                follow(ledger)
        follow(ledger)
        runs = [run_query(database.service, run_state, SUPPLIER, f"{name}{is_one_by_one}") for name in "abc"]
        records.append([run.record.by_status for run in runs])
    together, one_by_one = records
    assert together == one_by_one
    assert together[2] == {"PENDING": 1, "PROCESSED": 1}


def test_runs_are_listed_in_pages_in_the_order_in_which_they_began(ledger: Ledger, database: PostgresUrls) -> None:
    for run in ("c", "a", "b", "d", "e"):
        replay(ledger, run, "1")
    follow(ledger)
    listed, after = [], ""
    while True:
        states, after = run_query(database.service, partial(runs_page, after=after, limit=2), SUPPLIER)
        listed.append([state.record.run for state in states])
        if not after:
            break
    assert listed == [["c", "a"], ["b", "d"], ["e"]]
    assert run_query(database.service, partial(runs_page, after="gone", limit=2), SUPPLIER) == ([], "")


def test_new_names_of_runs_are_admitted_up_to_a_limit_by_the_role_of_the_api(
    ledger: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_names, "MAX_NEW", 3)
    replay(ledger, "old", "1")
    follow(ledger)
    api = Ledger(database.roles["api"], views=())
    names = RunNames(api)
    wanted = [(SUPPLIER, run) for run in ("a", "b", "c", "old")]
    assert asyncio.run(names.admitted(wanted)) == {*wanted} - {(SUPPLIER, "c")}
    assert asyncio.run(names.admitted([("OTHER", "c")])) == {("OTHER", "c")}
    api.close()


def test_runs_of_several_suppliers_are_listed_newest_first(ledger: Ledger, database: PostgresUrls) -> None:
    for supplier, run in (("S", "a"), ("T", "a"), ("S", "b")):
        ledger.execute(import_stream(supplier, f"{supplier}{run}"), stage_run(run=run), at=now(), by="t")
    follow(ledger)
    whole = run_query(database.service, newest_runs, ["S", "T"], limit=9)
    assert [state.key for state in whole] == [("S", "b"), ("T", "a"), ("S", "a")]
    assert [state.record.by_status for state in whole] == [{"PENDING": 1}] * 3
    assert run_query(database.service, newest_runs, ["S", "T"], before=whole[0].sort_key, limit=1) == whole[1:2]
    assert [state.key for state in run_query(database.service, newest_runs, ["T"], limit=9)] == [("T", "a")]
