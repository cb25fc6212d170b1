"""What all workers add up together is what one process says, wherever the run is cut and whoever dies on the way."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from eventstore.log.long_jobs import end_job, take_part
from projections import run_totals
from projections.platform.totals import Totals
from projections.run_totals import AddedUp, add_up_piece, even_cuts, pieces_at, spread_totals
from projections.spreading.pieces import TotalsPiece
from schemas.job_progress import JobProgress
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.parts import alive, working
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage
from workers.process_imports import ImportProcessor

ACCOUNTS = 8


@given(st.lists(st.integers(0, 50), unique=True), st.integers(0, 30), st.integers(0, 100))
def test_parts_have_every_position_once_wherever_a_run_is_cut(ends: list[int], further: int, position: int) -> None:
    cuts = [(end, number) for number, end in enumerate(sorted(ends), 1)]
    pieces = pieces_at("S", "r", cuts, len(cuts) + further)
    holding = [
        piece
        for piece, _ in pieces
        if isinstance(piece, TotalsPiece) and piece.first <= position and (piece.last is None or position <= piece.last)
    ]
    assert len(holding) == 1
    assert sum(accounts for _, accounts in pieces) == len(cuts) + further


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 10_000), st.integers(1, 50))
def test_a_long_run_is_cut_evenly_and_at_each_position_once(first: int, length: int, accounts: int, parts: int) -> None:
    cuts = even_cuts(first, first + length, accounts, parts)
    assert len(cuts) < parts or parts == 1
    assert [end for end, _ in cuts] == sorted({end for end, _ in cuts})
    assert sum(number for _, number in pieces_at("S", "r", cuts, accounts)) == accounts


@pytest.fixture
def run(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Accounts of a run, which is cut into parts of two."""
    accounts = [an_account(SUPPLIER, number) for number in range(1, ACCOUNTS + 1)]
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, account, run="r") for account in accounts])
    follow(ledger)
    monkeypatch.setattr(run_totals, "ACCOUNTS_A_PART", 2)
    return ledger


@pytest.fixture
def connection(run: Ledger) -> Iterator[Connection[Any]]:
    with run.connection() as opened:
        yield opened


def alone(connection: Connection[Any]) -> Totals:
    return add_up_piece(connection, TotalsPiece(SUPPLIER, "r", 0, None), lambda: None)


def asked(connection: Connection[Any]) -> JobProgress | AddedUp:
    return spread_totals(connection, SUPPLIER, "r", accounts=ACCOUNTS, reached=1)


def together(connection: Connection[Any]) -> Totals:
    """Asked until workers have added it up."""
    added: list[AddedUp] = []

    def is_added() -> bool:
        looked = asked(connection)
        if isinstance(looked, AddedUp):
            added.append(looked)
        return bool(added)

    wait_for(is_added, "workers have added it up")
    end_job(connection, added[0].job, "done")
    return added[0].totals


def test_workers_add_up_what_one_process_says(connection: Connection[Any], database: PostgresUrls) -> None:
    with working(database, 2):
        first = asked(connection)
        assert isinstance(first, JobProgress)
        assert (first.parts, first.events) == (5, ACCOUNTS)  # the last one is open, for what joins the run meanwhile
        assert together(connection) == alone(connection)
    assert alone(connection).accounts == ACCOUNTS


def test_a_run_that_is_too_long_to_be_counted_is_cut_by_positions(
    connection: Connection[Any], database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_totals, "MAX_COUNTED", ACCOUNTS - 1)
    with working(database, 2):
        first = asked(connection)
        assert isinstance(first, JobProgress)
        assert (first.parts, first.events) == (ACCOUNTS // 2, ACCOUNTS)
        assert together(connection) == alone(connection)


def test_a_part_that_is_taken_over_changes_nothing(connection: Connection[Any], database: PostgresUrls) -> None:
    with alive(database, 3):
        first = asked(connection)
        assert isinstance(first, JobProgress)
        assert take_part(connection, first.job, 2, 3) is not None  # and dies with it
    with working(database, 1):
        assert together(connection) == alone(connection)


def test_what_was_deleted_by_hand_is_missing(
    connection: Connection[Any], owner: Ledger, database: PostgresUrls
) -> None:
    with owner.connection() as admin:
        admin.execute("DELETE FROM platform.service_account WHERE external_account_number LIKE '%3'")
    with working(database, 1):
        totals = together(connection)
    assert totals.accounts == ACCOUNTS - 1
    assert totals.paths["external_account_number"].count == ACCOUNTS - 1


def test_a_run_without_accounts_has_one_part() -> None:
    assert pieces_at("S", "r", [], 0) == [(TotalsPiece("S", "r", 0, None), 0)]
    assert reduce(Totals.merge, [], Totals()) == run_totals.merged([])
