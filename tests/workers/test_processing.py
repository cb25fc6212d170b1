"""Imports are brought to their end: in batches, each exactly once, and a bad one hurts only itself."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import (
    CancelImport,
    ImportErrored,
    ImportPostponed,
    ImportProcessed,
    ImportStarted,
    StartImport,
)
from eventstore.clock import now
from eventstore.log import follow
from eventstore.log.ledger import Ledger
from tests.support.make import an_account, changed
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage, status
from workers import process_imports
from workers.backoff import MAX_BACKOFF_S, backoff
from workers.broker import BrokerDoorbell, in_process_broker
from workers.liveness import Liveness
from workers.process_imports import ImportProcessor
from workers.relay import GATHER_S, Relay, _messages
from workers.run import run_worker
from workers.sweeper import Sweeper

REFUSES_POISON = "ALTER TABLE platform.service_account ADD CHECK (notes #>> '{0,body}' <> 'poison')"


@pytest.fixture
def processor(ledger: Ledger) -> ImportProcessor:
    return ImportProcessor(ledger, worker=lambda: 7)


@pytest.fixture
def connection(database: PostgresUrls) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.service, autocommit=True, row_factory=psycopg.rows.dict_row) as opened:
        yield opened


def count(connection: psycopg.Connection[Any], table: str) -> int:
    row = connection.execute(f"SELECT count(*) AS n FROM platform.{table}".encode()).fetchone()
    assert row
    return int(row["n"])


def test_an_import_becomes_platform_records_and_an_account_number(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    stream = stage(ledger, an_account(SUPPLIER))
    processor.process([stream])
    processed = ledger.history(stream)[-1].event
    assert isinstance(processed, ImportProcessed)
    joined = connection.execute(
        "SELECT a.account_number, c.family_name, p.identifier, r.obis_code, g.value, l.ledger_balance"
        " FROM platform.service_account a"
        " JOIN platform.customer c USING (account_number)"
        " JOIN platform.supply_point p USING (account_number)"
        " JOIN platform.melo m ON m.account_number = a.account_number AND m.supply_point_ordinal = p.ordinal"
        " JOIN platform.meter e ON e.account_number = a.account_number AND e.melo_ordinal = m.ordinal"
        " JOIN platform.register r ON r.account_number = a.account_number AND r.meter_ordinal = e.ordinal"
        " JOIN platform.reading g ON g.account_number = a.account_number AND g.register_ordinal = r.ordinal"
        " JOIN platform.ledger l ON l.account_number = a.account_number"
    ).fetchall()
    assert len(joined) == 6
    account = an_account(SUPPLIER)
    assert {row["account_number"] for row in joined} == {processed.account_number}
    assert {row["family_name"] for row in joined} == {account["customers"][0]["family_name"]}
    points = account["supply_addresses"][0]["supply_points"]
    assert {row["identifier"] for row in joined} == {point["identifier"] for point in points}
    assert {str(row["ledger_balance"]) for row in joined} == {account["ledgers"][0]["ledger_balance"]}


def test_a_message_that_comes_twice_makes_one_account(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 21)]
    threads = [threading.Thread(target=processor.process, args=(streams,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    processor.process(streams)
    assert {status(ledger, stream) for stream in streams} == {"PROCESSED"}
    assert count(connection, "service_account") == 20
    numbers = connection.execute("SELECT DISTINCT account_number FROM platform.customer").fetchall()
    assert len(numbers) == 20


def test_a_payload_that_cannot_become_an_account_errs_and_names_why(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    good = stage(ledger, an_account(SUPPLIER, 1))
    spoilt = stage(ledger, changed(an_account(SUPPLIER, 2), "nobody@", "customers", 0, "email"))
    broken = stage(ledger, b"{")
    processor.process([good, spoilt, broken])
    assert status(ledger, good) == "PROCESSED"
    errors = [ledger.history(stream)[-1].event for stream in (spoilt, broken)]
    assert [e.code for e in errors if isinstance(e, ImportErrored)] == ["account_failed_validation"] * 2
    assert [e.problems for e in errors if isinstance(e, ImportErrored)] == [
        ("invalid@customers.0.email",),
        ("parse_error@non_field_errors",),
    ]
    assert "nobody" not in str(errors)
    assert count(connection, "service_account") == 1


def test_an_account_that_the_platforms_tables_refuse_hurts_only_itself(
    ledger: Ledger, processor: ImportProcessor, database: PostgresUrls, connection: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute(REFUSES_POISON)
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 11)]
    poison = stage(ledger, changed(an_account(SUPPLIER, 11), "poison", "notes", 0, "body"))
    processor.process([*streams[:5], poison, *streams[5:]])
    assert {status(ledger, stream) for stream in streams} == {"PROCESSED"}
    error = ledger.history(poison)[-1].event
    assert isinstance(error, ImportErrored)
    assert error.code == "account_not_accepted_by_platform"
    assert count(connection, "service_account") == 10


def test_a_failure_that_nobody_expected_is_tried_again(
    ledger: Ledger, processor: ImportProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stage(ledger, an_account(SUPPLIER))

    def fail(*_: Any) -> Any:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(process_imports, "account_of", fail)
        processor.process([stream])
    postponed = ledger.history(stream)[-1].event
    assert isinstance(postponed, ImportPostponed)
    assert postponed.code == "processing_failed"
    assert postponed.due_at > now()


def test_a_dry_run_does_everything_and_leaves_nothing(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    good = stage(ledger, an_account(SUPPLIER, 1), is_dry_run=True)
    bad = stage(
        ledger,
        changed(an_account(SUPPLIER, 2), "DE00", "payment_instructions", 0, "bank_account", "iban"),
        is_dry_run=True,
    )
    processor.process([good, bad])
    assert status(ledger, good) == "DRY_RUN_SUCCEEDED"
    assert status(ledger, bad) == "DRY_RUN_ERRORED"
    assert count(connection, "service_account") == 0


def test_a_dry_run_finds_what_the_platforms_tables_refuse(
    ledger: Ledger, processor: ImportProcessor, database: PostgresUrls
) -> None:
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute(REFUSES_POISON)
    stream = stage(ledger, changed(an_account(SUPPLIER), "poison", "notes", 0, "body"), is_dry_run=True)
    processor.process([stream])
    assert status(ledger, stream) == "DRY_RUN_ERRORED"


def test_what_is_not_due_or_cancelled_is_left_alone(ledger: Ledger, processor: ImportProcessor) -> None:
    later = stage(ledger, an_account(SUPPLIER, 1), not_before=now() + timedelta(hours=1))
    cancelled = stage(ledger, an_account(SUPPLIER, 2))
    ledger.execute(cancelled, CancelImport(), at=now(), by="tester")
    processor.process([later, cancelled])
    assert [status(ledger, stream) for stream in (later, cancelled)] == ["PENDING", "CANCELLED"]


def test_an_erased_payload_is_an_error_that_says_what_to_do(
    ledger: Ledger, processor: ImportProcessor, database: PostgresUrls
) -> None:
    stream = stage(ledger, an_account(SUPPLIER))
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute("DELETE FROM payloads")
    processor.process([stream])
    error = ledger.history(stream)[-1].event
    assert isinstance(error, ImportErrored)
    assert error.code == "payload_erased"


def test_the_relay_rings_for_what_is_new_and_remembers_how_far_it_came(
    ledger: Ledger, connection: psycopg.Connection[Any]
) -> None:
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 61)]
    later = stage(ledger, an_account(SUPPLIER, 61), not_before=now() + timedelta(hours=1))
    broker = in_process_broker()
    relay = Relay(ledger, BrokerDoorbell(broker))
    assert relay._ring_after(connection, 0) == 61
    assert follow.checkpoint(connection, "relay") == 61
    assert relay._ring_after(connection, 61) == 61
    rung = [name for message in queued(broker) for name in message]
    assert rung == streams
    assert later not in rung


class EndsAtFirstPause(threading.Event):
    """Ends what waits for it at its first pause, and keeps how long that would have been."""

    pause_s: float | None = None

    def wait(self, timeout: float | None = None) -> bool:
        self.pause_s = timeout
        self.set()
        return True


def test_the_relay_rings_at_once_and_gathers_afterwards(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    """One message for each import would cost the relay and the workers more than the imports do."""
    first = stage(ledger, an_account(SUPPLIER, 1))
    broker, stop = in_process_broker(), EndsAtFirstPause()
    Relay(ledger, BrokerDoorbell(broker))._relay(connection, stop)
    assert [name for message in queued(broker) for name in message] == [first]
    assert stop.pause_s == GATHER_S


def test_a_message_carries_up_to_two_hundred_streams() -> None:
    assert [len(message) for message in _messages([str(number) for number in range(401)])] == [200, 200, 1]


def test_the_sweeper_rings_again_for_what_was_lost(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    lost = stage(ledger, an_account(SUPPLIER, 1))
    due = stage(ledger, an_account(SUPPLIER, 2), not_before=now() - timedelta(seconds=1))
    stage(ledger, an_account(SUPPLIER, 3), not_before=now() + timedelta(hours=1))
    connection.execute("UPDATE import_status SET modified_at = modified_at - interval '1 minute'")
    broker = in_process_broker()
    sweeper = Sweeper(ledger, BrokerDoorbell(broker))
    sweeper.sweep(connection, relayed=3)
    assert sorted(name for message in queued(broker) for name in message) == sorted([lost, due])
    sweeper.sweep(connection, relayed=3)
    assert queued(broker) == [], "not again at once"


def test_the_sweeper_gives_a_dead_workers_import_back(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    """Worker 7 of the fixture holds no lock: it counts as dead. The living one's import stays with it."""
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    dead, alive = (stage(ledger, an_account(SUPPLIER, number)) for number in (1, 2))
    lease = now() + timedelta(minutes=1)
    for stream, worker in ((dead, 7), (alive, liveness.worker())):
        command = StartImport(worker=worker, lease_until=lease, max_attempts=5)
        ledger.execute(stream, command, at=now(), by="tester")
    broker = in_process_broker()
    Sweeper(ledger, BrokerDoorbell(broker)).sweep(connection, relayed=4)
    assert [status(ledger, stream) for stream in (dead, alive)] == ["PENDING", "IN_PROGRESS"]
    postponed = ledger.history(dead)[-1].event
    assert isinstance(postponed, ImportPostponed)
    assert postponed.code == "worker_lost"
    processor.process([dead])
    assert status(ledger, dead) == "PROCESSED"
    liveness.stop()


