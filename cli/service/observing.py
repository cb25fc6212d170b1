"""Metrics and traces of a role: counts from its start, a port for metrics, and spans if an exporter is set."""

import os
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import structlog
from psycopg.conninfo import conninfo_to_dict

from cli.service.exposition import ServiceCollector
from cli.service.settings import Settings
from eventstore.log.recorder import CODE_VERSION
from telemetry.measures import measure_with
from telemetry.prometheus import begin_measures, encoded_metrics, exposed
from telemetry.serving import Expose, serve_metrics
from telemetry.spans import spans, trace_with
from telemetry.supervision import supervision

EVERY_S = 5.0
"""Interval between two reports of pools and queues [seconds]."""

logger = structlog.get_logger()


class Observed:
    """Metrics and traces of this process, which begin when it is created. `expose` returns the metrics."""

    def __init__(self, settings: Settings, database_url: str, role: str) -> None:
        self._stop = threading.Event()
        _trace(settings, role)
        is_shared = settings.metrics_folder is not None
        measures = begin_measures(
            settings.role_name or (f"{role}-{os.getpid()}" if is_shared else role), is_shared=is_shared
        )
        measure_with(measures)
        registry = exposed(measures, settings.metrics_folder)
        collector = ServiceCollector(
            database_url, durability=settings.durability, certificates=watched_certificates(settings)
        )
        registry.register(collector)
        self.expose: Expose = lambda accept: encoded_metrics(registry, accept)

    def report(self, *reports: Callable[[], None]) -> None:
        """Call functions that report metrics, now and every few seconds until `stop`."""

        def collect() -> None:
            while True:
                for report in reports:
                    try:
                        report()
                    except Exception as error:  # the failure itself is reported elsewhere
                        logger.debug("could not collect metrics", reason=type(error).__name__)
                if self._stop.wait(EVERY_S):
                    return

        supervision.thread("pulse", collect, self._stop)

    def serve(self, listening: Sequence[socket.socket]) -> None:
        """Serve the metrics on these sockets."""
        if listening:
            serve_metrics(listening, self.expose)

    def stop(self) -> None:
        """Stop the calls, and send the remaining spans."""
        self._stop.set()
        spans().close()


def _trace(settings: Settings, role: str) -> None:
    """Import OpenTelemetry and record spans, if an exporter is set."""
    if settings.traces == "none":
        return
    from telemetry.otlp import OpenTelemetry, exporter_of

    attributes = {"service.instance.id": f"{settings.role_name or role}@{socket.gethostname()}"}
    attributes |= {"service.version": CODE_VERSION}
    if settings.service_name is not None:
        attributes["service.name"] = settings.service_name
    trace_with(OpenTelemetry(exporter_of(settings.traces), attributes, has_own_sampler=settings.has_sampler))


def watched_certificates(settings: Settings) -> tuple[Path, ...]:
    """Return the certificate files that the URLs of the servers name."""
    files: list[Path] = []
    if settings.database_url is not None:
        parts = conninfo_to_dict(settings.database_url)
        files += [
            Path(str(parts[name])) for name in ("sslcert", "sslrootcert") if parts.get(name) not in (None, "system")
        ]
    if settings.redis_url is not None:
        query = parse_qs(urlsplit(settings.redis_url).query)
        files += [Path(query[name][0]) for name in ("ssl_certfile", "ssl_ca_certs") if name in query]
    return tuple(dict.fromkeys(files))
