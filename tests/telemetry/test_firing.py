"""Every alert fires on the metrics of a service in the state that it describes, and not before.

Limits that no test can reach (10 GB, a thousand million transactions) are replaced by ones just above the value before.
"""

import asyncio
import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.http.request_log import RequestLog
from cli.service.exposition import ServiceCollector
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import FailImport, StageImport, StartImport
from eventstore.aggregates.organisation import CreateKey
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log import follow, locks
from eventstore.log.ledger import Ledger
from eventstore.proof.sealing import SealRefused
from projections import INLINE
from projections.auxiliary.troubles import report_troubles
from telemetry.prometheus import PrometheusMeasures
from telemetry.supervision import Supervision
from tests.support.alerts import ALERTS, RULES, Case, Series, fired, needs_promtool, scraped, shown
from tests.support.certificates import certificate
from tests.support.databases import Admin
from tests.support.following import follow as follow_log
from tests.support.make import NOON, an_account, encoded
from tests.support.running import RunningService, environment_on, free_port, start_role, wait_for
from tests.support.sealed_log import KEY, Log
from tests.support.serving import answered
from tests.support.staging import SUPPLIER, stage
from tests.support.times import set_log_time
from workers.broker import IMPORTS, BrokerDispatcher, in_process_broker
from workers.followers.ended_imports import EndedImports
from workers.followers.relay import MESSAGES_PER_WORKER, Relay

NOTHING: Series = {}
AWAY = "postgresql://nobody@127.0.0.1:1/none"
_SIMPLE = re.compile(
    r'(?P<how>max|sum)(?: by \(\w+\))? ?\((?P<name>\w+)(?:\{(?P<label>\w+)="(?P<value>[^"]+)"\})?\)'
    r" (?P<sign><|>|==) (?P<limit>[0-9.e]+(?: \* 86400)?)\Z"
)


class Watched:
    """Metrics of a service on a database."""

    def __init__(self, database_url: str, **named: Any) -> None:
        self.registry, self.collector = CollectorRegistry(), ServiceCollector(database_url, **named)
        self.collector.fresh_s = 0.0
        self.registry.register(self.collector)

    def close(self) -> None:
        self.collector.close()

    def holds(self, alert: str, *, limit: float | None = None) -> bool:
        """Return True if an alert's expression, one number against its limit, holds.

        `limit` replaces a limit that takes a test too long.
        """
        match = _SIMPLE.match(RULES[alert]["expr"])
        assert match, RULES[alert]["expr"]
        values = [
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == match["name"] and (not match["label"] or sample.labels[match["label"]] == match["value"])
        ]
        if not values:
            return False
        seen = max(values) if match["how"] == "max" else sum(values)
        days = 86_400 if match["limit"].endswith("* 86400") else 1
        limit = float(match["limit"].split()[0]) * days if limit is None else limit
        return {"<": seen < limit, ">": seen > limit, "==": seen == limit}[match["sign"]]


@pytest.fixture
def watched(database: PostgresUrls) -> Iterator[Watched]:
    with closing(Watched(database.service)) as watched:
        yield watched


@pytest.fixture
def unchanged(shared_database: PostgresUrls) -> Iterator[Watched]:
    """Metrics of a database whose log stays empty."""
    with closing(Watched(shared_database.service)) as watched:
        yield watched


@pytest.fixture
def owner(shared_database: PostgresUrls) -> Iterator[Admin]:
    with psycopg.connect(shared_database.admin, autocommit=True) as connection:
        yield connection


def seen(database: PostgresUrls) -> Series:
    """Return the metrics of a service on this database, sizes included."""
    with closing(Watched(database.service, durability="replicated")) as watched:
        return shown(watched.registry)


def value(series: Series, name: str) -> float:
    return series[f"importledger_{name}{{}}"]


def test_a_database_that_is_away() -> None:
    away = Watched(AWAY)
    assert away.holds("ImportledgerDatabaseAway")
    assert away.registry.get_sample_value("importledger_log_events") is None


def test_nobody_works_and_then_somebody_does(unchanged: Watched, shared_database: PostgresUrls) -> None:
    alerts = ("ImportledgerNoRelay", "ImportledgerNoProjector", "ImportledgerNoWorker")
    assert all(unchanged.holds(alert) for alert in alerts)
    with psycopg.connect(shared_database.service, autocommit=True) as working:
        working.execute("SELECT pg_advisory_lock(%s), pg_advisory_lock(%s)", (locks.RELAY, locks.PROJECTOR))
        working.execute("SELECT pg_advisory_lock(%s, 7)", (locks.WORKERS,))
        assert not any(unchanged.holds(alert) for alert in alerts)


