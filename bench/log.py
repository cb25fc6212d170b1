"""A long log: how fast it is verified and proved, and its projections rebuilt while accounts arrive.

    python -m bench.log --events 1000000

Prints figures beside their bars; exit code 1 where one is missed.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from bench.history import EVENTS_AN_ACCOUNT, append_all
from bench.service import SUPPLIER, Bench
from eventstore.proof.merkle import inclusion_proof
from eventstore.proof.sealing import tile_reader, tree_size
from projections import PROJECTIONS
from projections.versioning.projection import Projection

CREATES_A_SECOND = 500
MEMORY_BYTES = 300_000_000
COLUMNS_BAR, PAYLOADS_BAR, VERIFY_BAR = 200_000, 20_000, 40_000
PROOF_BAR_S, LAG_BAR_S = 0.020, 1.0
PROOFS = 200


class Figure(msgspec.Struct, frozen=True):
    """Something measured, and what is asked of it."""

    name: str
    measured: float
    bar: float
    unit: str
    is_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured <= self.bar if self.is_most else self.measured >= self.bar


def main() -> None:
    parser = argparse.ArgumentParser(prog="make benchlog EVENTS=")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), 0)
        try:
            accounts = -(-arguments.events // EVENTS_AN_ACCOUNT)
            began = time.monotonic()
            events = append_all(bench.connections.database_url, SUPPLIER, range(1, accounts + 1))
            console.print(f"{events:,} events of {accounts:,} accounts written in {time.monotonic() - began:.0f} s")
            _vacuum(bench)
            figures = measure(bench, arguments.jobs, console)
        finally:
            bench.close()
    table = Table("what", "measured", "bar", "")
    for figure in figures:
        form = "{:,.0f}" if figure.bar >= 100 else "{:.4f}"
        said = "ok" if figure.is_met else "MISSED"
        table.add_row(figure.name, f"{form.format(figure.measured)} {figure.unit}", form.format(figure.bar), said)
    console.print(table)
    sys.exit(0 if all(figure.is_met for figure in figures) else 1)


def measure(bench: Bench, jobs: int, console: Console) -> list[Figure]:
    figures: list[Figure] = []
    for projection in PROJECTIONS:  # the first time: nothing is live yet, nothing arrives
        report = _run(bench, "projections", "rebuild", projection.name, "--jobs", str(jobs))[0]
        console.print(report.strip().splitlines()[0])
    _vacuum(bench)
    console.print(_run(bench, "seal")[0].strip().splitlines()[1], "events sealed")
    told, memory, took_s = _run(bench, "verify", "--all", "--json")
    verified = json.loads(told)
    if verified["problems"]:
        raise RuntimeError(f"the log does not verify: {verified['problems']}")
    figures.append(Figure("verify --all", verified["hashed"] / took_s, VERIFY_BAR, "events/s"))
    figures.append(Figure("verify --all, memory", memory / 1e6, MEMORY_BYTES / 1e6, "MB", is_most=True))
    figures.append(
        Figure(f"inclusion proof, slowest of {PROOFS}", _slowest_proof(bench), PROOF_BAR_S, "s", is_most=True)
    )
    with bench.role("relay"), bench.steady_load(CREATES_A_SECOND):
        time.sleep(2)
        for projection in PROJECTIONS:
            if projection.name not in ("import_supplier", "access_key"):  # these have a handful of rows
                figures += _rebuild(bench, projection, jobs, console)
    figures.append(Figure("creates meanwhile", bench.held_rate, CREATES_A_SECOND * 0.98, "/s"))
    return figures


def _rebuild(bench: Bench, projection: Projection, jobs: int, console: Console) -> list[Figure]:
    name = projection.name
    told, memory, _ = _run(bench, "projections", "rebuild", name, "--jobs", str(jobs))
    after = json.loads(next(line for line in _run(bench, "projections", "--json")[0].splitlines()
                                if f'"{name}"' in line and '"live"' in line))  # fmt: skip
    console.print(told.strip())
    rate = float(told.splitlines()[0].split(" events, ")[1].split(" ")[0].replace(",", ""))
    bar = PAYLOADS_BAR if projection.reads_payloads else COLUMNS_BAR
    return [
        Figure(f"rebuild {name}", rate, bar, "events/s"),
        Figure(f"rebuild {name}, memory", memory / 1e6, MEMORY_BYTES / 1e6, "MB", is_most=True),
        Figure(f"rebuild {name}, lag after the switch", after["lag_s"], LAG_BAR_S, "s", is_most=True),
    ]


def _run(bench: Bench, *arguments: str) -> tuple[str, int, float]:
    """What a verb prints, the most memory that it and its children had at once (proportional share), its seconds."""
    began = time.monotonic()
    started = bench.cli(*arguments)
    assert started.stdout is not None
    most = 0
    while started.poll() is None:
        most = max(most, _memory(started.pid))
        with suppress(subprocess.TimeoutExpired):  # looking costs a tenth of a core: not too often
            started.wait(1.0)
    if started.returncode:
        raise subprocess.CalledProcessError(started.returncode, arguments)
    return started.stdout.read(), most, time.monotonic() - began


def _memory(pid: int) -> int:
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        return sum(int(process.memory_full_info().pss) for process in family)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0


def _slowest_proof(bench: Bench) -> float:
    slowest = 0.0
    with psycopg.connect(bench.connections.database_url, autocommit=True) as connection:
        size = tree_size(connection)
        for _ in range(PROOFS):
            began = time.monotonic()
            inclusion_proof(tile_reader(connection), random.randrange(size), size)
            slowest = max(slowest, time.monotonic() - began)
    return slowest


def _vacuum(bench: Bench) -> None:
    with psycopg.connect(bench.connections.admin_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


if __name__ == "__main__":
    main()
