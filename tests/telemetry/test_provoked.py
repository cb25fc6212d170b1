"""Alerts in real services: a test produces the condition, and the metric of the alert crosses its limit."""

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.http.request_log import RequestLog
from cli.service.exposition import ServiceCollector
from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.log import follow, locks
from eventstore.log.ledger import Ledger
from eventstore.proof.sealing import SealRefused
from projections.auxiliary.troubles import report_troubles
from telemetry.prometheus import PrometheusMeasures
from telemetry.supervision import Supervision
from tests.support.alerts import RULES
from tests.support.certificates import certificate
from tests.support.following import follow as follow_log
from tests.support.make import NOON, an_account
from tests.support.running import wait_for
from tests.support.sealed_log import KEY, Log
from tests.support.serving import answered
from tests.support.staging import SUPPLIER, stage
from tests.support.times import set_log_time

_SIMPLE = re.compile(
    r'(?P<how>max|sum)(?: by \(\w+\))? ?\((?P<name>\w+)(?:\{(?P<label>\w+)="(?P<value>[^"]+)"\})?\)'
    r" (?P<sign><|>|==) (?P<limit>[0-9.e]+(?: \* 86400)?)\Z"
)


def holds(alert: str, *registries: CollectorRegistry, limit: float | None = None) -> bool:
    """Return True if an alert's expression, one number against its limit, holds for these registries.

    `limit` replaces a limit that takes a test too long.
    """
    match = _SIMPLE.match(RULES[alert]["expr"])
    assert match, RULES[alert]["expr"]
    values = [
        sample.value
        for registry in registries
        for family in registry.collect()
        for sample in family.samples
        if sample.name == match["name"] and (not match["label"] or sample.labels[match["label"]] == match["value"])
    ]
    if not values:
        return False
    seen = max(values) if match["how"] == "max" else sum(values)
    days = match["limit"].endswith("* 86400")
    limit = float(match["limit"].split()[0]) * (86_400 if days else 1) if limit is None else limit
    return {"<": seen < limit, ">": seen > limit, "==": seen == limit}[match["sign"]]


@pytest.fixture
def watched(database: PostgresUrls) -> Iterator[CollectorRegistry]:
    """Metrics of a service on this database."""
    registry, collector = CollectorRegistry(), ServiceCollector(database.service)
    collector.fresh_s = 0.0
    registry.register(collector)
    yield registry
    collector.close()


def test_a_database_that_is_away() -> None:
    registry = CollectorRegistry()
    registry.register(ServiceCollector("postgresql://nobody@127.0.0.1:1/none"))
    assert holds("ImportledgerDatabaseAway", registry)


def test_nobody_works_and_then_somebody_does(watched: CollectorRegistry, database: PostgresUrls) -> None:
    alerts = ("ImportledgerNoRelay", "ImportledgerNoProjector", "ImportledgerNoWorker")
    assert all(holds(alert, watched) for alert in alerts)
    with psycopg.connect(database.service, autocommit=True) as working:
        working.execute("SELECT pg_advisory_lock(%s), pg_advisory_lock(%s)", (locks.RELAY, locks.PROJECTOR))
        working.execute("SELECT pg_advisory_lock(%s, 7)", (locks.WORKERS,))
        assert not any(holds(alert, watched) for alert in alerts)


def test_followers_that_are_behind(
    watched: CollectorRegistry, database: PostgresUrls, ledger: Ledger, admin: psycopg.Connection[Any]
) -> None:
    alerts = ("ImportledgerRelayBehind", "ImportledgerProjectorBehind", "ImportledgerSealerBehind")
    follow.set_checkpoint(admin, "relay", 0)
    assert not any(holds(alert, watched) for alert in alerts)
    set_log_time(database, now() - timedelta(hours=1))
    ledger.execute(f"supplier/{SUPPLIER}", CreateSupplier(), at=now(), by="t")
    assert all(holds(alert, watched) for alert in alerts)
    follow.set_checkpoint(admin, "relay", 1)
    follow_log(ledger)
    assert [holds(alert, watched) for alert in alerts] == [False, False, True]


