"""Totals of a run are the same if workers die meanwhile, and a job without requests is deleted."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from projections.platform.totals import Totals
from projections.queries import reconciliation
from projections.queries.reconciliation import (
    ABANDONED_AFTER,
    FRESH,
    LEASE,
    MAX_ATTEMPTS,
    MAX_OPEN,
    Reconciliation,
    Sum,
    TooManyReconciliations,
    add_portion,
    cancel,
    claim,
    note_delivery,
    reason_no_progress,
    release,
    request,
    run_portion,
    waiting_jobs,
)
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.rows import run_query
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor
from workers.actors.reconcile import Reconciler

ACCOUNTS = 7
EARLIER = (
    "UPDATE reconciliations SET ended_at = ended_at - %(s)s::interval, lease_until = lease_until - %(s)s::interval,"
    " requested_at = requested_at - %(s)s::interval"
)


@pytest.fixture
def run(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Accounts of the run `r`, in portions of two."""
    accounts = [an_account(SUPPLIER, number) for number in range(1, ACCOUNTS + 1)]
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, account, run="r") for account in accounts])
    follow(ledger)
    monkeypatch.setattr(reconciliation, "PORTION", 2)
    return ledger


@pytest.fixture
def connection(run: Ledger) -> Iterator[Connection[Any]]:
    with run.connection() as opened:
        yield opened


def requested(database: PostgresUrls, name: str = "r", reached: int = 1) -> Reconciliation:
    async def query(connection: psycopg.AsyncConnection[Any]) -> Reconciliation:
        return await request(connection, SUPPLIER, name, reached=reached, accounts=ACCOUNTS)

    job = run_query(database.service, query)
    assert isinstance(job, Reconciliation)
    return job


