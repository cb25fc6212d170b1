"""The sweeper: lost messages, dead workers and expired leases."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import ImportErrored, ImportPostponed, StartImport
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from telemetry.supervision import supervision
from tests.support.databases import Admin
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage, status
from workers.actors import starting
from workers.actors.process_imports import ImportProcessor
from workers.broker import IMPORTS, MAILS, BrokerDispatcher, in_process_broker
from workers.followers.fair_queue import FairQueue, Waiting
from workers.followers.sweeper import Sweeper
from workers.liveness import Liveness


def sweeper_and_lanes(ledger: Ledger) -> tuple[Sweeper, FairQueue]:
    lanes = {IMPORTS: FairQueue(), MAILS: FairQueue()}
    return Sweeper(ledger, BrokerDispatcher(in_process_broker()), lanes), lanes[IMPORTS]


def test_the_sweeper_adds_lost_streams_to_the_turns(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    lost = stage(ledger, an_account(SUPPLIER, 1))
    due = stage(ledger, an_account(SUPPLIER, 2), not_before=now() - timedelta(seconds=1))
    stage(ledger, an_account(SUPPLIER, 3), not_before=now() + timedelta(hours=1))
    sweeper, lanes = sweeper_and_lanes(ledger)
    sweeper.sweep(connection, relayed=3)
    assert lanes.take(10) == [[lost, due]]
    sweeper.sweep(connection, relayed=3)
    assert lanes.take(10) == [], "not again at once"


def test_large_imports_that_were_lost_get_messages_of_their_own(ledger: Ledger, database: PostgresUrls) -> None:
    """In one message with others, they would delay accounts of other suppliers."""
    accounts = [an_account(SUPPLIER, number) | {"metadata": {"n": "x" * 5_000_000}} for number in (1, 2)]
    first, second = (stage(ledger, account) for account in accounts)
    sweeper, lanes = sweeper_and_lanes(ledger)
    with psycopg.connect(database.roles["relay"], autocommit=True, row_factory=dict_row) as connection:
        sweeper.sweep(connection, relayed=2)
    assert supervision.troubles() == []
    assert lanes.take(10) == [[first], [second]]


def test_the_sweeper_postpones_the_import_of_a_dead_worker(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    """Worker 7 holds no lock, so it counts as dead. The import of the living worker stays in progress."""
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    dead, alive = (stage(ledger, an_account(SUPPLIER, number)) for number in (1, 2))
    lease = now() + timedelta(minutes=1)
    for stream, worker in ((dead, 7), (alive, liveness.worker())):
        command = StartImport(worker=worker, lease_until=lease, max_attempts=5)
        ledger.execute(stream, command, at=now(), by="tester")
    sweeper, lanes = sweeper_and_lanes(ledger)
    lanes.add(SUPPLIER, "import/NORDWIND/another", Waiting(1))
    lanes.add(SUPPLIER, dead, Waiting(1))
    lanes.take(2)  # a message was sent just now
    sweeper.sweep(connection, relayed=4)
    assert [status(ledger, stream) for stream in (dead, alive)] == ["PENDING", "IN_PROGRESS"]
    postponed = ledger.history(dead)[-1].event
    assert isinstance(postponed, ImportPostponed)
    assert postponed.code == "worker_lost"
    assert lanes.take(10) == [[dead]]
    processor.process([dead])
    assert status(ledger, dead) == "PROCESSED"
    liveness.stop()


def test_a_step_of_the_sweeper_that_fails_does_not_stop_the_others(
    ledger: Ledger, connection: psycopg.Connection[Any], admin: Admin
) -> None:
    """Imports get messages also if the table of e-mails cannot be read."""
    lost = stage(ledger, an_account(SUPPLIER, 1))
    admin.execute("REVOKE SELECT ON customer_mail FROM importledger_api, importledger_worker, importledger_relay")
    sweeper, lanes = sweeper_and_lanes(ledger)
    sweeper.sweep(connection, relayed=1)
    assert lanes.take(10) == [[lost]]
    assert [trouble.name for trouble in supervision.troubles()] == [
        "sweeper of abandoned e-mails",
        "sweeper of waiting e-mails",
    ]


def test_an_import_whose_stream_cannot_be_read_gets_no_messages(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any], admin: Admin
) -> None:
    """Its worker is gone, and no command can be executed on its stream."""
    broken, other = (stage(ledger, an_account(SUPPLIER, number)) for number in (1, 2))
    for stream in (broken, other):
        command = StartImport(worker=7, lease_until=now() + timedelta(minutes=1), max_attempts=5)
        ledger.execute(stream, command, at=now(), by="tester")
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    admin.execute("UPDATE events SET state = '\\xff' WHERE stream = %s", (broken,))
    sweeper, lanes = sweeper_and_lanes(ledger)
    for _ in range(2):
        sweeper.sweep(connection, relayed=4)
    assert lanes.take(100) == [[other]]


def test_a_hanging_worker_loses_its_import_when_the_lease_ends(
    ledger: Ledger, connection: psycopg.Connection[Any]
) -> None:
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    stream = stage(ledger, an_account(SUPPLIER))
    command = StartImport(worker=liveness.worker(), lease_until=now() - timedelta(seconds=1), max_attempts=5)
    ledger.execute(stream, command, at=now(), by="tester")
    sweeper_and_lanes(ledger)[0].sweep(connection, relayed=2)
    postponed = ledger.history(stream)[-1].event
    assert isinstance(postponed, ImportPostponed)
    assert postponed.code == "lease_expired"
    liveness.stop()


def test_a_forged_lease_ends(ledger: Ledger, connection: psycopg.Connection[Any], admin: Admin) -> None:
    """A role that can append may write any lease, also for a worker that lives."""
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    stream = stage(ledger, an_account(SUPPLIER))
    command = StartImport(worker=liveness.worker(), lease_until=datetime(9990, 1, 1, tzinfo=UTC), max_attempts=5)
    ledger.execute(stream, command, at=now(), by="tester")
    for minutes, after in ((9, "IN_PROGRESS"), (11, "PENDING")):
        admin.execute("UPDATE import_status SET modified_at = %s", (now() - timedelta(minutes=minutes),))
        sweeper_and_lanes(ledger)[0].sweep(connection, relayed=2)
        assert supervision.troubles() == []
        assert status(ledger, stream) == after
    liveness.stop()


def test_an_import_that_always_loses_its_worker_ends(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    stream = stage(ledger, an_account(SUPPLIER))
    sweeper = sweeper_and_lanes(ledger)[0]
    for _ in range(starting.MAX_ATTEMPTS + 1):
        command = StartImport(worker=7, lease_until=now() + timedelta(minutes=1), max_attempts=starting.MAX_ATTEMPTS)
        ledger.execute(stream, command, at=now(), by="tester")
        sweeper.sweep(connection, relayed=100)
    error = ledger.history(stream)[-1].event
    assert isinstance(error, ImportErrored)
    assert error.code == "attempts_exhausted"