@pytest.mark.promise("doctor-metrics-call-sealed")
def test_a_log_that_cannot_be_signed(log: Log) -> None:
    registry, collector = CollectorRegistry(), ServiceCollector(log.urls.service)
    collector.fresh_s = 0.0
    registry.register(collector)
    alerts = ("ImportledgerSealerBehind", "ImportledgerIntakeStopped")
    log.add(301, 310)
    log.admin.execute("UPDATE events SET recorded_at = recorded_at - interval '1 hour' WHERE position > 600")
    log.outside.keep(620, KEY.sign(620, bytes(32), NOON))
    assert [holds(alert, registry) for alert in alerts] == [True, False]
    with pytest.raises(SealRefused):
        log.seal()
    assert [holds(alert, registry) for alert in alerts] == [True, True]
    assert registry.get_sample_value("importledger_lag_events", {"follower": "sealer"}) == 30
    log.admin.execute("UPDATE intake_stops SET ended_at = now()")
    assert [holds(alert, registry) for alert in alerts] == [True, False]
    collector.close()


PROVOKED = {
    "ImportledgerImportsWait": "UPDATE import_status SET modified_at = modified_at - interval '11 minutes'",
    "ImportledgerStreamsParked": "INSERT INTO parked_streams (name, version, stream, position, error)"
    " SELECT name, version, 'import/A/1', 1, '' FROM projection_versions WHERE state = 'live' LIMIT 1",
    "ImportledgerMailsWait": "INSERT INTO customer_mail (supplier, external_account_number, status, attempt,"
    " modified_at, position) SELECT 'S', n::text, 'REQUESTED', 0, now(), n FROM generate_series(1, 1001) AS n",
}


@pytest.mark.parametrize("alert", PROVOKED)
def test_rows_that_wait(watched: CollectorRegistry, ledger: Ledger, admin: psycopg.Connection[Any], alert: str) -> None:
    stage(ledger, an_account(SUPPLIER))
    assert not holds(alert, watched)
    admin.execute(PROVOKED[alert].encode())
    assert holds(alert, watched)


def test_work_that_fails(watched: CollectorRegistry, admin: psycopg.Connection[Any]) -> None:
    assert not holds("ImportledgerWorkFails", watched)
    supervision = Supervision()
    supervision.failed("projection throughput", ValueError("no"))
    report_troubles(admin, "relay@here", supervision.troubles())
    assert holds("ImportledgerWorkFails", watched)
    report_troubles(admin, "relay@here", [])
    assert not holds("ImportledgerWorkFails", watched)


def test_the_log_s_lock_is_held(watched: CollectorRegistry, database: PostgresUrls) -> None:
    waiting = psycopg.connect(database.service, autocommit=True)
    with psycopg.connect(database.service, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", (locks.LOG,))
        thread = threading.Thread(target=waiting.execute, args=("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,)))
        thread.start()
        wait_for(lambda: holds("ImportledgerLogLockHeld", watched, limit=0.0), "the wait is seen")
    thread.join(30)
    waiting.close()
    assert not holds("ImportledgerLogLockHeld", watched, limit=0.0)


def test_a_certificate_that_ends(folder: Path) -> None:
    assert RULES["ImportledgerCertificateEnds"]["expr"].endswith("- time() < 14 * 86400")
    file = certificate(folder / "a.pem", datetime.now(UTC) + timedelta(days=13))
    registry = CollectorRegistry()
    registry.register(ServiceCollector("postgresql://nobody@127.0.0.1:1/none", certificates=[file]))
    ends = registry.get_sample_value("importledger_certificate_ends_timestamp_seconds", {"file": str(file)})
    assert ends is not None
    assert 0 < ends - datetime.now(UTC).timestamp() < 14 * 86_400


def test_requests_that_cannot_be_answered(counted: PrometheusMeasures) -> None:
    answered(RequestLog(create_app("postgresql://nobody@127.0.0.1:1/none", b"k" * 32)), "/readyz")
    of = {"method": "GET", "route": "/readyz/", "status": "503"}
    assert counted.registry.get_sample_value("importledger_requests_total", of) == 1