def test_a_hanging_worker_loses_its_import_when_the_lease_ends(
    ledger: Ledger, connection: psycopg.Connection[Any]
) -> None:
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    stream = stage(ledger, an_account(SUPPLIER))
    command = StartImport(worker=liveness.worker(), lease_until=now() - timedelta(seconds=1), max_attempts=5)
    ledger.execute(stream, command, at=now(), by="tester")
    Sweeper(ledger, BrokerDoorbell(in_process_broker())).sweep(connection, relayed=2)
    postponed = ledger.history(stream)[-1].event
    assert isinstance(postponed, ImportPostponed)
    assert postponed.code == "lease_expired"
    liveness.stop()


def test_an_import_that_always_loses_its_worker_ends(ledger: Ledger, connection: psycopg.Connection[Any]) -> None:
    stream = stage(ledger, an_account(SUPPLIER))
    sweeper = Sweeper(ledger, BrokerDoorbell(in_process_broker()))
    for _ in range(process_imports.MAX_ATTEMPTS + 1):
        command = StartImport(
            worker=7, lease_until=now() + timedelta(minutes=1), max_attempts=process_imports.MAX_ATTEMPTS
        )
        ledger.execute(stream, command, at=now(), by="tester")
        sweeper.sweep(connection, relayed=100)
    error = ledger.history(stream)[-1].event
    assert isinstance(error, ImportErrored)
    assert error.code == "attempts_exhausted"


