"""Compare the service with many accounts and with few: each figure of both, and their ratio.

    python -m bench.scale --accounts 1000000

Two services have a Postgres each: one has 10,000 accounts, the other as many as given. Their logs are written directly,
and everything else is derived from them. They are measured by turns, so that other load on the machine affects both.
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
from projections.versions.versions import alone, build_version, drop_version, live_version, switch
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
REBUILDS_BESIDE = 3
"""Rebuilds of the small one before the large one, and after it."""


class Value(msgspec.Struct, frozen=True):
    """A measured value with its unit. For costs, less is better."""

    measured: float
    unit: str
    is_cost: bool = False


Values = Mapping[str, Value]
Turns = list[tuple[Values, Values]]
"""Values of the small service and of the large one, measured one after the other."""


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


class Sized:
    """A service with this number of accounts."""

    def __init__(self, bench: Bench, accounts: int) -> None:
        self.bench = bench
        self.accounts = accounts
        self._is_kept = False
        self._turn = 0

    def append(self, jobs: int) -> None:
        append_in_parallel(self.bench.connections.database_url, SUPPLIER, range(1, self.accounts + 1), jobs=jobs)
        with self._administrator() as connection:
            connection.execute("VACUUM ANALYZE")

    def rebuild(self, projection: Projection, jobs: int) -> dict[str, Value]:
        """Rebuild a projection from the log, and return its speed and its CPU time."""
        admin_url = self.bench.connections.admin_url
        with administrator(admin_url) as connection, alone(connection, projection):
            former, events = live_version(connection, projection.name), log_head(connection)
            began, before = time.monotonic(), self._processor_s()
            built = build_version(admin_url, connection, projection, jobs=jobs)
            took_s, used_s = time.monotonic() - began, self._processor_s() - before
            switch(connection, projection, built.version)
            drop_version(connection, projection, former.version)
        return {
            f"rebuild {projection.name}": Value(events / took_s, "events/s"),
            f"rebuild {projection.name}, processor": Value(used_s * 1e6 / events, "µs an event", is_cost=True),
        }

    def seal(self) -> None:
        started = self.bench.cli("seal")
        started.communicate()
        if started.returncode:
            raise RuntimeError("the log could not be sealed")

    def keep(self) -> None:
        """Save the present database. It is restored before each measurement from now on."""
        self.bench.settle()
        self.bench.keep()
        self._is_kept = True

    def measured(self, measurement: Callable[["Sized"], dict[str, Value]]) -> dict[str, Value]:
        """Return the values of a measurement, on a database that is idle and has just been written to disk.

        On a busy machine the service may answer 503: then the measurement is repeated, with TRIES attempts at most.
        """
        for left in reversed(range(TRIES)):
            if self._is_kept:
                self.bench.put_back()
            with self._administrator() as connection:
                connection.execute("CHECKPOINT")
            try:
                values = measurement(self)
                if self._is_kept:  # otherwise Postgres would vacuum it while the other service is measured
                    self.bench.settle()
                return values
            except RuntimeError as error:
                if not left:
                    raise
                print(f"once more: {error}", file=sys.stderr)
        raise AssertionError

    def append_rate(self) -> float:
        self._turn += 1
        return ledger_rate(self.bench.connections.database_url, self._turn)

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
        ours = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(used.ru_utime + used.ru_stime for used in ours) + self.bench.postgres_s()


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench MILLION=1 ACCOUNTS= ARGS=", description=__doc__)
    parser.add_argument("--accounts", type=int, default=LARGE, help="of the large service")
    parser.add_argument("--small", type=int, default=SMALL, help="of the small one")
    parser.add_argument("--rounds", type=int, default=5, help="of each measurement but the rebuilds")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load in each round")
    parser.add_argument("--processed", type=int, default=12_000, help="accounts to bring to PROCESSED in each round")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="processes that fill and rebuild")
    arguments = parser.parse_args()
    screen = Console(soft_wrap=True)
    with ExitStack() as stack:
        small, large = (
            Sized(_bench(stack, arguments.seconds), accounts) for accounts in (arguments.small, arguments.accounts)
        )
        rebuilds = fill(small, large, arguments.jobs, screen)
        turns = rounds(small, large, arguments.rounds, arguments.processed, screen)
        rows = [*compared(turns), *compared(rebuilds)]
        sizes = [f"{one.accounts:,} accounts ({one.bytes() / 1e9:.1f} GB)" for one in (small, large)]
    screen.print(f"{' and '.join(sizes)}, {processor_model()}, medians of {arguments.rounds}\n")
    screen.print("\n".join(table(rows)))
    sys.exit(0 if all(row.is_met for row in rows) else 1)


def _bench(stack: ExitStack, seconds: float) -> Bench:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True))
    bench = Bench(Path(folder), seconds, has_own_values=True)
    stack.callback(bench.close)
    return bench


def fill(small: Sized, large: Sized, jobs: int, screen: Console) -> Turns:
    """Fill both logs, and build everything that is derived from them. Return the values of the rebuilds."""
    began = time.monotonic()

    def say(what: str) -> None:
        screen.print(f"{time.monotonic() - began:5.0f} s: {what}")

    for one in (small, large):
        one.append(jobs)
        say(f"{one.accounts * EVENTS_AN_ACCOUNT:,} events of {one.accounts:,} accounts in the log")
    turns: Turns = []
    for projection in PROJECTIONS:
        is_measured = projection.name in REBUILT
        times = REBUILDS_BESIDE if is_measured else 1
        of_small = [small.rebuild(projection, jobs) for _ in range(times)]
        of_large = large.rebuild(projection, jobs)
        if is_measured:
            of_small += [small.rebuild(projection, jobs) for _ in range(times)]
            turns.append((_medians(of_small), of_large))
        say(f"{projection.name} made")
    for one in (small, large):
        one.seal()
        one.bench.settle()
    small.keep()
    say("sealed, vacuumed")
    return turns


def rounds(small: Sized, large: Sized, count: int, processed: int, screen: Console) -> Turns:
    """Run every measurement `count` times on both services. Rounds alternate which service is measured first."""
    turns: Turns = []
    for number in range(count):
        for measurement in measurements(processed):
            order = (small, large) if number % 2 == 0 else (large, small)
            values = {one: one.measured(measurement) for one in order}
            turns.append((values[small], values[large]))
            said = ", ".join(f"{row.name} {row.ratio:.2f}" for row in compared(turns[-1:]))
            screen.print(f"round {number + 1}: {said}")
    return turns


def measurements(processed: int) -> Iterator[Callable[[Sized], dict[str, Value]]]:
    def creates(one: Sized) -> dict[str, Value]:
        return {"create, workers running": Value(one.bench.creates_among_workers().rate, "accounts/s")}

    def processing(one: Sized) -> dict[str, Value]:
        measured = one.bench.processed(processed)
        return {
            "create to PROCESSED": Value(measured.rate, "accounts/s"),
            "create to PROCESSED, processor": Value(_processor_us(measured), "µs an account", is_cost=True),
        }

    def reads(one: Sized) -> dict[str, Value]:
        measured = one.bench.status_reads(*READ_RATES, known=one.known, times=READ_TIMES)
        return {
            f"status at {READ_RATES[1]}/s beside {READ_RATES[0]} creates/s, {at}": Value(
                measured.latency_ms[at], "ms", is_cost=True
            )
            for at in ("p50", "p99")
        }

    def validations(one: Sized) -> dict[str, Value]:
        return {"validate": Value(one.bench.validations_shared().rate, "accounts/s")}

    def appends(one: Sized) -> dict[str, Value]:
        return {"recorder at 64 callers": Value(one.append_rate(), "accounts/s")}

    def searches(one: Sized) -> dict[str, Value]:
        return {"search for an e-mail address": Value(one.search_ms(), "ms", is_cost=True)}

    yield from (creates, processing, reads, validations, appends, searches)


def _processor_us(measured: Measured) -> float:
    return sum(used for kind, used in measured.microseconds.items() if kind != "generator")


def compared(turns: Sequence[tuple[Values, Values]]) -> Iterator[Row]:
    """Yield a row for every figure of these turns, in their order. Pure."""
    names = {name: value for small, _ in turns for name, value in small.items()}
    for name, value in names.items():
        pairs = [(small[name], large[name]) for small, large in turns if name in small]
        yield Row(
            name,
            statistics.median(small.measured for small, _ in pairs),
            statistics.median(large.measured for _, large in pairs),
            value.unit,
            statistics.median(_ratio(*pair) for pair in pairs),
        )


def _ratio(small: Value, large: Value) -> float:
    return small.measured / large.measured if small.is_cost else large.measured / small.measured


def _medians(many: Sequence[Values]) -> Values:
    return {
        name: msgspec.structs.replace(value, measured=statistics.median(one[name].measured for one in many))
        for name, value in many[0].items()
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table of the rows. Pure."""
    yield "| figure | few accounts | many | ratio | bar | |\n|---|---|---|---|---|---|"
    for row in rows:
        small, large = map(_shown, (row.small, row.large))
        said = "ok" if row.is_met else "MISSED"
        yield f"| {row.name} | {small} {row.unit} | {large} | {row.ratio:.2f} | {BAR} | {said} |"


def _shown(measured: float) -> str:
    """Format a number with two decimals below 10, with one below 100, and without from 100 on."""
    return f"{measured:,.{0 if measured >= 100 else 1 if measured >= 10 else 2}f}"


if __name__ == "__main__":
    main()
