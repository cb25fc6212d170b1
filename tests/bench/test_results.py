"""The page of results: ratios beside their bars, costs an account, and latencies."""

import asyncio
import os
import sys
from pathlib import Path

from bench.results import Bar, Results, page, write_results
from bench.service import Measured, median
from bench.usage import per_account, usage_of

RESULTS = Results(
    machine="2 × something",
    measured_at="2026-11-22 03:00 UTC",
    rounds=5,
    measured={
        "ceiling": Measured(2_000.0, {"api": 100.0, "generator": 40.0}),
        "create, workers running": Measured(900.0, {"api": 380.0, "relay": 90.0, "worker": 500.0, "generator": 41.0}),
        "create at 200/s": Measured(200.0, {"api": 400.0}, {"p50": 4.0, "p90": 6.0, "p99": 9.5, "max": 31.0}),
    },
    ratios=[Bar("create / ceiling", 0.45, 0.5)],
    costs=[Bar("MB of the largest process", 124.25, 200, is_most=True)],
    waits=[Bar("create to PROCESSED", 0.25, 1.0, is_most=True)],
)


def test_the_page_tells_ratios_costs_and_latencies() -> None:
    result = page(RESULTS)
    assert "| create / ceiling | 0.45 | 0.5 | MISSED |" in result
    assert "| MB of the largest process | 124.2 | 200 | ok |" in result
    assert "| what | accounts/s | api | generator | relay | worker |" in result
    assert "| create, workers running | 900 | 380 | 41 | 90 | 500 |" in result
    assert "| create at 200/s | 4.0 ms | 6.0 ms | 9.5 ms | 31.0 ms |" in result
    assert not RESULTS.is_met


def test_results_are_markdown(tmp_path: Path) -> None:
    write_results(RESULTS, tmp_path / "results")
    assert (tmp_path / "results" / "results.md").read_text() == page(RESULTS)


def test_the_median_of_rounds_is_taken_figure_by_figure() -> None:
    rounds = [Measured(rate, {"api": 1_000 - rate}) for rate in (300.0, 100.0, 200.0)]
    assert median(rounds) == Measured(200.0, {"api": 800.0})


def test_a_process_is_charged_with_its_children() -> None:
    before = usage_of({"me": [os.getpid()]})

    async def ended() -> None:
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "sum(range(3_000_000))")
        await child.wait()

    asyncio.run(ended())
    used = per_account(before, usage_of({"me": [os.getpid()]}), 10)
    assert used["me"] > 100, "a tenth of a millisecond for each of ten"