def test_followers_that_are_behind(watched: Watched, database: PostgresUrls, ledger: Ledger, admin: Admin) -> None:
    alerts = ("ImportledgerRelayBehind", "ImportledgerProjectorBehind", "ImportledgerSealerBehind")
    follow.set_checkpoint(admin, "relay", 0)
    assert not any(watched.holds(alert) for alert in alerts)
    set_log_time(database, now() - timedelta(hours=1))
    ledger.execute(f"supplier/{SUPPLIER}", CreateSupplier(), at=now(), by="t")
    assert all(watched.holds(alert) for alert in alerts)
    follow.set_checkpoint(admin, "relay", 1)
    follow_log(ledger)
    assert [watched.holds(alert) for alert in alerts] == [False, False, True]


@pytest.mark.promise("doctor-metrics-call-sealed")
def test_a_log_that_cannot_be_signed(log: Log) -> None:
    watched = Watched(log.urls.service)
    alerts = ("ImportledgerSealerBehind", "ImportledgerIntakeStopped")
    log.add(301, 310)
    log.admin.execute("UPDATE events SET recorded_at = recorded_at - interval '1 hour' WHERE position > 600")
    log.outside.keep(620, KEY.sign(620, bytes(32), NOON))
    assert [watched.holds(alert) for alert in alerts] == [True, False]
    with pytest.raises(SealRefused):
        log.seal()
    assert [watched.holds(alert) for alert in alerts] == [True, True]
    assert watched.registry.get_sample_value("importledger_lag_events", {"follower": "sealer"}) == 30
    log.admin.execute("UPDATE intake_stops SET ended_at = now()")
    assert [watched.holds(alert) for alert in alerts] == [True, False]
    watched.close()


WAITING = {
    "ImportledgerImportsWait": "UPDATE import_status SET modified_at = modified_at - interval '11 minutes'",
    "ImportledgerStreamsParked": "INSERT INTO parked_streams (name, version, stream, position, error)"
    " SELECT name, version, 'import/A/1', 1, '' FROM projection_versions WHERE state = 'live' LIMIT 1",
    "ImportledgerMailsWait": "INSERT INTO customer_mail (supplier, external_account_number, status, attempt,"
    " modified_at, position) SELECT 'S', n::text, 'REQUESTED', 0, now(), n FROM generate_series(1, 1001) AS n",
}


def test_rows_that_wait(watched: Watched, ledger: Ledger, admin: Admin) -> None:
    stage(ledger, an_account(SUPPLIER))
    for alert, statement in WAITING.items():
        assert not watched.holds(alert)
        admin.execute(statement.encode())
        assert watched.holds(alert)


def test_work_that_fails(unchanged: Watched, owner: Admin) -> None:
    supervision = Supervision()
    supervision.failed("projection throughput", ValueError("no"))
    for troubles in ([], supervision.troubles(), []):
        report_troubles(owner, "relay@here", troubles)
        assert unchanged.holds("ImportledgerWorkFails") == bool(troubles)


def test_the_log_s_lock_is_held(unchanged: Watched, shared_database: PostgresUrls) -> None:
    waiting = psycopg.connect(shared_database.service, autocommit=True)
    with psycopg.connect(shared_database.service, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", (locks.LOG,))
        thread = threading.Thread(target=waiting.execute, args=("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,)))
        thread.start()
        wait_for(lambda: unchanged.holds("ImportledgerLogLockHeld", limit=0.0), "the wait is seen")
    thread.join(30)
    waiting.close()
    assert not unchanged.holds("ImportledgerLogLockHeld", limit=0.0)


def test_a_certificate_that_ends(folder: Path) -> None:
    assert RULES["ImportledgerCertificateEnds"]["expr"].endswith("- time() < 14 * 86400")
    file = certificate(folder / "a.pem", datetime.now(UTC) + timedelta(days=13))
    registry = Watched(AWAY, certificates=[file]).registry
    ends = registry.get_sample_value("importledger_certificate_ends_timestamp_seconds", {"file": str(file)})
    assert ends is not None
    assert 0 < ends - datetime.now(UTC).timestamp() < 14 * 86_400


def test_requests_that_cannot_be_answered(counted: PrometheusMeasures) -> None:
    answered(RequestLog(create_app(AWAY, b"k" * 32)), "/readyz")
    of = {"method": "GET", "route": "/readyz/", "status": "503"}
    assert counted.registry.get_sample_value("importledger_requests_total", of) == 1


@needs_promtool
def test_a_process_that_is_gone(shared_database: PostgresUrls, redis_url: str, folder: Path) -> None:
    [job] = yaml.safe_load((ALERTS.parent / "prometheus.yml").read_text())["scrape_configs"]
    port = free_port()
    environment = environment_on(shared_database, folder, REDIS_URL=redis_url, IMPORTLEDGER_METRICS_PORT=str(port))

    def scrape() -> Series:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).close()
            up = 1.0
        except OSError:
            up = 0.0
        return {f'up{{job="{job["job_name"]}",instance="127.0.0.1:{port}"}}': up}

    with start_role("worker", environment=environment, log=folder / "worker.log"):
        wait_for(lambda: 1.0 in scrape().values(), "the worker answers")
        there = scrape()
    cases = [Case("ImportledgerDown", NOTHING, series) for series in (there, scrape())]
    assert fired(folder, *cases) == [False, True]


@needs_promtool
def test_creates_that_are_slow_and_creates_that_fail(service: RunningService, folder: Path) -> None:
    importer = service.importer()
    file = Path(service.environment["IMPORTLEDGER_DATA_DIR"]) / "secrets" / "connections.json"
    connections = json.loads(file.read_text())

    def scrape() -> Series:
        request = urllib.request.Request(f"{service.base_url}/metrics", headers=service.operator())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return scraped(answer.read().decode())

    before = scrape()
    assert importer.client.create(encoded(an_account(importer.supplier, 1))).status == 201
    quick = scrape()
    with psycopg.connect(connections["database_url"]) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,))
        body = encoded(an_account(importer.supplier, 2))
        status, _ = importer.request("POST", "/v2/data-import/accounts/", body)
    assert status.status == 503
    slow = scrape()
    cases = (
        Case("ImportledgerServerErrors", before, quick),
        Case("ImportledgerServerErrors", quick, slow),
        Case("ImportledgerCreatesSlow", quick, slow),
    )
    assert fired(folder, *cases) == [False, True, True]


