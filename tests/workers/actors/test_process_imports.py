"""Processing of imports: in batches, each exactly once, and a bad import affects no other."""

import contextlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import (
    CancelImport,
    FailImport,
    ImportErrored,
    ImportPostponed,
    ImportProcessed,
    ImportStarted,
    StartImport,
)
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.events import Metadata, origin
from eventstore.log.ledger import Decision, Ledger
from projections import INLINE
from schemas.account import Account
from telemetry.otlp import OpenTelemetry
from telemetry.spans import spans, trace_with
from tests.support.databases import Admin
from tests.support.make import an_account, changed, places, value_at
from tests.support.staging import SUPPLIER, stage, stage_all, status
from workers.actors import process_imports, starting
from workers.actors.completing import Completer, Ready
from workers.actors.process_imports import ImportProcessor, traceparents
from workers.actors.references import SettingsByCode
from workers.actors.starting import LEASE, Started

REFUSES_POISON = "ALTER TABLE platform.service_account ADD CHECK (notes #>> '{0,body}' <> 'poison')"


def count(connection: psycopg.Connection[Any], table: str) -> int:
    row = connection.execute(f"SELECT count(*) AS n FROM platform.{table}".encode()).fetchone()
    assert row
    return int(row["n"])


@pytest.mark.promise("accounts-market-data-become", "accounts-market-data-become-platform")
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


def test_imports_whose_moments_stand_at_the_ends_of_the_calendar_are_processed_and_no_earlier_ones(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    """Intake refuses a moment before year 1 in UTC. An import from an earlier version fails with its field named."""
    ends, accounts = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"], []
    for number, moment in enumerate(ends, 1):
        account = an_account(SUPPLIER, number)
        for path in places(account):
            if isinstance(value := value_at(account, path), str) and re.match(r"\d{4}-\d\d-\d\dT", value):
                account = changed(account, ... if path[-1] == "signed_at" else moment, *path)
        accounts.append(account)
    early = changed(an_account(SUPPLIER, 3), "0001-01-01T00:00:00+01:00", "notes", 0, "created_at")
    *streams, failing = stage_all(ledger, [*accounts, early])
    processor.process([failing, *streams])
    assert {status(ledger, stream) for stream in streams} == {"PROCESSED"}
    rows = connection.execute("SELECT DISTINCT read_at FROM platform.reading ORDER BY 1").fetchall()
    assert [row["read_at"] for row in rows] == [*map(datetime.fromisoformat, ends)]
    failed = ledger.history(failing)[-1].event
    assert isinstance(failed, ImportErrored)
    assert "invalid@notes.0.created_at" in failed.problems


def test_imports_with_large_payloads_are_processed_in_pieces(
    ledger: Ledger, processor: ImportProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Payloads in memory are bounded, and no import is started before its piece is processed."""
    monkeypatch.setattr(process_imports, "MAX_OPEN_BYTES", 25_000)
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 6)]
    processor.process(streams)
    events = [(event.stream, type(event.event)) for event in ledger.history(*streams) if event.version > 1]
    pieces = [streams[:2], streams[2:4], streams[4:]]
    assert events == [
        (stream, kind) for piece in pieces for kind in (ImportStarted, ImportProcessed) for stream in piece
    ]


def test_imports_that_changed_since_they_were_read_are_read_again(
    ledger: Ledger, processor: ImportProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_imports, "MAX_OPEN_BYTES", 1)
    first, cancelled, replaced, last = streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 5)]
    finish = ImportProcessor._finish

    def changing(processor: ImportProcessor, started: Sequence[Started], settings: SettingsByCode) -> None:
        monkeypatch.setattr(ImportProcessor, "_finish", finish)
        ledger.execute(cancelled, CancelImport(), at=now(), by="tester")
        stage(ledger, changed(an_account(SUPPLIER, 3), "ANOTHER", "sales_channel"))
        finish(processor, started, settings)

    monkeypatch.setattr(ImportProcessor, "_finish", changing)
    processor.process(streams)
    assert [status(ledger, stream) for stream in streams] == ["PROCESSED", "CANCELLED", "PROCESSED", "PROCESSED"]
    assert [len(ledger.history(stream)) for stream in (first, replaced, last)] == [3, 4, 3]


def test_imports_that_were_ended_meanwhile_stay_as_they_are(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are completed together in a second transaction."""
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(8)]
    taken, left = streams[:6], streams[6:]
    complete, batches = Completer._complete_batch, list[int]()

    def taken_first(completer: Completer, batch: Sequence[Ready], *, is_dry_run: bool) -> None:
        failed = FailImport(start=2, code="taken_over", detail="Somebody else has it.")
        for stream in [] if batches else taken:
            ledger.execute(stream, failed, at=now(), by="tester")
        batches.append(len(batch))
        complete(completer, batch, is_dry_run=is_dry_run)

    monkeypatch.setattr(Completer, "_complete_batch", taken_first)
    processor.process(streams)
    assert {status(ledger, stream) for stream in taken} == {"ERRORED"}
    assert {status(ledger, stream) for stream in left} == {"PROCESSED"}
    assert count(connection, "service_account") == 2
    assert batches == [8, 2]


def test_a_message_that_comes_twice_makes_one_account(
    ledger: Ledger, processor: ImportProcessor, connection: psycopg.Connection[Any]
) -> None:
    streams = stage_all(ledger, [an_account(SUPPLIER, number) for number in range(1, 21)])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(processor.process, [streams] * 4))
    processor.process(streams)
    assert {status(ledger, stream) for stream in streams} == {"PROCESSED"}
    assert count(connection, "service_account") == 20
    numbers = connection.execute("SELECT DISTINCT account_number FROM platform.customer").fetchall()
    assert len(numbers) == 20


