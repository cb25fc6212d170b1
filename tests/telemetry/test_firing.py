"""Alerts with several numbers in their expression fire on the metrics of a service in the state that they describe.

Limits that no test can reach (10 GB, a thousand million transactions) are replaced by ones just above the value before.
"""

import asyncio
import json
import threading
import urllib.request
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from prometheus_client import CollectorRegistry

from cli.service.exposition import ServiceCollector
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import FailImport, StageImport, StartImport
from eventstore.aggregates.organisation import CreateKey
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log import follow, locks
from eventstore.log.ledger import Ledger
from projections import INLINE
from telemetry.measures import measure_with, measures
from telemetry.prometheus import PrometheusMeasures
from tests.support.alerts import ALERTS, RULES, Series, fires, needs_promtool, scraped, shown
from tests.support.make import an_account, encoded
from tests.support.running import RunningService, environment_on, free_port, start_role, wait_for
from tests.support.staging import SUPPLIER, stage
from tests.support.times import set_log_time
from workers.broker import IMPORTS, BrokerDispatcher, in_process_broker
from workers.followers.ended_imports import EndedImports
from workers.followers.relay import MESSAGES_PER_WORKER, Relay

pytestmark = needs_promtool
NOTHING: Series = {}


def seen(database: PostgresUrls) -> Series:
    """Return the metrics of a service on this database, sizes included."""
    registry, collector = CollectorRegistry(), ServiceCollector(database.service, durability="replicated")
    registry.register(collector)
    try:
        return shown(registry)
    finally:
        collector.close()


def value(series: Series, name: str) -> float:
    return series[f"importledger_{name}{{}}"]


def test_a_process_that_is_gone(database: PostgresUrls, redis_url: str, folder: Path) -> None:
    [job] = yaml.safe_load((ALERTS.parent / "prometheus.yml").read_text())["scrape_configs"]
    port = free_port()
    environment = environment_on(database, folder, REDIS_URL=redis_url, IMPORTLEDGER_METRICS_PORT=str(port))

    def scrape() -> Series:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).close()
            up = 1.0
        except OSError:
            up = 0.0
        return {f'up{{job="{job["job_name"]}",instance="127.0.0.1:{port}"}}': up}

    with start_role("worker", environment=environment, log=folder / "worker.log"):
        wait_for(lambda: 1.0 in scrape().values(), "the worker answers")
        assert not fires("ImportledgerDown", folder, NOTHING, scrape())
    assert fires("ImportledgerDown", folder, NOTHING, scrape())


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
    assert not fires("ImportledgerServerErrors", folder, before, quick)
    with psycopg.connect(connections["database_url"]) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,))
        body = encoded(an_account(importer.supplier, 2))
        status, _ = importer.request("POST", "/v2/data-import/accounts/", body)
    assert status.status == 503
    slow = scrape()
    assert fires("ImportledgerCreatesSlow", folder, quick, slow)
    assert fires("ImportledgerServerErrors", folder, quick, slow)


def test_workers_that_take_no_messages(ledger: Ledger, counted: PrometheusMeasures, folder: Path) -> None:
    stage(ledger, an_account(SUPPLIER, 1))
    broker, stop = in_process_broker(), threading.Event()
    dispatcher = BrokerDispatcher(broker)
    for _ in range(MESSAGES_PER_WORKER - 1):
        dispatcher.enqueue(["import/X/1"], IMPORTS)
    counted.waiting(IMPORTS.name, dispatcher.waiting())
    assert not fires("ImportledgerMessagesWait", folder, NOTHING, shown(counted.registry))
    relay = threading.Thread(target=Relay(ledger, dispatcher).run, args=(stop,))
    relay.start()
    try:
        wait_for(lambda: fires("ImportledgerMessagesWait", folder, NOTHING, shown(counted.registry)), "it is full")
        assert dispatcher.waiting() == MESSAGES_PER_WORKER
    finally:
        stop.set()
        relay.join(30)


def test_appends_that_wait_for_the_writer(ledger: Ledger, database: PostgresUrls, folder: Path) -> None:
    counting = PrometheusMeasures("api-1")
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
        return shown(counting.registry)

    before = measures()
    measure_with(counting)
    try:
        waiting, afterwards = asyncio.run(wait_together())
    finally:
        measure_with(before)
    assert fires("ImportledgerAppendsQueue", folder, NOTHING, waiting)
    assert not fires("ImportledgerAppendsQueue", folder, NOTHING, afterwards)


def test_a_pool_without_a_connection(database: PostgresUrls, counted: PrometheusMeasures, folder: Path) -> None:
    ledger = Ledger(database.service, views=INLINE, connections=1)
    ledger.report_metrics()
    before = shown(counted.registry)
    assert not fires("ImportledgerPoolExhausted", folder, NOTHING, before)
    with ledger.connection(), pytest.raises(StoreUnavailable), ledger.connection():
        pass
    ledger.report_metrics()
    ledger.close()
    assert fires("ImportledgerPoolExhausted", folder, before, shown(counted.registry))


def test_imports_that_fail(ledger: Ledger, counted: PrometheusMeasures, folder: Path) -> None:
    with ledger.connection() as connection:
        follow.set_checkpoint(connection, "ended imports", 0)
        stream = stage(ledger, an_account(SUPPLIER))
        command = StartImport(worker=1, lease_until=now() + timedelta(minutes=1), max_attempts=5)
        ledger.execute(stream, command, at=now(), by="t")
        assert not fires("ImportledgerImportsFail", folder, NOTHING, shown(counted.registry))
        ledger.execute(stream, FailImport(start=2, code="account_failed_validation", detail="no"), at=now(), by="t")
        EndedImports(ledger).write_lines(connection)
    assert fires("ImportledgerImportsFail", folder, NOTHING, shown(counted.registry))


