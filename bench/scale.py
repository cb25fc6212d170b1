"""Compare the service with many accounts and with few: each figure of both, and their ratio.

    python -m bench.scale --accounts 1000000

Two services have a Postgres each: one has 10,000 accounts, the other as many as given. Their logs are written directly,
and everything else is derived from them. They are measured in turn, so that other load on the machine affects both.
The small one is reset after each measurement, because it would grow to many times its size. Exit code 1 if the large
one reaches less than 0.9 of the small one in any figure.
"""

import argparse
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg import Connection
from rich.console import Console

from bench.history import EVENTS_AN_ACCOUNT, NAMED, append_in_parallel
from bench.recorders import ledger_rate
from bench.service import SUPPLIER, Bench, Measured, Reads
from bench.usage import processor_model
from eventstore.log.columns import log_head
from eventstore.log.recorder import SESSION
from projections import PROJECTIONS
from projections.versions.build import administrator
from projections.versions.projection import Projection
from projections.versions.versions import build_version, drop_version, live_version, switch, version_lock
from tests.support.rows import find_accounts

BAR = 0.9
SMALL, LARGE = 10_000, 1_000_000
READ_RATES = (300, 500)
"""Creates a second, and queries of a status a second beside them."""
READ_TIMES = 4
"""Factor of the duration of queries over other loads: a 99th percentile needs many samples."""
REBUILT = ("platform", "import_status")
"""Projections whose rebuild is measured: one reads payloads, one reads events only."""
TRIES, SEARCHES = 3, 200
SMALL_REBUILDS = 3
"""Rebuilds of the small service before that of the large one, and again after it."""


class Value(msgspec.Struct, frozen=True):
    """A measured value with its unit. For costs, less is better."""

    measured: float
    unit: str
    is_cost: bool = False


Values = Mapping[str, Value]
MeasuredPairs = list[tuple[Values, Values]]
"""(values of the small service, values of the large one), measured one after the other."""


class Row(msgspec.Struct, frozen=True):
    """A figure: the medians of the small and of the large service, and the median of the ratios of all turns."""

    name: str
    small: float
    large: float
    unit: str
    ratio: float

    @property
    def is_met(self) -> bool:
        return self.ratio >= BAR