def test_a_payload_that_is_no_valid_account_fails_with_its_problems(
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


def test_an_account_that_the_platforms_tables_refuse_affects_no_other(
    ledger: Ledger, processor: ImportProcessor, admin: Admin, connection: psycopg.Connection[Any]
) -> None:
    admin.execute(REFUSES_POISON)
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 11)]
    poison = stage(ledger, changed(an_account(SUPPLIER, 11), "poison", "notes", 0, "body"))
    dry = stage(ledger, changed(an_account(SUPPLIER, 12), "poison", "notes", 0, "body"), is_dry_run=True)
    processor.process([*streams[:5], poison, dry, *streams[5:]])
    assert {status(ledger, stream) for stream in streams} == {"PROCESSED"}
    assert status(ledger, dry) == "DRY_RUN_ERRORED"
    error = ledger.history(poison)[-1].event
    assert isinstance(error, ImportErrored)
    assert error.code == "account_not_accepted_by_platform"
    assert count(connection, "service_account") == 10
    assert len({ledger.history(stream)[-1].recorded_at for stream in streams}) < 5, "in few transactions"


def test_an_unexpected_failure_postpones_its_own_import(
    ledger: Ledger, processor: ImportProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = stage_all(ledger, [an_account(SUPPLIER, number) for number in range(1, 6)])

    def fail_for(number: int, place: str) -> None:
        works, external = getattr(process_imports, place), an_account(SUPPLIER, number)["external_account_number"]

        def work(account: Account, *arguments: Any, **named: Any) -> Any:
            if account.external_account_number == external:
                raise ArithmeticError("a bug")
            return works(account, *arguments, **named)

        monkeypatch.setattr(process_imports, place, work)

    fail_for(2, "references_of")
    fail_for(4, "undated_rows_of")
    processor.process(streams)
    assert {status(ledger, stream) for stream in streams[::2]} == {"PROCESSED"}
    for bad in streams[1::2]:
        recorded = ledger.history(bad)[-1]
        assert isinstance(recorded.event, ImportPostponed)
        assert (recorded.event.code, recorded.event.due_at > recorded.recorded_at) == ("processing_failed", True)


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


def test_what_is_not_due_or_cancelled_is_left_alone(ledger: Ledger, processor: ImportProcessor) -> None:
    later = stage(ledger, an_account(SUPPLIER, 1), not_before=now() + timedelta(hours=1))
    cancelled = stage(ledger, an_account(SUPPLIER, 2))
    ledger.execute(cancelled, CancelImport(), at=now(), by="tester")
    processor.process([later, cancelled])
    assert [status(ledger, stream) for stream in (later, cancelled)] == ["PENDING", "CANCELLED"]


def test_an_erased_payload_is_an_error_that_says_what_to_do(
    ledger: Ledger, processor: ImportProcessor, admin: Admin
) -> None:
    stream = stage(ledger, an_account(SUPPLIER))
    admin.execute("DELETE FROM payloads")
    processor.process([stream])
    error = ledger.history(stream)[-1].event
    assert isinstance(error, ImportErrored)
    assert error.code == "payload_erased"


@pytest.mark.parametrize("imports", [1, 3])
def test_imports_wait_for_a_database_that_is_unavailable_for_a_moment(
    ledger: Ledger, processor: ImportProcessor, admin: Admin, monkeypatch: pytest.MonkeyPatch, imports: int
) -> None:
    """Without another attempt, started imports would wait for the end of their lease."""
    monkeypatch.setattr(starting, "TRY_AGAIN_AFTER_S", (0.01, 0.01, 0.01))
    admin.execute("CREATE SEQUENCE tries; GRANT USAGE ON SEQUENCE tries TO PUBLIC")
    admin.execute(
        "CREATE FUNCTION fail_twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF nextval('tries') <= 2 THEN RAISE EXCEPTION USING ERRCODE = 'cannot_connect_now'; END IF;"
        " RETURN NEW; END $$"
    )
    admin.execute(
        "CREATE TRIGGER fails BEFORE INSERT ON platform.melo FOR EACH STATEMENT EXECUTE FUNCTION fail_twice()"
    )
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(imports)]
    processor.process(streams)
    assert {status(ledger, stream) for stream in streams} == {"PROCESSED"}
    assert [type(recorded.event) for recorded in ledger.history(streams[0])][1:] == [ImportStarted, ImportProcessed]


