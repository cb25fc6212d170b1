"""Reconciliation of a run: imports have priority, and another worker continues when this one stops."""

import threading
from functools import partial
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import identity_of
from eventstore.aggregates.run import ReplayAccounts, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.queries import reconciliation
from projections.queries.reconciliation import Reconciliation, cancel, request, waiting_jobs
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.rows import run_query
from tests.support.staging import SUPPLIER, stage
from workers.actors import reconcile
from workers.actors.process_imports import ImportProcessor
from workers.actors.reconcile import Reconciler


def requested(database: PostgresUrls, run: str = "r") -> Reconciliation:
    async def query(connection: psycopg.AsyncConnection[Any]) -> Reconciliation:
        return await request(connection, SUPPLIER, run, reached=1, accounts=1)

    job = run_query(database.service, query)
    assert isinstance(job, Reconciliation)
    return job


@pytest.mark.promise("imports-come-adding-up")
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
        thread.join(60)
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


@pytest.mark.promise("reconciliations-take-turns")
def test_a_job_takes_turns_with_others_and_goes_on_alone(
    ledger: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a large run of one supplier would delay those of all others."""
    monkeypatch.setattr(reconcile, "JOB_S", 0.0)
    monkeypatch.setattr(reconciliation, "PORTION", 1)
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in (1, 2, 3)]
    ImportProcessor(ledger, worker=lambda: 7).process(streams)
    externals = tuple(identity_of(stream)[1] for stream in streams)
    for run in ("large", "other"):
        ledger.execute(stream_of(SUPPLIER, run, "b"), ReplayAccounts(externals, mode="create"), at=now(), by="t")
    follow(ledger)
    large, other = requested(database, "large").job, requested(database, "other").job
    reconciler = Reconciler(ledger, worker=lambda: 1, stop=threading.Event())
    reconciler.work([large])
    assert requested(database, "large").accounts_done == 1
    with psycopg.connect(database.service, autocommit=True) as connection:
        assert waiting_jobs(connection) == [other, large]
    run_query(database.service, partial(cancel, supplier=SUPPLIER, run="other"))
    reconciler.work([large])
    assert requested(database, "large").has_ended
