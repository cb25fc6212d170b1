"""Metrics of the whole service, read from the database at each scrape.

Every role with `/metrics` exposes the same numbers, so the metrics show a stopped role even after its process has
ended.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
"""Time for which an answer of the database is reused [seconds]."""
SIZES_EVERY_S = 60.0
MAX_SUPPLIERS = 500
"""Suppliers with a separate series, the first by name. All other suppliers share one series."""
_SESSION = "SET statement_timeout = '2s'; SET lock_timeout = '1s'; SET TIME ZONE 'UTC'"


class ServiceCollector(Collector):
    """Collector of metrics with a separate database connection, which blocks no request."""

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
        """Return no metrics, so that registration does not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            overview = self._seen()
            sizes = self._sizes
        yield from _gauges(
            ("database_up", "Whether the database answers.", overview is not None),
            ("durability_replicated", "Whether a standby is required.", self._durability == "replicated"),
        )
        yield from certificate_metrics(self._certificates)
        if overview is not None:
            yield from log_metrics(overview)
            yield from import_metrics(overview)
            yield from server_metrics(overview, sizes)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _seen(self) -> Vitals | None:
        """Return numbers that are at most `fresh_s` seconds old; None if the database does not answer."""
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
    """Yield metrics of the log, and the lag of its followers and projections."""
    yield from _gauges(
        ("log_events", "Events in the log.", overview.head),
        ("intake_stopped", "1 while no accounts are accepted, until an operator decides.", overview.is_intake_stopped),
        ("log_lock_waiters", "Transactions that wait for the log's lock now.", overview.log_lock_waiters),
        ("log_lock_wait_seconds", "Longest of these waits so far.", overview.log_lock_wait_s),
    )
    for name, text, lags, label in (
        ("lag", "a follower of the log", overview.lags, "follower"),
        ("projection_lag", "a projection", overview.projection_lags, "projection"),
    ):
        events = {follower: lag.events for follower, lag in lags.items()}
        seconds = {follower: lag.seconds for follower, lag in lags.items()}
        yield _labelled(f"{name}_events", f"Events that {text} is behind.", label, events)
        yield _labelled(f"{name}_seconds", f"Age of the first event that {text} has not processed.", label, seconds)
    yield _labelled("parked_streams", "Streams that a projection leaves out.", "projection", overview.parked)
    yield _labelled("troubles", "Processes in which work fails.", "work", overview.troubles)
    yield _labelled("holders", "Processes that do a piece of work.", "work", overview.holders)


def import_metrics(overview: Vitals) -> Iterator[Metric]:
    """Yield the numbers of imports by supplier and state, waits, waiting e-mails, and keys."""
    imports = GaugeMetricFamily("importledger_imports", "Imports by supplier and state.", labels=["supplier", "state"])
    named = sorted({supplier for supplier, _, _ in overview.imports})[:MAX_SUPPLIERS]
    counts: Counter[tuple[str, str]] = Counter()
    for supplier, state, number in overview.imports:
        counts[supplier if supplier in named else "(others)", state] += number
    for labels, number in counts.items():
        imports.add_metric(labels, number)
    yield imports
    yield from _gauges(
        ("oldest_pending_seconds", "Wait of the oldest import that could be processed.", overview.oldest_pending_s),
        ("mails_waiting", "E-mails that wait.", overview.waiting_mails),
        ("access_keys", "Access keys in force.", overview.keys),
        ("oldest_access_key_seconds", "Age of the oldest of them.", overview.oldest_key_s),
    )


def server_metrics(overview: Vitals, sizes: Vitals) -> Iterator[Metric]:
    """Yield metrics of the database server: connections, write-ahead log, standbys, transactions, sizes."""
    wal = CounterMetricFamily("importledger_wal_bytes", "Write-ahead log that was ever written.")
    if overview.wal_bytes is not None:
        wal.add_metric([], overview.wal_bytes)
    yield wal
    yield from _gauges(
        ("database_connections", "Connections of all clients to the server.", overview.connections),
        ("database_max_connections", "Largest number of connections.", overview.max_connections),
        ("wal_kept_bytes", "Write-ahead log kept for the slowest replication slot.", overview.kept_wal_bytes),
        ("synchronous_standbys", "Standbys that a commit may wait for.", overview.synchronous_standbys),
        ("transaction_age", "Transactions since the oldest that is not frozen.", overview.transaction_age),
        ("database_bytes", "Size of the database.", sizes.database_bytes),
    )
    yield _labelled("table_bytes", "Size of tables with indexes; of a schema together.", "table", sizes.table_bytes)
    yield _labelled("table_dead_rows", "Rows that wait for a vacuum.", "table", sizes.dead_rows)


def certificate_metrics(files: Sequence[Path]) -> Iterator[Metric]:
    """Yield the first expiry of the certificates in each file. An unreadable file counts as expired."""
    ends = {str(file): ends_at(file).timestamp() for file in files}
    yield _labelled("certificate_ends_timestamp_seconds", "End of a certificate.", "file", ends)


def ends_at(file: Path) -> datetime:
    """Return the first expiry of the certificates in a PEM file; 1970 if no certificate can be read."""
    from cryptography import x509  # imported here: the library is large, and most services have no certificate

    try:
        certificates = x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError):
        certificates = []
    ends = (certificate.not_valid_after_utc for certificate in certificates)
    return min(ends, default=datetime.fromtimestamp(0, UTC))


def _labelled(name: str, text: str, label: str, numbers: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"importledger_{name}", text, labels=[label])
    for value, number in numbers.items():
        family.add_metric([value], number)
    return family


def _gauges(*rows: tuple[str, str, float | None]) -> Iterator[GaugeMetricFamily]:
    """Yield a metric for each (name, text, value). A metric with the value None has no sample."""
    for name, text, value in rows:
        family = GaugeMetricFamily(f"importledger_{name}", text)
        if value is not None:
            family.add_metric([], float(value))
        yield family
