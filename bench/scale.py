"""Compare the service with many accounts and with few: each figure of both, and their ratio.

Two services have a Postgres each: one has 10,000 accounts, the other as many as given. Their logs are written directly,
and everything else is derived from them. They are measured in turn, so that other load on the machine affects both.
The small one is reset after each measurement, because it would grow to many times its size.
"""

import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import psycopg
from psycopg import Connection
from rich.console import Console

from bench.history import EVENTS_AN_ACCOUNT, NAMED, append_in_parallel
from bench.recorders import ledger_rate
from bench.results import Bar
from bench.service import READ_RATES, READS, SUPPLIER, Bench, Reads, new_bench
from bench.usage import processor_model, usage_of
from eventstore.log.columns import log_head
from eventstore.log.recorder import SESSION
from eventstore.log.rows import value_of
from projections import PROJECTIONS
from projections.versions.build import administrator
from projections.versions.projection import Projection
from projections.versions.versions import build_version, drop_version, live_version, switch, version_lock
from tests.support.rows import find_accounts

BAR = 0.9
SMALL = 10_000
PROCESSED = 12_000
"""Accounts that are processed in each round."""
SECONDS = 5.0
"""Load in each round."""
JOBS = min(8, os.cpu_count() or 1)
"""Processes that fill and rebuild."""
READ_TIMES = 4
"""Factor of the duration of queries over other loads: a 99th percentile needs many samples."""
REBUILT = ("platform", "import_status")
"""Projections whose rebuild is measured: one reads payloads, one reads events only."""
TRIES, SEARCHES = 3, 200


class Value(msgspec.Struct, frozen=True):
    """A measured value with its unit. For costs, less is better."""

    measured: float
    unit: str
    is_cost: bool = False


Values = Mapping[str, Value]
MeasuredPairs = list[tuple[Values, Values]]
"""(values of the small service, values of the large one), measured one after the other."""


