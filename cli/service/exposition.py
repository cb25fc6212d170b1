"""What is true of the whole service, as metrics: asked of the database when they are read, and by whoever is asked.

Every role with `/metrics` tells the same of it, so that what stands still is seen also where its own process is gone.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from eventstore.operations.fitness import Durability
from projections import FOLLOWING
from projections.queries.vitals import Vitals, read_vitals

FRESH_S = 2.0
"""How long what the database said is said again: several may ask at a time."""
SIZES_EVERY_S = 60.0
MAX_SUPPLIERS = 500
"""Suppliers with series of their own; the others, by name, share one."""
_SESSION = "SET statement_timeout = '2s'; SET lock_timeout = '1s'; SET TIME ZONE 'UTC'"


class ServiceCollector(Collector):
    """Asks the database on a connection of its own, which no request waits for."""

    def __init__(
        self, database_url: str, *, durability: Durability = "local", certificates: Sequence[Path] = ()
    ) -> None:
        self._url = database_url
        self._durability = durability
        self._certificates = certificates
        self.fresh_s = FRESH_S
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._asked_at = self._sized_at = float("-inf")
        self._overview: Vitals | None = None
        self._sizes = Vitals()

    def describe(self) -> list[Metric]:
        """Nothing: the database is not asked before somebody reads."""
        return []

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            overview = self._seen()
            sizes = self._sizes
        yield _gauge("database_up", "Whether the database answers.", float(overview is not None))
        yield _gauge("durability_replicated", "Whether a standby is asked for.", self._durability == "replicated")
        yield from certificate_metrics(self._certificates)
        if overview is not None:
            yield from log_metrics(overview)
            yield from import_metrics(overview)
            yield from server_metrics(overview, sizes)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _seen(self) -> Vitals | None:
        """What the database says now, or said a moment ago; None where it is away."""
        now = time.monotonic()
        if now - self._asked_at < self.fresh_s:
            return self._overview
        with_sizes = now - self._sized_at >= SIZES_EVERY_S
        names = tuple(projection.name for projection in FOLLOWING)
        try:
            self._overview = read_vitals(self._connected(), names, with_sizes=with_sizes)
        except psycopg.Error:
            self._overview = None
            self._drop()
        else:
            if with_sizes:
                self._sizes, self._sized_at = self._overview, now
        self._asked_at = now
        return self._overview

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            name = "importledger metrics"
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=2, application_name=name)
            self._connection.execute(_SESSION)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def log_metrics(overview: Vitals) -> Iterator[Metric]:
    """The log, and how far behind it everybody is."""
    yield _gauge("log_events", "Events in the log.", overview.head)
    yield _gauge(
        "intake_stopped", "1 while nothing is taken in, until an operator decides.", overview.is_intake_stopped
    )
    for name, text, lags, label in (
        ("lag", "a follower of the log", overview.lags, "follower"),
        ("projection_lag", "a projection", overview.projection_lags, "projection"),
    ):
        events = _family(f"{name}_events", f"Events that {text} is behind.", label)
        seconds = _family(f"{name}_seconds", f"Age of the first event that {text} has not taken in.", label)
        for one, lag in lags.items():
            events.add_metric([one], lag.events)
            seconds.add_metric([one], lag.seconds)
        yield from (events, seconds)
    yield _labelled("parked_streams", "Streams that a projection leaves out.", "projection", overview.parked)
    yield _labelled("troubles", "Processes in which work fails.", "work", overview.troubles)
    yield _labelled("holders", "Processes that do a piece of work.", "work", overview.holders)
    yield _gauge("log_lock_waiters", "Who waits for the log's lock at this moment.", overview.log_lock_waiters)
    yield _gauge("log_lock_wait_seconds", "How long the first of them has waited.", overview.log_lock_wait_s)


def import_metrics(overview: Vitals) -> Iterator[Metric]:
    """What became of accounts, and what waits."""
    imports = GaugeMetricFamily("importledger_imports", "Imports by supplier and state.", labels=["supplier", "state"])
    named = sorted({supplier for supplier, _, _ in overview.imports})[:MAX_SUPPLIERS]
    counts: dict[tuple[str, str], int] = {}
    for supplier, state, number in overview.imports:
        key = supplier if supplier in named else "(others)", state
        counts[key] = counts.get(key, 0) + number
    for (supplier, state), number in counts.items():
        imports.add_metric([supplier, state], number)
    yield imports
    yield _gauge("oldest_pending_seconds", "How long the oldest import waits that could be processed.",
                 overview.oldest_pending_s)  # fmt: skip
    yield _gauge("mails_waiting", "E-mails that wait.", overview.waiting_mails)
    yield _gauge("access_keys", "Access keys in force.", overview.keys)
    yield _gauge("oldest_access_key_seconds", "Age of the oldest of them.", overview.oldest_key_s)


def server_metrics(overview: Vitals, sizes: Vitals) -> Iterator[Metric]:
    """The database server: connections, write-ahead log, standbys, transactions, sizes."""
    yield _gauge("database_connections", "Connections of all clients to the server.", overview.connections)
    yield _gauge("database_max_connections", "How many there may be.", overview.max_connections)
    wal = CounterMetricFamily("importledger_wal_bytes", "Write-ahead log that was ever written.")
    if overview.wal_bytes is not None:
        wal.add_metric([], overview.wal_bytes)
    yield wal
    yield _gauge("wal_kept_bytes", "Write-ahead log that is kept for the slowest replication slot.",
                 overview.kept_wal_bytes)  # fmt: skip
    yield _gauge("synchronous_standbys", "Standbys that a commit may wait for.", overview.synchronous_standbys)
    yield _gauge("transaction_age", "Transactions since the oldest that is not frozen.", overview.transaction_age)
    yield _gauge("database_bytes", "Size of the database.", sizes.database_bytes)
    yield _labelled("table_bytes", "Size of tables with their indexes; of a schema together.", "table",
                    sizes.table_bytes)  # fmt: skip
    yield _labelled("table_dead_rows", "Rows that wait for a vacuum.", "table", sizes.dead_rows)


def certificate_metrics(files: Sequence[Path]) -> Iterator[Metric]:
    """When certificates end, by file: the first of each file's. One that cannot be read has ended."""
    ends = _family("certificate_ends_timestamp_seconds", "When a certificate ends.", "file")
    for file in files:
        ends.add_metric([str(file)], ends_at(file).timestamp())
    yield ends


def ends_at(file: Path) -> datetime:
    """When the first certificate of a PEM file ends; 1970 where there is none to read."""
    from cryptography import x509  # it is large, and most services are told of no certificate

    try:
        certificates = x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError):
        certificates = []
    return min((one.not_valid_after_utc for one in certificates), default=datetime.fromtimestamp(0, UTC))


def _family(name: str, text: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"importledger_{name}", text, labels=[label])


def _labelled(name: str, text: str, label: str, numbers: dict[str, int]) -> GaugeMetricFamily:
    family = _family(name, text, label)
    for one, number in numbers.items():
        family.add_metric([one], number)
    return family


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"importledger_{name}", text)
    if value is not None:
        family.add_metric([], float(value))
    return family
