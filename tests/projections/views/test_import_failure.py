"""Failures are counted by code and path until the import is processed."""

from datetime import date, timedelta
from typing import Any

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import (
    CancelImport,
    CompleteImport,
    EraseSubject,
    FailImport,
    RetryImport,
    stream_of,
)
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger
from projections.versions.reading import read_ordered
from projections.views.import_failure import (
    IMPORT_FAILURE,
    FailureCause,
    FailureCount,
    failure_causes,
    failure_counts,
    failure_examples,
)
from tests.support.databases import Admin
from tests.support.following import follow
from tests.support.make import NOON, stage, start
from tests.support.rows import run_query
from tests.support.times import set_log_time

IBAN, NAME = "invalid_iban@payment_instructions.0.iban", "blank@customers.1.family_name"


def run(ledger: Ledger, external: str, *commands: Any) -> None:
    for command in commands:
        ledger.execute(stream_of("S", external), command, at=NOON, by="t")


def failed(*problems: str, start: int = 2) -> FailImport:
    return FailImport(start=start, code="import_process_failed_validation", detail="No.", problems=problems)


def counts(database: PostgresUrls, suppliers: list[str], days: int = 2) -> list[FailureCount]:
    found: list[FailureCount] = run_query(database.service, failure_counts, suppliers, date(2026, 11, 2), days=days)
    return found


def told(count: FailureCount) -> tuple[Any, ...]:
    return count.code, count.path, count.open, count.fixed, count.days


def test_what_fails_is_open_until_it_is_mended(ledger: Ledger, owner: Ledger, database: PostgresUrls) -> None:
    set_log_time(database, NOON)
    for external in ("1", "2", "3", "4"):
        run(ledger, external, stage(), start(), failed(IBAN, NAME))
    follow(ledger)
    assert [told(one) for one in counts(database, ["S"])] == [
        ("blank", "customers[].family_name", 4, 0, (4, 0)),
        ("invalid_iban", "payment_instructions[].iban", 4, 0, (4, 0)),
    ]
    run(ledger, "1", RetryImport(), start(), CompleteImport(start=5, account_number="A-1"))
    run(ledger, "3", RetryImport(), CancelImport())
    set_log_time(database, NOON + timedelta(days=1))
    run(ledger, "2", RetryImport(), start(), failed(NAME, start=5))
    run(owner, "4", EraseSubject())
    follow(ledger)
    assert [told(one) for one in counts(database, ["S"])] == [
        ("blank", "customers[].family_name", 1, 1, (4, 1)),
        ("invalid_iban", "payment_instructions[].iban", 0, 1, (4, 0)),
    ]
    assert counts(database, ["T"]) == []
    assert [told(one)[-1] for one in counts(database, ["S"], days=1)] == [(1,), (0,)]


@pytest.mark.parametrize("size", [1, 3])
def test_batches_of_any_size_lead_to_the_same_rows(
    ledger: Ledger, owner: Ledger, monkeypatch: pytest.MonkeyPatch, size: int, admin: Admin
) -> None:
    """Rows written three at a time are the same as well."""
    for external in ("1", "2"):
        run(ledger, external, stage(), start(), failed(IBAN, NAME))
    run(ledger, "1", RetryImport(), start(), CompleteImport(start=5, account_number="A-1"))
    seen = read_ordered(admin, IMPORT_FAILURE.topics, after=0, upto=log_head(admin))
    for schema, batch in (("one", len(seen)), ("other", size)):
        monkeypatch.setattr("projections.views.import_failure._ROWS_AT_A_TIME", 3 if schema == "one" else 20_000)
        admin.execute(f"CREATE SCHEMA {schema}".encode())
        IMPORT_FAILURE.create(admin, schema)
        for begin in range(0, len(seen), batch):
            IMPORT_FAILURE.apply(admin, schema, seen[begin : begin + batch])  # type: ignore[arg-type]
    for table in IMPORT_FAILURE.tables:
        rows = [
            admin.execute(f"SELECT t::text FROM {schema}.{table} AS t ORDER BY 1".encode()).fetchall()
            for schema in ("one", "other")
        ]
        assert rows[0] == rows[1] != []


def test_causes_are_numbers_of_all_suppliers_with_days_and_newest_examples(
    ledger: Ledger, database: PostgresUrls
) -> None:
    set_log_time(database, NOON)
    for number in range(5):
        fail(ledger, "S", f"{number}", IBAN, run="r" if number == 4 else "")
    set_log_time(database, NOON + timedelta(days=1))
    fail(ledger, "T", "6", IBAN, NAME)
    follow(ledger)
    today = date(2026, 11, 2)
    causes: list[FailureCause] = run_query(database.service, failure_causes, ["S", "T"], today, days=3)
    iban, name = ("invalid_iban", "payment_instructions[].iban"), ("blank", "customers[].family_name")
    assert [(cause.code, cause.path, cause.open, cause.days, cause.suppliers) for cause in causes] == [
        (*iban, 6, (0, 5, 1), ("S", "T")),
        (*name, 1, (0, 0, 1), ("T",)),
    ]
    assert [(cause.first.day, cause.last.day) for cause in causes] == [(1, 2), (2, 2)]
    examples = run_query(database.service, failure_examples, causes)
    assert [(one.supplier, one.external_account_number, one.run) for one in examples[iban]] == [
        ("T", "6", ""),
        ("S", "4", "r"),
        ("S", "3", ""),
    ]
    [other] = run_query(database.service, failure_causes, ["S", "T"], today, days=3, after=causes[0].sort_key)
    assert (other.code, other.path) == name
    assert run_query(database.service, failure_causes, [], today, days=3) == []
    assert run_query(database.service, failure_examples, []) == {}


def fail(ledger: Ledger, supplier: str, external: str, *problems: str, run: str = "") -> None:
    for command in (stage(run=run), start(), failed(*problems)):
        ledger.execute(stream_of(supplier, external), command, at=NOON, by="t")