class SizedService:
    """A service with this number of accounts."""

    def __init__(self, bench: Bench, accounts: int) -> None:
        self.bench = bench
        self.accounts = accounts
        self._is_saved = False
        self._appends = 0

    def append(self, jobs: int) -> None:
        append_in_parallel(self.bench.connections.database_url, SUPPLIER, range(1, self.accounts + 1), jobs=jobs)
        with self._administrator() as connection:
            connection.execute("VACUUM ANALYZE")

    def rebuild(self, projection: Projection, jobs: int) -> dict[str, Value]:
        """Rebuild a projection from the log, and return its speed and its CPU time."""
        admin_url = self.bench.connections.admin_url
        with administrator(admin_url) as connection, version_lock(connection, projection):
            previous, events = live_version(connection, projection.name), log_head(connection)
            began, before = time.monotonic(), self._processor_s()
            built = build_version(admin_url, connection, projection, jobs=jobs)
            took_s, used_s = time.monotonic() - began, self._processor_s() - before
            switch(connection, projection, built.version)
            drop_version(connection, projection, previous.version)
        return {
            f"rebuild {projection.name}": Value(events / took_s, "events/s"),
            f"rebuild {projection.name}, processor": Value(used_s * 1e6 / events, "µs an event", is_cost=True),
        }

    def seal(self) -> None:
        started = self.bench.cli("seal")
        started.communicate()
        if started.returncode:
            raise RuntimeError("the log could not be sealed")

    def save(self) -> None:
        """Save the present database. It is restored before each measurement from now on."""
        self.bench.settle()
        self.bench.save()
        self._is_saved = True

    def measured(self, measurement: Callable[["SizedService"], dict[str, Value]]) -> dict[str, Value]:
        """Return the values of a measurement, on a database that is idle and has just been written to disk.

        On a busy machine the service may answer 503: then the measurement is repeated, with TRIES attempts at most.
        """
        for remaining in reversed(range(TRIES)):
            if self._is_saved:
                self.bench.restore()
            with self._administrator() as connection:
                connection.execute("CHECKPOINT")
            try:
                values = measurement(self)
                if self._is_saved:  # otherwise Postgres would vacuum it while the other service is measured
                    self.bench.settle()
                return values
            except RuntimeError as error:
                if not remaining:
                    raise
                print(f"measured again: {error}", file=sys.stderr)
        raise AssertionError

    def append_rate(self) -> float:
        self._appends += 1
        return ledger_rate(self.bench.connections.database_url, self._appends)

    def search_ms(self) -> float:
        """Return the median time of searches for random accounts, in an index without pending entries."""
        self.bench.settle()
        times = []
        with psycopg.connect(self.bench.connections.database_url, autocommit=True) as connection:
            connection.execute(SESSION)
            for number in random.choices(range(1, self.accounts + 1), k=SEARCHES):
                began = time.perf_counter()
                page = find_accounts(connection, f"kunde{number}@example.com", [SUPPLIER])
                times.append((time.perf_counter() - began) * 1000)
                if not page.accounts:
                    raise RuntimeError(f"account {number} is not found")
        return statistics.median(times)

    @property
    def known(self) -> Reads:
        return Reads(0, self.accounts, NAMED)

    def bytes(self) -> int:
        with self._administrator() as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            assert row is not None
            return int(row[0])

    def _administrator(self) -> Connection[Any]:
        return psycopg.connect(self.bench.connections.admin_url, autocommit=True)

    def _processor_s(self) -> float:
        """Return the CPU seconds of Postgres, of this process, and of its child processes that have ended."""
        usages = [resource.getrusage(processes) for processes in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(used.ru_utime + used.ru_stime for used in usages) + self.bench.postgres_s()


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench MILLION=1 ACCOUNTS= ARGS=", description=__doc__)
    parser.add_argument(
        "--accounts", type=int, default=LARGE, help="accounts of the large service [default: %(default)s]"
    )
    parser.add_argument("--small", type=int, default=SMALL, help="accounts of the small service [default: %(default)s]")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds of each measurement except the rebuilds [default: %(default)s]"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="load in each round [seconds, default: %(default)s]")
    parser.add_argument(
        "--processed", type=int, default=12_000, help="accounts per round that are processed [default: %(default)s]"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(8, os.cpu_count() or 1),
        help="processes that fill and rebuild [default: %(default)s]",
    )
    arguments = parser.parse_args()
    screen = Console(soft_wrap=True)
    with ExitStack() as stack:
        small, large = (
            SizedService(_bench(stack, arguments.seconds), accounts)
            for accounts in (arguments.small, arguments.accounts)
        )
        rebuilds = fill(small, large, arguments.jobs, screen)
        measured_pairs = rounds(small, large, arguments.rounds, arguments.processed, screen)
        rows = [*compared(measured_pairs), *compared(rebuilds)]
        sizes = [f"{service.accounts:,} accounts ({service.bytes() / 1e9:.1f} GB)" for service in (small, large)]
    screen.print(f"{' and '.join(sizes)}, {processor_model()}, medians of {arguments.rounds}\n")
    screen.print("\n".join(table(rows)))
    sys.exit(0 if all(row.is_met for row in rows) else 1)


def _bench(stack: ExitStack, seconds: float) -> Bench:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True))
    bench = Bench(Path(folder), seconds, has_own_values=True)
    stack.callback(bench.close)
    return bench


def fill(small: SizedService, large: SizedService, jobs: int, screen: Console) -> MeasuredPairs:
    """Fill both logs, and build everything that is derived from them. Return the values of the rebuilds."""
    began = time.monotonic()

    def report(step: str) -> None:
        screen.print(f"{time.monotonic() - began:5.0f} s: {step}")

    for service in (small, large):
        service.append(jobs)
        report(f"{service.accounts * EVENTS_AN_ACCOUNT:,} events of {service.accounts:,} accounts in the log")
    measured_pairs: MeasuredPairs = []
    for projection in PROJECTIONS:
        is_measured = projection.name in REBUILT
        times = SMALL_REBUILDS if is_measured else 1
        small_rebuilds = [small.rebuild(projection, jobs) for _ in range(times)]
        large_rebuild = large.rebuild(projection, jobs)
        if is_measured:
            small_rebuilds += [small.rebuild(projection, jobs) for _ in range(times)]
            measured_pairs.append((_medians(small_rebuilds), large_rebuild))
        report(f"{projection.name} built")
    for service in (small, large):
        service.seal()
        service.bench.settle()
    small.save()
    report("sealed, vacuumed")
    return measured_pairs