def alone(connection: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> Totals:
    """Return the totals of the whole run, computed in one portion."""
    with monkeypatch.context() as patched:
        patched.setattr(reconciliation, "PORTION", 100)
        totals, count, place = run_portion(connection, SUPPLIER, "r", (0, ""))
    assert (count, place) == (ACCOUNTS, None)
    return totals


@contextmanager
def alive(database: PostgresUrls, *workers: int) -> Iterator[None]:
    """Hold the locks of these workers while the block runs."""
    with psycopg.connect(database.service, autocommit=True) as holder:
        for worker in workers:
            holder.execute("SELECT pg_advisory_lock(%s, %s)", (locks.WORKERS, worker))
        yield


def whole_tables_read(connection: Connection[Any]) -> Any:
    connection.execute("SELECT pg_stat_force_next_flush()")
    query = "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE schemaname = 'platform'"
    return connection.execute(query).fetchone()


def test_a_portion_reads_no_whole_table(database: PostgresUrls, run: Ledger, connection: Connection[Any]) -> None:
    """Also without statistics, as after an import. Otherwise the time would grow with the square of the accounts."""
    with psycopg.connect(database.service, autocommit=True) as helper:
        whole_tables_read(connection)
        before = whole_tables_read(helper)
        with connection.transaction():
            run_portion(connection, SUPPLIER, "r", (0, ""), helper)
        whole_tables_read(connection)
        assert whole_tables_read(helper) == before


def work(ledger: Ledger, worker: int = 1) -> None:
    """Let one worker do the waiting jobs."""
    with ledger.connection() as connection:
        jobs = waiting_jobs(connection)
    Reconciler(ledger, worker=lambda: worker, stop=threading.Event()).work(jobs)


def decoded(job: Reconciliation) -> Totals:
    assert (job.has_ended, job.error) == (True, "")
    return msgspec.json.decode(job.totals, type=Totals)


@pytest.mark.promise("worker-adds-up-run")
def test_a_worker_that_dies_anywhere_is_taken_over_from_where_it_was(
    run: Ledger, connection: Connection[Any], database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = alone(connection, monkeypatch)
    for portions in range(4):
        job = requested(database).job
        with alive(database, 3):
            done = claim(connection, job, 3)
            for _ in range(portions):
                assert done is not None
                done = add_portion(connection, done, 3)
            assert waiting_jobs(connection) == []
            assert claim(connection, job, 4) is None
        wait_for(lambda: bool(waiting_jobs(connection)), "the server notices that the connection has gone")
        assert requested(database).accounts_done == 2 * portions
        work(run, worker=4)
        assert decoded(requested(database)) == expected
        connection.execute("DELETE FROM reconciliations")


@pytest.mark.promise("worker-adds-up-run")
def test_a_worker_that_is_late_changes_nothing(
    connection: Connection[Any], run: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = requested(database).job
    with alive(database, 3, 4):
        late = claim(connection, job, 3)
        assert late is not None
        connection.execute(EARLIER, {"s": LEASE})
        assert waiting_jobs(connection) == [job]
        taken: Sum | None = claim(connection, job, 4)
        assert add_portion(connection, late, 3) is None
        release(connection, job, 3, "late")
        while taken is not None:
            taken = add_portion(connection, taken, 4)
    assert decoded(requested(database)) == alone(connection, monkeypatch)


def test_a_worker_of_another_release_begins_anew(
    connection: Connection[Any], run: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = requested(database).job
    taken = claim(connection, job, 3)
    assert taken is not None
    add_portion(connection, taken, 3)
    monkeypatch.setattr(reconciliation, "CODE_VERSION", "another")
    again = claim(connection, job, 4)
    assert again is not None
    assert (again.totals, again.accounts_done) == (Totals(), 0)
    release(connection, job, 4)
    work(run)
    assert decoded(requested(database)) == alone(connection, monkeypatch)


@pytest.mark.promise("run-cannot-added-up")
def test_a_job_that_fails_again_and_again_has_failed(
    connection: Connection[Any], run: Ledger, database: PostgresUrls, owner: Ledger
) -> None:
    with owner.connection() as admin:
        admin.execute("ALTER TABLE platform.ledger RENAME TO hidden")
    requested(database)
    for _ in range(MAX_ATTEMPTS):
        assert not requested(database).has_ended
        work(run)
    assert waiting_jobs(connection) == []
    failed = requested(database)
    assert failed.has_ended
    assert failed.error == 'UndefinedTable: relation "platform.ledger" does not exist'


@pytest.mark.promise("run-cannot-added-up")
def test_a_job_whose_workers_all_die_or_that_nobody_asks_for_ends(
    connection: Connection[Any], database: PostgresUrls
) -> None:
    job = requested(database).job
    for worker in range(1, MAX_ATTEMPTS + 1):
        assert claim(connection, job, worker) is not None
    assert waiting_jobs(connection) == []
    assert requested(database).error == "every worker that ran the job has stopped before its end"
    connection.execute("DELETE FROM reconciliations")
    job = requested(database).job
    connection.execute(EARLIER, {"s": ABANDONED_AFTER})
    assert waiting_jobs(connection) == []
    assert claim(connection, job, 1) is None


def test_a_cancelled_job_stops_at_the_next_portion(connection: Connection[Any], database: PostgresUrls) -> None:
    job = requested(database).job
    taken = claim(connection, job, 3)
    assert taken is not None
    cancelled = run_query(database.service, cancel, SUPPLIER, "r")
    assert cancelled.job == job
    assert add_portion(connection, taken, 3) is None
    assert run_query(database.service, cancel, SUPPLIER, "r") is None
    assert requested(database).job != job


@pytest.mark.promise("certificate-rests-nothing-old")
def test_a_result_is_returned_once_and_again_only_while_it_is_fresh_and_nothing_happens(
    run: Ledger, connection: Connection[Any], database: PostgresUrls
) -> None:
    job = requested(database).job
    work(run)
    assert requested(database, reached=2).job == job  # it was not delivered yet
    run_query(database.service, note_delivery, job)
    assert requested(database, reached=1).job == job
    later = requested(database, reached=2).job
    assert later != job
    work(run)
    connection.execute(EARLIER, {"s": FRESH})
    assert requested(database, reached=2).job != later


def test_a_supplier_has_few_jobs_at_a_time(run: Ledger, database: PostgresUrls) -> None:
    jobs = [requested(database, f"r{number}").job for number in range(MAX_OPEN)]
    assert requested(database, "r0").job == jobs[0]
    with pytest.raises(TooManyReconciliations):
        requested(database, "another")
    work(run)
    assert requested(database, "another").job not in jobs


@pytest.mark.promise("run-cannot-added-up")
def test_why_there_is_no_progress(database: PostgresUrls, run: Ledger, connection: Connection[Any]) -> None:
    assert "worker" in run_query(database.service, reason_no_progress)
    with alive(database, 1):
        assert "relay" in run_query(database.service, reason_no_progress)
        connection.execute("SELECT pg_advisory_lock(%s)", (locks.RELAY,))
        assert run_query(database.service, reason_no_progress) is None
        stage(run, an_account(SUPPLIER, 99))
        assert "Imports are waiting" in run_query(database.service, reason_no_progress)
        connection.execute("SELECT pg_advisory_unlock(%s)", (locks.RELAY,))