@needs_promtool
def test_workers_that_take_no_messages(ledger: Ledger, counted: PrometheusMeasures, folder: Path) -> None:
    stage(ledger, an_account(SUPPLIER, 1))
    broker, stop = in_process_broker(), threading.Event()
    dispatcher = BrokerDispatcher(broker)
    for _ in range(MESSAGES_PER_WORKER - 1):
        dispatcher.enqueue(["import/X/1"], IMPORTS)
    counted.waiting(IMPORTS.name, dispatcher.waiting())

    def waiting() -> float:
        series = shown(counted.registry).items()
        return max(number for name, number in series if name.startswith("importledger_waiting_messages"))

    before = shown(counted.registry)
    relay = threading.Thread(target=Relay(ledger, dispatcher).run, args=(stop,))
    relay.start()
    try:
        wait_for(lambda: waiting() >= 1.0, "it is full")
        assert dispatcher.waiting() == MESSAGES_PER_WORKER
    finally:
        stop.set()
        relay.join(30)
    cases = [Case("ImportledgerMessagesWait", NOTHING, series) for series in (before, shown(counted.registry))]
    assert fired(folder, *cases) == [False, True]


@needs_promtool
def test_appends_that_wait_for_the_writer(
    ledger: Ledger, database: PostgresUrls, counted: PrometheusMeasures, folder: Path
) -> None:
    command = StageImport(payload_sha256="a" * 64, content_sha256="a" * 64, payload_bytes=1)

    async def wait_together() -> tuple[Series, Series]:
        with psycopg.connect(database.service) as holder:
            holder.execute("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,))
            futures = [ledger.begin("import/S/0", command, at=now(), by="t")]
            await asyncio.sleep(0)  # this one is handed over, the others wait for it
            futures += [ledger.begin(f"import/S/{n}", command, at=now(), by="t") for n in range(1, 502)]
            waiting = looked()
        await asyncio.gather(*futures)
        return waiting, looked()

    def looked() -> Series:
        ledger.report_metrics()
        return shown(counted.registry)

    cases = [Case("ImportledgerAppendsQueue", NOTHING, series) for series in asyncio.run(wait_together())]
    assert fired(folder, *cases) == [True, False]


@needs_promtool
def test_a_pool_without_a_connection(shared_database: PostgresUrls, counted: PrometheusMeasures, folder: Path) -> None:
    with closing(Ledger(shared_database.service, views=INLINE, connections=1)) as ledger:
        ledger.report_metrics()
        before = shown(counted.registry)
        with ledger.connection(), pytest.raises(StoreUnavailable), ledger.connection():
            pass
        ledger.report_metrics()
    alert = "ImportledgerPoolExhausted"
    cases = Case(alert, NOTHING, before), Case(alert, before, shown(counted.registry))
    assert fired(folder, *cases) == [False, True]


@needs_promtool
def test_imports_that_fail(ledger: Ledger, counted: PrometheusMeasures, folder: Path) -> None:
    with ledger.connection() as connection:
        follow.set_checkpoint(connection, "ended imports", 0)
        stream = stage(ledger, an_account(SUPPLIER))
        command = StartImport(worker=1, lease_until=now() + timedelta(minutes=1), max_attempts=5)
        ledger.execute(stream, command, at=now(), by="t")
        before = shown(counted.registry)
        ledger.execute(stream, FailImport(start=2, code="account_failed_validation", detail="no"), at=now(), by="t")
        EndedImports(ledger).write_lines(connection)
    cases = [Case("ImportledgerImportsFail", NOTHING, series) for series in (before, shown(counted.registry))]
    assert fired(folder, *cases) == [False, True]


@needs_promtool
def test_a_standby_that_is_not_there_and_connections_that_run_out(shared_database: PostgresUrls, folder: Path) -> None:
    before = seen(shared_database)
    is_there = {**before, "importledger_synchronous_standbys{}": 1.0}
    with ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(psycopg.connect(shared_database.service))
        after = seen(shared_database)
    limit = ("0.9", (value(before, "database_connections") + 10) / value(before, "database_max_connections"))
    cases = (
        Case("ImportledgerNoSynchronousStandby", NOTHING, before),
        Case("ImportledgerNoSynchronousStandby", NOTHING, is_there),
        Case("ImportledgerConnectionsNearLimit", NOTHING, before, limit),
        Case("ImportledgerConnectionsNearLimit", NOTHING, after, limit),
    )
    assert fired(folder, *cases) == [True, False, False, True]


@needs_promtool
def test_write_ahead_log_dead_rows_size_and_old_transactions(
    shared_database: PostgresUrls, owner: Admin, folder: Path
) -> None:
    owner.execute("CREATE TABLE public.never_vacuumed (n integer) WITH (autovacuum_enabled = off)")
    owner.execute("INSERT INTO never_vacuumed SELECT generate_series(1, 20000)")
    before = seen(shared_database)
    owner.execute("SELECT pg_create_physical_replication_slot('left_behind', true)")
    try:
        owner.execute("SELECT pg_logical_emit_message(true, 'test', repeat('x', 6000000))")
        owner.execute("CREATE TABLE growing AS SELECT repeat('x', 1000) AS text FROM generate_series(1, 3000)")
        owner.execute("UPDATE never_vacuumed SET n = n + 1")
        owner.execute("SELECT pg_stat_force_next_flush()")
        for _ in range(60):
            owner.execute("SELECT pg_current_xact_id()")
        after = seen(shared_database)
    finally:
        owner.execute("SELECT pg_drop_replication_slot('left_behind')")
    limits = {
        "ImportledgerWalKept": ("10e9", 5e6),
        "ImportledgerWalGrowth": ("100e6", 5e6 / 60),
        "ImportledgerDatabaseGrowth": ("10e9", 1e6),
        "ImportledgerDeadRows": ("10e6", 19_999.0),
        "ImportledgerWraparoundNear": ("1.5e9", value(before, "transaction_age") + 50),
    }
    for later, fires in ((before, False), (after, True)):
        cases = [
            Case(alert, before, later, limit, gauges_grow=alert == "ImportledgerDatabaseGrowth")
            for alert, limit in limits.items()
        ]
        assert fired(folder, *cases) == [fires] * len(cases)


@needs_promtool
def test_a_key_that_is_a_year_old(database: PostgresUrls, admin: Admin, folder: Path) -> None:
    young = CreateKey(key_id="young", secret_sha256="d", role="auditor", suppliers=(SUPPLIER,))
    with closing(Ledger(database.admin, views=INLINE)) as ledger:
        set_log_time(database, now() - timedelta(days=364))
        ledger.execute("organisation/O", young, at=now(), by="t")
    before = seen(database)
    admin.execute("UPDATE access_key SET created_at = created_at - interval '2 days'")
    cases = [Case("ImportledgerAccessKeyOld", NOTHING, series) for series in (before, seen(database))]
    assert fired(folder, *cases) == [False, True]


@needs_promtool
def test_a_process_that_grows(counted: PrometheusMeasures, folder: Path) -> None:
    counted.queued(0)
    before = shown(counted.registry)
    limit = ("2e9", before['importledger_process_memory_bytes{role="api-1"}'] + 50e6)
    held = bytearray(b"x") * 100_000_000
    counted.queued(0)
    cases = [Case("ImportledgerMemoryGrows", NOTHING, series, limit) for series in (before, shown(counted.registry))]
    assert fired(folder, *cases) == [False, True]
    assert held


@pytest.mark.promise("every-alert-runbook-section")
def test_every_alert_is_provoked() -> None:
    text = Path(__file__).read_text()
    assert [alert for alert in RULES if f'"{alert}"' not in text] == []
