"""Measures for Prometheus, by its official client: in memory, or in files that several processes share.

Below a supervisor, all roles write into one folder (the client's multiprocess mode), each under its own name. Any role
can expose the metrics of all roles, and a restarted role continues its counts. A role that runs alone keeps its counts
in memory.
"""

import os
import resource
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from telemetry.counts_file import count_in_files, write_counts
from telemetry.measures import Measures

MAX_CODES = 300
"""Codes of refusals with a separate series. Further codes are counted as `other`."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_APPEND_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 400, 800)


class _SharedCounts(MultiProcessCollector):
    """Collector of the counts of all processes of a folder."""

    def collect(self) -> Iterable[Metric]:
        """Merge the files except empty files, which a starting process creates and the client cannot read."""
        write_counts()
        files = [str(file) for file in Path(self._path).glob("*.db") if file.stat().st_size]
        return self.merge(files, accumulate=True)  # type: ignore[no-untyped-call, no-any-return]


class PrometheusMeasures(Measures):
    """Listener that counts in metrics. The number of label values is limited, since strangers may send any method."""

    def __init__(self, role: str) -> None:
        registry = self.registry = CollectorRegistry()
        common: Any = {"namespace": "importledger", "registry": registry}
        self._role = role
        self._requests = Counter("requests", "Requests by route and status.", ("method", "route", "status"), **common)
        self._seconds = Histogram(
            "request_seconds", "Time until a request was answered.", ("method", "route"), buckets=_SECONDS, **common
        )
        self._refused = Counter("refusals", "Requests and lines of bulk bodies refused, by code.", ("code",), **common)
        self._accepted = Counter("creates", "Accounts that were accepted.", ("mode", "outcome"), **common)
        self._appended = Histogram("append_batch_events", "Events of a transaction.", buckets=_SIZES, **common)
        self._append_s = Histogram(
            "append_seconds", "Time of an append, its wait for the log's lock included.",
            buckets=_APPEND_SECONDS, **common,
        )  # fmt: skip
        self._message_streams = Histogram(
            "message_streams", "Streams of a message.", ("queue",), buckets=_SIZES, **common
        )
        self._waiting = Gauge(
            "waiting_messages", "Messages that wait for a worker.", ("queue",), multiprocess_mode="mostrecent", **common
        )
        self._processed = Histogram("process_batch_imports", "Imports ended together.", buckets=_SIZES, **common)
        self._process_s = Histogram("process_seconds", "Time of such a batch.", buckets=_SECONDS, **common)
        self._ended = Counter("imports_ended", "Imports that have ended, by state.", ("status",), **common)
        per_role: Any = {"multiprocess_mode": "mostrecent", **common}
        self._connections = Gauge("pool_connections", "Connections of a pool.", ("role", "pool", "state"), **per_role)
        self._pool_waiting = Gauge("pool_waiting", "Callers that wait for a connection.", ("role", "pool"), **per_role)
        self._pool_wait_s = Counter("pool_wait_seconds", "Time spent waiting for one.", ("role", "pool"), **common)
        self._pool_errors = Counter("pool_errors", "Waits that ended without one.", ("role", "pool"), **common)
        self._queued = Gauge("append_queue", "Appends that wait for the log's writer.", ("role",), **per_role)
        self._memory = Gauge("process_memory_bytes", "Memory of a role's process.", ("role",), **per_role)
        self._processor = Gauge("process_cpu_seconds", "Processor time of it.", ("role",), **per_role)
        self._codes: set[str] = set()
        self._pool_stats: dict[str, tuple[int, int]] = {}
        self._of_request: dict[tuple[str, str | None, int | None], tuple[Counter, Histogram]] = {}

    def answered(self, method: str, route: str | None, status: int | None, duration_s: float) -> None:
        method_label = method if method in _METHODS else "other"  # a stranger could make a series with any other method
        counted = self._of_request.get((method_label, route, status))
        if counted is None:
            route_label = route or "none"
            counted = (
                self._requests.labels(method_label, route_label, str(status or "none")),
                self._seconds.labels(method_label, route_label),
            )
            self._of_request[method_label, route, status] = counted
        requests, seconds = counted
        requests.inc()
        seconds.observe(duration_s)

    def settle(self) -> None:
        write_counts()

    def refused(self, code: str) -> None:
        if code not in self._codes and len(self._codes) >= MAX_CODES:
            code = "other"
        self._codes.add(code)
        self._refused.labels(code).inc()

    def accepted(self, mode: str, outcome: str) -> None:
        self._accepted.labels(mode, outcome).inc()

    def appended(self, events: int, duration_s: float) -> None:
        self._appended.observe(events)
        self._append_s.observe(duration_s)

    def message_sent(self, queue: str, streams: int) -> None:
        self._message_streams.labels(queue).observe(streams)
        self.settle()

    def waiting(self, queue: str, messages: int) -> None:
        self._waiting.labels(queue).set(messages)

    def processed(self, imports: int, duration_s: float) -> None:
        self._processed.observe(imports)
        self._process_s.observe(duration_s)
        self.settle()

    def ended(self, status: str, imports: int) -> None:
        self._ended.labels(status).inc(imports)
        self.settle()

    def pool(self, name: str, stats: Mapping[str, int]) -> None:
        size, free = stats.get("pool_size", 0), stats.get("pool_available", 0)
        for state, count in (("used", size - free), ("idle", free), ("max", stats.get("pool_max", 0))):
            self._connections.labels(self._role, name, state).set(count)
        self._pool_waiting.labels(self._role, name).set(stats.get("requests_waiting", 0))
        before = self._pool_stats.get(name, (0, 0))
        now = stats.get("requests_wait_ms", 0), stats.get("requests_errors", 0)
        self._pool_wait_s.labels(self._role, name).inc(max(0, now[0] - before[0]) / 1000)
        self._pool_errors.labels(self._role, name).inc(max(0, now[1] - before[1]))
        self._pool_stats[name] = now

    def queued(self, appends: int) -> None:
        """Set the number of queued appends, and the memory and CPU time of the process."""
        self._queued.labels(self._role).set(appends)
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._memory.labels(self._role).set(_resident_bytes())
        self._processor.labels(self._role).set(used.ru_utime + used.ru_stime)
        self.settle()


def begin_measures(role: str, *, is_shared: bool) -> PrometheusMeasures:
    """Return the measures of this process.

    Shared measures are written to PROMETHEUS_MULTIPROC_DIR. The name of the role must be unique, or two processes would
    write into the same file.
    """
    if is_shared:
        count_in_files()
        values.ValueClass = values.MultiProcessValue(lambda: role)  # type: ignore[no-untyped-call]
    return PrometheusMeasures(role)


def exposed(measures: PrometheusMeasures, shared: Path | None) -> CollectorRegistry:
    """Return the registry of the metrics of all processes that share the folder, or of this process."""
    if shared is None:
        PlatformCollector(registry=measures.registry)
        ProcessCollector(registry=measures.registry)
        return measures.registry
    registry = CollectorRegistry()
    _SharedCounts(registry, str(shared))  # type: ignore[no-untyped-call]
    return registry


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def encoded_metrics(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the metrics as text and their media type, for an Accept header."""
    encode, media = choose_encoder(accept)
    return encode(registry), media