class SizedService:
    """A service with this number of accounts."""

    def __init__(self, bench: Bench, accounts: int) -> None:
        self.bench = bench
        self.accounts = accounts
        self._is_saved = False
        self._appends = 0

    def append(self) -> None:
        append_in_parallel(self.bench.connections.database_url, SUPPLIER, range(1, self.accounts + 1), jobs=JOBS)
        with self._administrator() as connection:
            connection.execute("VACUUM ANALYZE")

    def rebuild(self, projection: Projection) -> dict[str, Value]:
        """Rebuild a projection from the log, and return its speed and its CPU time."""
        admin_url = self.bench.connections.admin_url
        with administrator(admin_url) as connection, version_lock(connection, projection):
            previous, events = live_version(connection, projection.name), log_head(connection)
            began, before = time.monotonic(), self._processor_s()
            built = build_version(admin_url, connection, projection, jobs=JOBS)
            took_s, used_s = time.monotonic() - began, self._processor_s() - before
            switch(connection, projection, built.version)
            drop_version(connection, projection, previous.version)
        return {
            f"rebuild {projection.name}": Value(events / took_s, "events/s"),
            f"rebuild {projection.name}, processor": Value(used_s * 1e6 / events, "µs an event", is_cost=True),
        }

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

    def bytes(self) -> int:
        with self._administrator() as connection:
            return int(value_of(connection, "SELECT pg_database_size(current_database())"))

    def _administrator(self) -> Connection[Any]:
        return psycopg.connect(self.bench.connections.admin_url, autocommit=True)

    def _processor_s(self) -> float:
        """Return the CPU seconds of Postgres, of this process, and of its child processes that have ended."""
        usages = [resource.getrusage(processes) for processes in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        used_s = sum(used.ru_utime + used.ru_stime for used in usages)
        return used_s + usage_of({"postgres": [self.bench.postmaster]})["postgres"]


def compare_sizes(accounts: int, rounds: int) -> bool:
    """Compare SMALL accounts with `accounts`, print all figures, and return whether each reaches BAR."""
    screen = Console(soft_wrap=True)
    with ExitStack() as stack:
        small, large = (
            SizedService(stack.enter_context(new_bench(SECONDS, has_own_values=True)), number)
            for number in (SMALL, accounts)
        )
        rebuilds = fill(small, large, screen)
        rows = [*compared(measured_turns(small, large, rounds, screen)), *compared(rebuilds)]
        sizes = [f"{service.accounts:,} accounts ({service.bytes() / 1e9:.1f} GB)" for service in (small, large)]
    screen.print(f"{' and '.join(sizes)}, {processor_model()}, medians of {rounds}\n")
    screen.print("\n".join(row.line for row in rows))
    return all(row.is_met for row in rows)


def fill(small: SizedService, large: SizedService, screen: Console) -> MeasuredPairs:
    """Fill both logs, and build everything that is derived from them. Return the values of the rebuilds."""
    began = time.monotonic()

    def report(step: str) -> None:
        screen.print(f"{time.monotonic() - began:5.0f} s: {step}")

    for service in (small, large):
        service.append()
        report(f"{service.accounts * EVENTS_AN_ACCOUNT:,} events of {service.accounts:,} accounts in the log")
    measured_pairs: MeasuredPairs = []
    for projection in PROJECTIONS:
        rebuilds = small.rebuild(projection), large.rebuild(projection)
        measured_pairs += [rebuilds] if projection.name in REBUILT else []
        report(f"{projection.name} built")
    for service in (small, large):
        service.bench.seal()
        service.bench.settle()
    small.save()
    report("sealed, vacuumed")
    return measured_pairs


def measured_turns(small: SizedService, large: SizedService, rounds: int, screen: Console) -> MeasuredPairs:
    """Run every measurement in each round on both services. Rounds alternate which service is measured first."""
    measured_pairs: MeasuredPairs = []
    for number in range(rounds):
        for measurement in MEASUREMENTS:
            order = (small, large) if number % 2 == 0 else (large, small)
            values = {service: service.measured(measurement) for service in order}
            measured_pairs.append((values[small], values[large]))
            for row in compared(measured_pairs[-1:]):
                screen.print(f"round {number + 1}: {row.line}")
    return measured_pairs


def _creates(service: SizedService) -> dict[str, Value]:
    return {"create, workers running": Value(service.bench.creates_among_workers().rate, "accounts/s")}


def _processing(service: SizedService) -> dict[str, Value]:
    measured = service.bench.processed(PROCESSED)
    return {
        "create to PROCESSED": Value(measured.rate, "accounts/s"),
        "create to PROCESSED, processor": Value(measured.service_us, "µs an account", is_cost=True),
    }


def _reads(service: SizedService) -> dict[str, Value]:
    measured = service.bench.status_reads(*READ_RATES, known=Reads(0, service.accounts, NAMED), times=READ_TIMES)
    return {f"{READS}, {at}": Value(measured.latency_ms[at], "ms", is_cost=True) for at in ("p50", "p99")}


MEASUREMENTS: tuple[Callable[[SizedService], dict[str, Value]], ...] = (
    _creates,
    _processing,
    _reads,
    lambda service: {"validate": Value(service.bench.validations_shared().rate, "accounts/s")},
    lambda service: {"recorder at 64 callers": Value(service.append_rate(), "accounts/s")},
    lambda service: {"search for an e-mail address": Value(service.search_ms(), "ms", is_cost=True)},
)


def compared(measured_pairs: Sequence[tuple[Values, Values]]) -> Iterator[Bar]:
    """Yield the median ratio of every figure of these turns, with the medians of both services. Pure."""
    names = {name: value for small, _ in measured_pairs for name, value in small.items()}
    for name, value in names.items():
        pairs = [(small[name], large[name]) for small, large in measured_pairs if name in small]
        small, large = (statistics.median(value.measured for value in column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(_ratio(*pair) for pair in pairs)
        yield Bar(f"{name}, {small:,.2f} {value.unit} with few and {large:,.2f} with many accounts", ratio, BAR)


def _ratio(small: Value, large: Value) -> float:
    return small.measured / large.measured if small.is_cost else large.measured / small.measured
