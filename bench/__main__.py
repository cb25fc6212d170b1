"""Run every benchmark on one fresh service and print the ratios beside their bars; exit 1 where a bar is missed."""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.recorders import ledger_rate, stock_rate
from bench.service import Bench

BARS = {
    "creates through HTTP / ceiling": 0.5,
    "create to PROCESSED / ceiling": 0.125,
    "recorder at 64 callers / stock recorder": 8.0,
    "validation / untyped decode": 0.4,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench ARGS=")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement; the median counts")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load in each round")
    parser.add_argument("--accounts", type=int, default=4000, help="to bring to PROCESSED")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), arguments.seconds)
        try:
            rates = measure(bench, arguments.rounds, arguments.accounts)
            waits = {
                "create to PROCESSED on the idle service, slowest of 20": (bench.idle_latency(), 1.0),
                "a supplier's status in force in the api, slowest of 10": (bench.pause_latency(), 1.0),
                "503 while Postgres hangs, slowest of 10": (bench.hang_latency(), 2.0),
            }
        finally:
            bench.close()
    for name, rate in rates.items():
        console.print(f"{name:<32} {rate:>10,.0f} /s")
    ratios = {
        "creates through HTTP / ceiling": rates["creates"] / rates["ceiling"],
        "create to PROCESSED / ceiling": rates["processed"] / rates["ceiling"],
        "recorder at 64 callers / stock recorder": rates["recorder"] / rates["stock recorder"],
        "validation / untyped decode": rates["validation"] / rates["untyped"],
    }
    table = Table("ratio", "measured", "bar", "")
    for name, ratio in ratios.items():
        table.add_row(name, f"{ratio:.2f}", f"{BARS[name]:.3g}", "ok" if ratio >= BARS[name] else "MISSED")
    console.print(table)
    for name, (seconds, bar) in waits.items():
        console.print(f"{name}: {seconds:.3f} s (bar: {bar} s)")
    is_within = all(seconds <= bar for seconds, bar in waits.values())
    sys.exit(0 if is_within and all(ratios[name] >= bar for name, bar in BARS.items()) else 1)


def measure(bench: Bench, rounds: int, accounts: int) -> dict[str, float]:
    """Each rate, accounts a second; peers in turns, so that a noisy neighbour meets both."""
    turns = [
        {
            "ceiling": bench.ceiling(),
            "creates": bench.creates(),
            "untyped": bench.validations("untyped"),
            "validation": bench.validations(),
            "stock recorder": stock_rate(bench.connections.admin_url, turn),
            "recorder": ledger_rate(bench.connections.database_url, turn),
            "processed": bench.processed(accounts),
        }
        for turn in range(rounds)
    ]
    return {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}


if __name__ == "__main__":
    main()