class LosesFirstAnswer(Ledger):
    """A log that loses its first answer after the commit."""

    answers = 0

    def execute_many(self, *arguments: Any, **named: Any) -> list[Decision]:
        done = super().execute_many(*arguments, **named)
        self.answers += 1
        if self.answers == 1:
            raise StoreUnavailable("the connection was lost in COMMIT")
        return done


def test_imports_that_were_started_without_an_answer_are_processed_at_once(
    ledger: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other worker would start them before their lease ends."""
    monkeypatch.setattr(starting, "TRY_AGAIN_AFTER_S", (0.01,))
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 4)]
    other = stage(ledger, an_account(SUPPLIER, 4))
    ledger.execute(other, StartImport(worker=7, lease_until=now() + LEASE, max_attempts=5), at=now(), by="worker:7")
    losing = LosesFirstAnswer(database.service, views=INLINE)
    with contextlib.closing(losing):
        ImportProcessor(losing, worker=lambda: 7).process([*streams, other])
    assert {status(ledger, stream) for stream in streams} == {"PROCESSED"}
    assert [type(recorded.event) for recorded in ledger.history(streams[0])][1:] == [ImportStarted, ImportProcessed]
    assert status(ledger, other) == "IN_PROGRESS", "another thread of this worker processes it"


FIRST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECOND = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def traced(ledger: Ledger, traceparent: str, account: object) -> str:
    token = origin.set(Metadata("request", traceparent))
    try:
        return stage(ledger, account)
    finally:
        origin.reset(token)


@pytest.mark.promise("trace-leads-importer-through")
def test_the_last_staging_counts_and_the_worker_s_events_name_its_span(ledger: Ledger) -> None:
    account = an_account(SUPPLIER)
    stream = traced(ledger, FIRST, account)
    traced(ledger, SECOND, changed(account, "Another note.", "notes", 0, "body"))
    untraced = stage(ledger, an_account(SUPPLIER, 2))
    assert traceparents(ledger, [stream]) == []
    before, exporter = spans(), InMemorySpanExporter()
    keeper = OpenTelemetry(exporter, {})
    trace_with(keeper)
    try:
        assert traceparents(ledger, [stream, untraced]) == [SECOND]
        ImportProcessor(ledger, worker=lambda: 1).process([stream])
        ImportProcessor(ledger, worker=lambda: 1).process([untraced])
    finally:
        keeper.close()
        trace_with(before)
    [span] = exporter.get_finished_spans()
    assert span.context is not None
    own = {event.metadata.traceparent for event in ledger.history(stream)[2:]}
    assert {traceparent[:-3] for traceparent in own} == {f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}"}
    assert {event.metadata for event in ledger.history(untraced)} == {Metadata()}
