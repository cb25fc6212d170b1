"""A worker that adds up a run lets imports go first, and leaves the job to others when it stops."""

import threading
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from projections.reconciliation import Reconciliation, request, waiting_jobs
from tests.support.make import an_account
from tests.support.rows import asked
from tests.support.staging import SUPPLIER, stage
from workers import reconcile
from workers.reconcile import Reconciler


def requested(database: PostgresUrls) -> Reconciliation:
    async def query(connection: psycopg.AsyncConnection[Any]) -> Reconciliation:
        return await request(connection, SUPPLIER, "r", reached=1, accounts=1)

    job = asked(database.service, query)
    assert isinstance(job, Reconciliation)
    return job


def test_imports_go_first_and_the_job_is_left_when_the_worker_stops(ledger: Ledger, database: PostgresUrls) -> None:
    stage(ledger, an_account(SUPPLIER))
    stop, job = threading.Event(), requested(database).job
    reconciler = Reconciler(ledger, worker=lambda: 1, stop=stop)
    with psycopg.connect(database.service, autocommit=True) as connection:
        assert waiting_jobs(connection) == [job]
        thread = threading.Thread(target=reconciler.work, args=([job],))
        thread.start()
        assert not requested(database).has_ended
        stop.set()
        thread.join(10)
        assert not thread.is_alive()
        assert waiting_jobs(connection) == [job]


def test_a_queue_of_imports_that_does_not_end_slows_the_job_down_only(
    ledger: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "MAX_PAUSE_S", 0.0)
    stage(ledger, an_account(SUPPLIER))
    job = requested(database).job
    Reconciler(ledger, worker=lambda: 1, stop=threading.Event()).work([job])
    assert requested(database).has_ended


def test_a_job_that_is_no_more_is_nothing_to_do(ledger: Ledger) -> None:
    Reconciler(ledger, worker=lambda: 1, stop=threading.Event()).work(["0123456789abcdef"])
