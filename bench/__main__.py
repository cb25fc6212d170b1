"""Run every benchmark on one new service: ratios with their limits, the cost of an account by process, latencies.

Each round measures everything, so that other load on the machine affects all measurements. Medians count. Exit code 1
if a limit (bar) is missed.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from bench.recorders import ledger_rate, stock_rate
from bench.results import Bar, Results, page, write_results
from bench.service import CREATE, VALIDATE, Bench, Measured, median
from bench.usage import processor_model
from bench.versions import compare
from bench.waiting import slowest

RESULTS = Path(__file__).parent / "results"
STEADY_RATE = 200
"""Creates a second while latencies are measured: far below the capacity of two cores, so that no queue grows."""
LARGE_RATE = 100
WITH_LARGE = f"create at {LARGE_RATE}/s beside 12 that validate 9.5 MB"
READ_RATES = (300, 500)
"""Creates a second, and queries of a status a second beside them."""
LARGE = "accounts of 8 MB to PROCESSED"
READS = f"status at {READ_RATES[1]}/s beside {READ_RATES[0]} creates/s"

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
    parser = argparse.ArgumentParser(prog="make bench ARGS=")
    parser.add_argument("--quick", action="store_true", help="one short round, in less than three minutes")
    parser.add_argument("--rounds", type=int, help="rounds of each measurement [default: 5, with --quick 1]")
    parser.add_argument("--seconds", type=float, help="load in each round [seconds, default: 5, with --quick 2]")
    parser.add_argument(
        "--accounts", type=int, help="accounts per round that are processed [default: 50000, with --quick 4000]"
    )
    parser.add_argument(
        "--against", metavar="REF", help="compare this version with the commit REF, and measure nothing else"
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of JSON, Markdown and chart [default: %(default)s]"
    )
    arguments = parser.parse_args()
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    if arguments.against:
        print(compare(arguments.against, rounds, arguments.accounts or 8_000))
        return
    seconds = arguments.seconds or (2.0 if arguments.quick else 5.0)
    accounts = arguments.accounts or (4_000 if arguments.quick else 50_000)
    machine, began = f"{processor_model()}, load {os.getloadavg()[0]:.1f} of other programs", datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), seconds)
        try:
            measured = measure(bench, rounds, accounts)
            waits = [] if arguments.quick else slowest(bench)
        finally:
            bench.close()
    started_at = began.strftime("%Y-%m-%d %H:%M UTC")
    results = Results(machine, started_at, rounds, measured, ratios_of(measured), costs_of(measured), waits)
    write_results(results, arguments.results)
    print(page(results))
    sys.exit(0 if results.is_met else 1)


def ratios_of(measured: Mapping[str, Measured]) -> list[Bar]:
    """Return the ratios with their limits. Peers are missing if their libraries are not installed."""
    bars = [
        Bar(name, measured[numerator].rate / measured[denominator].rate, bar)
        for name, numerator, denominator, bar in BARS
        if numerator in measured and denominator in measured
    ]
    with_traces, without_traces = (measured[name].microseconds["api"] for name in TRACED)
    return [
        *bars,
        Bar(
            "create, processor time of the api, traces on / off",
            with_traces / without_traces,
            MAX_TRACING_RATIO,
            is_most=True,
        ),
    ]


def costs_of(measured: Mapping[str, Measured]) -> list[Bar]:
    """Return the cost of an account, the memory of processes, and the latency of reads among writes, with limits."""
    processed = measured["create to PROCESSED"]
    service = sum(used for kind, used in processed.microseconds.items() if kind != "generator")
    return [
        Bar("processor µs an account, create to PROCESSED, all processes", service, 1_200, is_most=True),
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
        "ceiling": bench.ceiling(),
        "create, workers running": bench.creates_among_workers(),
        "create, nothing else running": Measured(bench.creates()),
        "untyped decode": bench.untyped(),
        "validate, one api process": bench.validations(),
        "validate, default setting": bench.validations_shared(),
        "stock recorder": Measured(stock_rate(bench.connections.admin_url, number)),
        "recorder": Measured(ledger_rate(bench.connections.database_url, number)),
        "create to PROCESSED": bench.processed(accounts),
        LARGE: bench.large_processed(),
        **bench.creates_with_and_without_traces(),
        f"create at {STEADY_RATE}/s, workers running": bench.creates_among_workers(STEADY_RATE),
        READS: bench.status_reads(*READ_RATES),
        WITH_LARGE: bench.creates_with_large(LARGE_RATE),
    }
    if find_spec("fastapi") and find_spec("rest_framework"):
        measured |= {
            "FastAPI, validate": bench.peer("bench.peers.fastapi_app", VALIDATE),
            "Django REST, validate": bench.peer("bench.peers.django_app", VALIDATE),
            "Django REST, create": bench.peer("bench.peers.django_app", CREATE),
        }
    return measured


if __name__ == "__main__":
    main()