def rounds(small: SizedService, large: SizedService, count: int, processed: int, screen: Console) -> MeasuredPairs:
    """Run every measurement `count` times on both services. Rounds alternate which service is measured first."""
    measured_pairs: MeasuredPairs = []
    for number in range(count):
        for measurement in measurements(processed):
            order = (small, large) if number % 2 == 0 else (large, small)
            values = {service: service.measured(measurement) for service in order}
            measured_pairs.append((values[small], values[large]))
            ratios = ", ".join(f"{row.name} {row.ratio:.2f}" for row in compared(measured_pairs[-1:]))
            screen.print(f"round {number + 1}: {ratios}")
    return measured_pairs


def measurements(processed: int) -> Iterator[Callable[[SizedService], dict[str, Value]]]:
    def creates(service: SizedService) -> dict[str, Value]:
        return {"create, workers running": Value(service.bench.creates_among_workers().rate, "accounts/s")}

    def processing(service: SizedService) -> dict[str, Value]:
        measured = service.bench.processed(processed)
        return {
            "create to PROCESSED": Value(measured.rate, "accounts/s"),
            "create to PROCESSED, processor": Value(_processor_us(measured), "µs an account", is_cost=True),
        }

    def reads(service: SizedService) -> dict[str, Value]:
        measured = service.bench.status_reads(*READ_RATES, known=service.known, times=READ_TIMES)
        return {
            f"status at {READ_RATES[1]}/s beside {READ_RATES[0]} creates/s, {at}": Value(
                measured.latency_ms[at], "ms", is_cost=True
            )
            for at in ("p50", "p99")
        }

    def validations(service: SizedService) -> dict[str, Value]:
        return {"validate": Value(service.bench.validations_shared().rate, "accounts/s")}

    def appends(service: SizedService) -> dict[str, Value]:
        return {"recorder at 64 callers": Value(service.append_rate(), "accounts/s")}

    def searches(service: SizedService) -> dict[str, Value]:
        return {"search for an e-mail address": Value(service.search_ms(), "ms", is_cost=True)}

    yield from (creates, processing, reads, validations, appends, searches)


def _processor_us(measured: Measured) -> float:
    return sum(used for kind, used in measured.microseconds.items() if kind != "generator")


def compared(measured_pairs: Sequence[tuple[Values, Values]]) -> Iterator[Row]:
    """Yield a row for every figure of these turns, in their order. Pure."""
    names = {name: value for small, _ in measured_pairs for name, value in small.items()}
    for name, value in names.items():
        pairs = [(small[name], large[name]) for small, large in measured_pairs if name in small]
        yield Row(
            name,
            statistics.median(small.measured for small, _ in pairs),
            statistics.median(large.measured for _, large in pairs),
            value.unit,
            statistics.median(_ratio(*pair) for pair in pairs),
        )


def _ratio(small: Value, large: Value) -> float:
    return small.measured / large.measured if small.is_cost else large.measured / small.measured


def _medians(rounds: Sequence[Values]) -> Values:
    return {
        name: msgspec.structs.replace(value, measured=statistics.median(values[name].measured for values in rounds))
        for name, value in rounds[0].items()
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table of the rows. Pure."""
    yield "| figure | few accounts | many | ratio | bar | |\n|---|---|---|---|---|---|"
    for row in rows:
        small, large = map(_shown, (row.small, row.large))
        verdict = "ok" if row.is_met else "MISSED"
        yield f"| {row.name} | {small} {row.unit} | {large} | {row.ratio:.2f} | {BAR} | {verdict} |"


def _shown(measured: float) -> str:
    """Format a number with two decimals below 10, with one below 100, and without from 100 on."""
    return f"{measured:,.{0 if measured >= 100 else 1 if measured >= 10 else 2}f}"


if __name__ == "__main__":
    main()
