"""Measure waits of users: until an account exists, a change is effective, an outage is reported, a service is up."""

import time
from contextlib import closing
from functools import partial

import psutil

from bench.results import Bar
from bench.service import OTHER, SUPPLIER, Bench
from cli.operator import caused_by
from cli.service.roles import processes_for, workers_for
from eventstore.aggregates import supplier
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from importledger_client.book import BookEntry, book
from projections import INLINE
from system.processors import usable_cores
from tests.support.importing import ImportClient
from tests.support.running import start_service

MANY = 100_000


def slowest(bench: Bench) -> list[Bar]:
    """Measure all waits, and return each with its bar, in seconds."""
    return [
        Bar("create to PROCESSED on the idle service, slowest of 20", idle_latency(bench), 1.0, is_most=True),
        Bar("a supplier's status in force in the api, slowest of 10", pause_latency(bench), 1.0, is_most=True),
        Bar("503 while Postgres hangs, slowest of 10", hang_latency(bench), 2.0, is_most=True),
        Bar(f"another supplier's account to PROCESSED while {MANY:,} wait", fairness_latency(bench), 5.0, is_most=True),
        Bar("`up` on a folder that is there until it is ready, slowest of 3", start_latency(bench), 3.0, is_most=True),
    ]


def idle_latency(bench: Bench, samples: int = 20) -> float:
    """Return the seconds from a create's answer until PROCESSED on an idle service: the slowest of `samples`."""
    waits = []
    bench.settle()
    with bench.apis() as port, bench.working(), closing(bench.client(port)) as client:
        for entry in book(SUPPLIER, samples + 1, seed=99):
            waits.append(_seconds_until_processed(client, SUPPLIER, entry))
            time.sleep(0.1)
    return max(waits[1:])  # the first one warms up


def fairness_latency(bench: Bench, samples: int = 5) -> float:
    """Return the seconds until an account is PROCESSED while MANY of another supplier wait: the slowest of samples."""
    bench.settle()
    with bench.apis() as port:
        bench.stage(port, MANY)
        with bench.working(), closing(bench.client(port)) as client:
            _, *waits = [_seconds_until_processed(client, OTHER, entry) for entry in book(OTHER, samples + 1, seed=96)]
    return max(waits)


def _seconds_until_processed(client: ImportClient, supplier_code: str, entry: BookEntry) -> float:
    client.create(entry.body)
    started = time.monotonic()
    while client.status(supplier_code, entry.external_account_number).body["status"] != "PROCESSED":
        time.sleep(0.005)
    return time.monotonic() - started


def pause_latency(bench: Bench, samples: int = 5) -> float:
    """Return the seconds until a changed status of a supplier applies in the api: the slowest of 2 * `samples`."""
    slowest = 0.0
    with (
        closing(Ledger(bench.connections.database_url, views=INLINE)) as ledger,
        bench.server("cli.main", "api", "--port") as port,
        closing(bench.client(port)) as client,
    ):
        bodies = (entry.body for entry in book(SUPPLIER, 10_000, seed=98))
        changes: tuple[tuple[supplier.SupplierStatus, int], ...] = (("paused", 400), ("ongoing", 201))
        for status, answer in changes * samples:
            command = supplier.ChangeSupplierStatus(status=status)
            ledger.execute(supplier.stream_of(SUPPLIER), command, at=now(), by=caused_by())
            started = time.monotonic()
            while client.create(next(bodies)).status != answer:
                time.sleep(0.01)
            slowest = max(slowest, time.monotonic() - started)
    return slowest


def hang_latency(bench: Bench, samples: int = 5) -> float:
    """Return the seconds until create and status answer 503 while Postgres hangs: the slowest of `samples` each."""
    slowest = 0.0
    postmaster = psutil.Process(bench.postmaster)
    accounts = list(book(SUPPLIER, samples + 1, seed=97))
    with bench.server("cli.main", "api", "--port") as port, closing(bench.client(port, tries=1)) as client:
        client.create(accounts.pop().body)
        processes = [postmaster, *postmaster.children()]
        for process in processes:
            process.suspend()
        try:
            for entry in accounts:
                for request in (partial(client.create, entry.body), partial(client.status, SUPPLIER, "x")):
                    started = time.monotonic()
                    if request().status != 503:
                        raise RuntimeError("503 was expected while Postgres hangs")
                    slowest = max(slowest, time.monotonic() - started)
        finally:
            for process in processes:
                process.resume()
        while client.create(accounts[0].body).status != 201:
            time.sleep(0.05)
    return slowest


def start_latency(bench: Bench, samples: int = 3) -> float:
    """Return the seconds until `importledger up` on an existing folder is ready: the slowest of `samples`."""
    folder, seconds = bench.folder / "up", list[float]()
    folder.mkdir()
    options = ("--api-processes", str(processes_for(usable_cores())))
    for _ in range(samples + 1):
        began = time.monotonic()
        with start_service(folder, *options, workers=workers_for(usable_cores())):
            seconds.append(time.monotonic() - began)
    return max(seconds[1:])
