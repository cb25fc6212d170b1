"""How far a worker is with adding up a run, in a line and for Python programs."""

import psycopg
import pytest

from importledger_client import Client, JobProgress, NotFound
from importledger_client.commands.reconcile import line_of
from tests.support.bulk import bulk, ndjson, wait_until_processed
from tests.support.make import an_account
from tests.support.running import RunningService, wait_for
from tests.support.whole import admin_url


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            JobProgress(accounts=200_000, accounts_done=60_000, eta_s=187.0),
            "r · 60,000 of 200,000 accounts added up · ETA 3m07s",
        ),
        (
            JobProgress(accounts=200_000, why="Imports wait, and come first."),
            "r · 0 of 200,000 accounts added up · Imports wait, and come first.",
        ),
        (JobProgress(accounts=3, accounts_done=3, eta_s=0.0), "r · 3 of 3 accounts added up"),
    ],
)
def test_how_far_it_is_stands_in_a_line(told: JobProgress, line: str) -> None:
    assert line_of("r", told) == line


def test_programs_get_what_a_worker_adds_up_and_can_cancel_it(service: RunningService) -> None:
    importer = service.importer()
    accounts = [an_account(importer.supplier, number) for number in (1, 2)]
    bulk(service, importer, ndjson(*accounts), "?run=p")
    wait_until_processed(importer, *accounts)

    with Client(service.base_url, importer.api_key) as client:
        wait_for(
            lambda: client.run(importer.supplier, "p").by_status == {"PROCESSED": 2}, "the run is seen to have ended"
        )
        totals = client.totals(importer.supplier, "p")
        assert totals["accounts"] == 2
        assert client.certificate(importer.supplier, "p", totals)["totals"] == totals
        cancelled = client.cancel_totals(importer.supplier, "p")
        assert cancelled == JobProgress(accounts=2, accounts_done=2, eta_s=0.0)
        with pytest.raises(NotFound):
            client.cancel_totals(importer.supplier, "p")


def test_programs_hear_how_far_a_worker_is_until_it_is_done(service: RunningService) -> None:
    importer, heard = service.importer(), list[JobProgress]()
    account = an_account(importer.supplier, 1)
    bulk(service, importer, ndjson(account), "?run=held")
    wait_until_processed(importer, account)
    with psycopg.connect(admin_url(service), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(7015, 78)")  # a worker that lives, and does nothing
        connection.execute(
            "INSERT INTO reconciliations (supplier, run, job, reached, accounts, accounts_done, worker, lease_until)"
            " VALUES (%s, 'held', 'held', 0, 10, 4, 78, 'infinity')",
            (importer.supplier,),
        )

        def hear(progress: JobProgress) -> None:
            heard.append(progress)
            connection.execute("DELETE FROM reconciliations WHERE job = 'held'")

        with Client(service.base_url, importer.api_key) as client:
            assert client.totals(importer.supplier, "held", on_progress=hear)["accounts"] == 1
    assert (heard[0].accounts, heard[0].accounts_done) == (10, 4)