def test_a_standby_that_is_asked_for_and_not_there(database: PostgresUrls, folder: Path) -> None:
    shows = seen(database)
    assert fires("ImportledgerNoSynchronousStandby", folder, NOTHING, shows)
    is_there = {**shows, "importledger_synchronous_standbys{}": 1.0}
    assert not fires("ImportledgerNoSynchronousStandby", folder, NOTHING, is_there)


def test_connections_that_run_out(database: PostgresUrls, folder: Path) -> None:
    before = seen(database)
    share = (value(before, "database_connections") + 10) / value(before, "database_max_connections")
    limit = ("0.9", share)
    assert not fires("ImportledgerConnectionsNearLimit", folder, NOTHING, before, limit=limit)
    with ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(psycopg.connect(database.service))
        assert fires("ImportledgerConnectionsNearLimit", folder, NOTHING, seen(database), limit=limit)


def test_write_ahead_log_that_is_written_and_kept(
    database: PostgresUrls, admin: psycopg.Connection[Any], folder: Path
) -> None:
    before = seen(database)
    admin.execute("SELECT pg_create_physical_replication_slot('left_behind', true)")
    try:
        admin.execute("SELECT pg_logical_emit_message(true, 'test', repeat('x', 6000000))")
        after = seen(database)
    finally:
        admin.execute("SELECT pg_drop_replication_slot('left_behind')")
    wal, growth = ("10e9", 5e6), ("100e6", 5e6 / 60)
    assert not fires("ImportledgerWalKept", folder, NOTHING, before, limit=wal)
    assert fires("ImportledgerWalKept", folder, NOTHING, after, limit=wal)
    assert not fires("ImportledgerWalGrowth", folder, before, before, limit=growth)
    assert fires("ImportledgerWalGrowth", folder, before, after, limit=growth)


def test_a_database_that_grows(database: PostgresUrls, admin: psycopg.Connection[Any], folder: Path) -> None:
    before = seen(database)
    admin.execute("CREATE TABLE growing AS SELECT repeat('x', 1000) AS text FROM generate_series(1, 3000)")
    limit = ("10e9", 1e6)
    assert not fires("ImportledgerDatabaseGrowth", folder, before, before, limit=limit, gauges_grow=True)
    assert fires("ImportledgerDatabaseGrowth", folder, before, seen(database), limit=limit, gauges_grow=True)


def test_rows_that_no_vacuum_clears(database: PostgresUrls, admin: psycopg.Connection[Any], folder: Path) -> None:
    admin.execute("CREATE TABLE public.never_vacuumed (n integer) WITH (autovacuum_enabled = off)")
    admin.execute("INSERT INTO never_vacuumed SELECT generate_series(1, 20000)")
    before, limit = seen(database), ("10e6", 19_999.0)
    assert not fires("ImportledgerDeadRows", folder, NOTHING, before, limit=limit)
    admin.execute("UPDATE never_vacuumed SET n = n + 1")
    admin.execute("SELECT pg_stat_force_next_flush()")
    assert fires("ImportledgerDeadRows", folder, NOTHING, seen(database), limit=limit)


def test_transactions_that_grow_old(database: PostgresUrls, admin: psycopg.Connection[Any], folder: Path) -> None:
    before = seen(database)
    limit = ("1.5e9", value(before, "transaction_age") + 50)
    assert not fires("ImportledgerWraparoundNear", folder, NOTHING, before, limit=limit)
    for _ in range(60):
        admin.execute("SELECT pg_current_xact_id()")
    assert fires("ImportledgerWraparoundNear", folder, NOTHING, seen(database), limit=limit)


def a_key(key_id: str) -> CreateKey:
    return CreateKey(key_id=key_id, secret_sha256="d", role="auditor", suppliers=(SUPPLIER,))


def test_a_key_that_is_a_year_old(database: PostgresUrls, folder: Path) -> None:
    owner = Ledger(database.admin, views=INLINE)
    try:
        set_log_time(database, now() - timedelta(days=364))
        owner.execute("organisation/O", a_key("young"), at=now(), by="t")
        assert not fires("ImportledgerAccessKeyOld", folder, NOTHING, seen(database))
        with psycopg.connect(database.admin) as connection:
            connection.execute("UPDATE access_key SET created_at = created_at - interval '2 days'")
        assert fires("ImportledgerAccessKeyOld", folder, NOTHING, seen(database))
    finally:
        owner.close()


def test_a_process_that_grows(counted: PrometheusMeasures, folder: Path) -> None:
    counted.queued(0)
    before = shown(counted.registry)
    limit = ("2e9", before['importledger_process_memory_bytes{role="api-1"}'] + 50e6)
    assert not fires("ImportledgerMemoryGrows", folder, NOTHING, before, limit=limit)
    held = bytearray(b"x") * 100_000_000
    counted.queued(0)
    assert fires("ImportledgerMemoryGrows", folder, NOTHING, shown(counted.registry), limit=limit)
    assert held


@pytest.mark.promise("every-alert-runbook-section")
def test_every_alert_is_provoked() -> None:
    tests = Path(__file__).parent
    text = "".join((tests / name).read_text() for name in ("test_firing.py", "test_provoked.py"))
    assert [alert for alert in RULES if f'"{alert}"' not in text] == []
