"""How far the service's workers are, in a line; and what Python programs hear of it."""

import asyncio
from typing import Any

import pytest

from importledger_client import AsyncClient, Client, JobProgress
from importledger_client.adding_up import line_of
from tests.support.bulk import bulk, ndjson, wait_until_processed
from tests.support.make import an_account
from tests.support.running import RunningService, wait_for

TOLD: dict[str, Any] = {"parts": 40, "events": 200_000}


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            JobProgress(**TOLD, parts_done=12, events_done=60_000, workers=16, eta_s=187.0),
            "r · 12 of 40 parts · 60,000 of 200,000 accounts · 16 workers · ETA 3m07s",
        ),
        (
            JobProgress(**TOLD, workers=1, why="Imports wait, and come first."),
            "r · 0 of 40 parts · 0 of 200,000 accounts · 1 worker · Imports wait, and come first.",
        ),
        (
            JobProgress(**TOLD, parts_done=40, events_done=200_000, workers=2, eta_s=0.0),
            "r · 40 of 40 parts · 200,000 of 200,000 accounts · 2 workers",
        ),
    ],
)
def test_how_far_it_is_stands_in_a_line(told: JobProgress, line: str) -> None:
    assert line_of("r", told) == line


def test_programs_get_what_workers_add_up_and_hear_how_far_they_are(service: RunningService) -> None:
    importer = service.importer()
    accounts = [an_account(importer.supplier, number) for number in (1, 2)]
    bulk(service, importer, ndjson(*accounts), "?run=p")
    wait_until_processed(importer, *accounts)
    heard: list[JobProgress] = []

    async def of_workers(manifest: dict[str, Any]) -> dict[str, Any]:
        async with AsyncClient(service.base_url, importer.api_key) as client:
            return await client.certificate(importer.supplier, "p", manifest, spread=True, on_progress=heard.append)

    with Client(service.base_url, importer.api_key) as client:
        wait_for(
            lambda: client.run(importer.supplier, "p").by_status == {"PROCESSED": 2}, "the run is seen to have ended"
        )
        alone = client.totals(importer.supplier, "p")
        assert client.totals(importer.supplier, "p", spread=True, on_progress=heard.append) == alone
    assert asyncio.run(of_workers(alone))["totals"] == alone
    assert {(told.parts, told.events) for told in heard} == {(1, 2)}
    assert len({told.job for told in heard}) == 2
