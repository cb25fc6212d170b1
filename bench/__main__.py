"""Run every benchmark on one new service: ratios with their limits, the cost of an account by process, latencies.

Each round measures everything, so that other load on the machine affects all measurements. Medians count. Exit code 1
if a limit (bar) is missed.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from bench.console import time_pages
from bench.recorders import ledger_rate, stock_rate
from bench.results import Bar, Results, page, write_results
from bench.scale import compare_sizes
from bench.service import CREATE, READ_RATES, READS, UNTYPED, VALIDATE, Bench, Measured, median, new_bench
from bench.usage import processor_model
from bench.versions import compare
from bench.waiting import slowest

RESULTS = Path(__file__).parent / "results"
STEADY_RATE = 200
"""Creates a second while latencies are measured: far below the capacity of two cores, so that no queue grows."""
LARGE = "accounts of 8 MB to PROCESSED"

BARS = (
    ("create, workers running / ceiling", "create, workers running", "ceiling", 0.55),
    ("create to PROCESSED / ceiling", "create to PROCESSED", "ceiling", 0.4),
    ("validate, one api process / untyped decode", "validate, one api process", "untyped decode", 0.55),
    ("validate, default setting / untyped decode", "validate, default setting", "untyped decode", 0.9),
    ("recorder at 64 callers / stock recorder", "recorder", "stock recorder", 10.0),
    ("create, workers running / Django REST framework", "create, workers running", "Django REST, create", 15.0),
    ("validate, default setting / Django REST framework", "validate, default setting", "Django REST, validate", 35.0),
    ("validate, one api process / FastAPI", "validate, one api process", "FastAPI, validate", 2.0),
)
"""Rows (name, measurement, compared with, least ratio). Each peer is compared with a measurement of as many processes:
Django REST framework has a worker for each core, FastAPI has one.
"""
TRACED = ("create, traces on", "create, traces off")
MAX_TRACING_RATIO = 1.03
"""Largest ratio of the CPU time with traces to that without. Other load changes it less than accounts a second."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, in less than three minutes")
    parser.add_argument("--rounds", type=int, help="rounds of each measurement [default: 5, with --quick 1]")
    parser.add_argument(
        "--accounts", type=int, help="accounts per round [default: 50,000; --quick: 4,000; AGAINST: 8,000]"
    )
    parser.add_argument("--against", metavar="REF", help="compare only this version with the commit REF")
    parser.add_argument(
        "--million", type=int, metavar="N", help="compare only a service of N accounts with a small one"
    )
    parser.add_argument("--console", type=int, metavar="N", help="time only the pages of the console, with N imports")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 5)
    if options.against:
        print(compare(options.against, rounds, options.accounts or 8_000))
    elif options.million or options.console:
        sys.exit(not (compare_sizes(options.million, rounds) if options.million else time_pages(options.console)))
    else:
        sys.exit(not measure_service(rounds, options.accounts, is_quick=options.quick))


def measure_service(rounds: int, accounts: int | None, *, is_quick: bool) -> bool:
    """Measure everything, write and print the results, and return whether all bars are met."""
    machine, began = f"{processor_model()}, load {os.getloadavg()[0]:.1f} of other programs", datetime.now(UTC)
    with new_bench(2.0 if is_quick else 5.0) as bench:
        measured = measure(bench, rounds, accounts or (4_000 if is_quick else 50_000))
        waits = [] if is_quick else slowest(bench)
    started_at = began.strftime("%Y-%m-%d %H:%M UTC")
    results = Results(machine, started_at, rounds, measured, ratios_of(measured), costs_of(measured), waits)
    write_results(results, RESULTS)
    print(page(results))
    return results.is_met


def ratios_of(measured: Mapping[str, Measured]) -> list[Bar]:
    """Return the ratios with their limits. Peers are missing if their libraries are not installed."""
    bars = [
        Bar(name, measured[numerator].rate / measured[denominator].rate, bar)
        for name, numerator, denominator, bar in BARS
        if numerator in measured and denominator in measured
    ]
    traced = measured[TRACED[0]].microseconds["api"] / measured[TRACED[1]].microseconds["api"]
    return [*bars, Bar("create, processor time of the api, traces on / off", traced, MAX_TRACING_RATIO, is_most=True)]


def costs_of(measured: Mapping[str, Measured]) -> list[Bar]:
    """Return the cost of an account, the memory of processes, and the latency of reads among writes, with limits."""
    processed = measured["create to PROCESSED"]
    return [
        Bar("processor µs an account, create to PROCESSED, all processes", processed.service_us, 1_200, is_most=True),
        Bar("MB of the largest process", max(processed.memory_mb.values()), 200, is_most=True),
        Bar(f"MB of the largest process, {LARGE}", max(measured[LARGE].memory_mb.values()), 200, is_most=True),
        Bar(f"ms of a {READS}, p99", measured[READS].latency_ms["p99"], 10, is_most=True),
    ]


def measure(bench: Bench, rounds: int, accounts: int) -> dict[str, Measured]:
    """Measure everything in each round, and return the median of each measurement."""
    results = [measure_round(bench, accounts, number) for number in range(rounds)]
    return {name: median([result[name] for result in results]) for name in results[0]}


def measure_round(bench: Bench, accounts: int, number: int) -> dict[str, Measured]:
    """Measure everything once. `number` is that of the round."""
    measured = {
        "ceiling": bench.program("bench.ceiling", CREATE),
        "create, workers running": bench.creates_among_workers(),
        "untyped decode": bench.program("bench.untyped", UNTYPED),
        "validate, one api process": bench.validations(),
        "validate, default setting": bench.validations_shared(),
        "stock recorder": Measured(stock_rate(bench.connections.admin_url, number)),
        "recorder": Measured(ledger_rate(bench.connections.database_url, number)),
        "create to PROCESSED": bench.processed(accounts),
        LARGE: bench.large_processed(),
        **bench.creates_with_and_without_traces(),
        f"create at {STEADY_RATE}/s, workers running": bench.creates_among_workers(STEADY_RATE),
        READS: bench.status_reads(*READ_RATES),
    }
    if find_spec("fastapi") and find_spec("rest_framework"):
        measured |= {
            "FastAPI, validate": bench.program("bench.peers.fastapi_app", VALIDATE),
            "Django REST, validate": bench.program("bench.peers.django_app", VALIDATE),
            "Django REST, create": bench.program("bench.peers.django_app", CREATE),
        }
    return measured


if __name__ == "__main__":
    main()