def test_without_redis_one_worker_process_does_it_all(ledger: Ledger, database: PostgresUrls) -> None:
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, args=(ledger, None), kwargs={"threads": 2, "stop": stop})
    worker.start()
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 11)]
    wait_for(lambda: {status(ledger, stream) for stream in streams} == {"PROCESSED"}, "all are processed")
    stop.set()
    worker.join(30)
    assert not worker.is_alive()


@pytest.mark.parametrize("attempt", range(1, 30))
def test_backing_off_is_bounded(attempt: int) -> None:
    waited = backoff(attempt).total_seconds()
    assert 0 < waited <= MAX_BACKOFF_S


def queued(broker: Any) -> list[list[str]]:
    """Take all messages out of the queue."""
    import dramatiq

    messages = []
    while broker.queues["imports"].qsize():
        messages.append(list(dramatiq.Message.decode(broker.queues["imports"].get()).args[0]))
    return messages


def test_a_worker_that_lost_its_connection_comes_back_as_another(ledger: Ledger, database: PostgresUrls) -> None:
    """What it had in hand is seen to be abandoned at once, and not only when the lease ends."""
    liveness = Liveness(ledger)
    liveness.start(threading.Event())
    before = liveness.worker()
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = %s",
            (before,),
        )
        wait_for(lambda: liveness.worker() != before, "it has another id")
        held = connection.execute(
            "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = ANY(%s)",
            ([before, liveness.worker()],),
        ).fetchall()
    assert held == [(liveness.worker(),)]
    liveness.stop()


def test_a_database_that_is_away_for_a_moment_holds_nothing_up(
    ledger: Ledger, processor: ImportProcessor, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imports that were taken up and then left waited for the end of their lease, a minute and more."""
    monkeypatch.setattr(process_imports, "TRY_AGAIN_AFTER_S", (0.01, 0.01, 0.01))
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute("CREATE SEQUENCE tries; GRANT USAGE ON SEQUENCE tries TO PUBLIC")
        admin.execute(
            "CREATE FUNCTION fail_twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF nextval('tries') <= 2 THEN RAISE EXCEPTION USING ERRCODE = 'cannot_connect_now'; END IF;"
            " RETURN NEW; END $$"
        )
        admin.execute(
            "CREATE TRIGGER fails BEFORE INSERT ON platform.melo FOR EACH STATEMENT EXECUTE FUNCTION fail_twice()"
        )
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 4)]
    processor.process(streams)
    assert {status(ledger, stream) for stream in streams} == {"PROCESSED"}
    assert [type(recorded.event) for recorded in ledger.history(streams[0])][1:] == [ImportStarted, ImportProcessed]
