"""Imports are listed by status and code, page by page; the rebuilt view equals the live one."""

from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport, CompleteImport, stream_of
from eventstore.errors import Refused
from eventstore.log.ledger import Ledger
from eventstore.log.rows import value_of
from projections import INLINE
from projections.views.import_status import IMPORT_STATUS, SELECT_EXTERNALS, ImportFilter, imports_page
from tests.support.commands import COMMANDS
from tests.support.databases import Admin
from tests.support.make import NOON, stage, start
from tests.support.problems import INVALID, MISSING, failed
from tests.support.rows import live_rows, run_query


@pytest.fixture(scope="module")
def imports(shared_database: PostgresUrls) -> PostgresUrls:
    """Imports of supplier S: 1 pending, 2 and 4 failed with problems, 3 failed, 5 processed, 6 cancelled; of T: 9."""
    with closing(Ledger(shared_database.service, views=INLINE)) as ledger:
        ledger.execute(stream_of("S", "1"), stage(), at=NOON, by="t")
        failed(ledger, "2", INVALID, MISSING, "invalid_iban@payment_instructions.0")
        failed(ledger, "3", "attempts_exhausted")
        failed(ledger, "4", INVALID, MISSING)
        for command in (stage(), start(), CompleteImport(start=2, account_number="A-00000005")):
            ledger.execute(stream_of("S", "5"), command, at=NOON, by="t")
        for other in (stage(), CancelImport()):
            ledger.execute(stream_of("S", "6"), other, at=NOON, by="t")
        ledger.execute(stream_of("T", "9"), stage(), at=NOON, by="t")
    return shared_database


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ImportFilter(), "123456"),
        (ImportFilter(status="ERRORED"), "234"),
        (ImportFilter(status="PENDING"), "1"),
        (ImportFilter(status="PROCESSED"), "5"),
        (ImportFilter(status="CANCELLED"), "6"),
        (ImportFilter(status="DRY_RUN_ERRORED"), ""),
        (ImportFilter(code=INVALID), "24"),
        (ImportFilter(code="attempts_exhausted"), "3"),
        (ImportFilter(code="invalid_iban", is_problem=True), "2"),
        (ImportFilter(code="path_does_not_exist_in_file_store", is_problem=True), "24"),
        (ImportFilter(code="does_not_exist", is_problem=True), ""),
        (ImportFilter(code="path_does_not_exist_in_file_store", is_problem=True, status="PENDING"), ""),
    ],
)
def test_imports_are_listed_by_status_and_code(imports: PostgresUrls, wanted: ImportFilter, expected: str) -> None:
    page = run_query(imports.service, imports_page, "S", wanted)
    assert "".join(one.external_account_number for one in page.imports) == expected
    assert page.next_after is None


@pytest.mark.parametrize("limit", [1, 2, 4, 6])
def test_pages_follow_each_other_without_gap_or_repeat(imports: PostgresUrls, limit: int) -> None:
    found, after, pages = "", 0, 0
    while True:
        page = run_query(imports.service, imports_page, "S", ImportFilter(after=after, limit=limit))
        found += "".join(one.external_account_number for one in page.imports)
        pages += 1
        if page.next_after is None:
            break
        after = page.next_after
    assert found == "123456"
    assert pages == -(-6 // limit)


@pytest.mark.promise("retry-code-matches-codes")
@pytest.mark.parametrize(
    ("code", "expected"),
    [(None, "234"), (INVALID, "24"), ("invalid_iban", "2"), ("path_does_not_exist_in_file_store", "24"), ("iban", "")],
)
def test_a_retry_by_code_matches_the_codes_of_problems(imports: PostgresUrls, code: str | None, expected: str) -> None:
    with psycopg.connect(imports.service) as connection:
        wanted = {"supplier": "S", "status": "ERRORED", "code": code}
        rows = connection.execute(SELECT_EXTERNALS, wanted).fetchall()
    assert "".join(row[0] for row in rows) == expected


STEPS = st.lists(st.tuples(st.sampled_from(["1", "2", "3"]), COMMANDS), max_size=25)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_a_rebuilt_status_view_equals_the_live_one(owner: Ledger, admin: Admin, steps: list[tuple[str, Any]]) -> None:
    admin.execute("DELETE FROM import_status")
    run = value_of(admin, "SELECT count(*) FROM events")
    for number, (external, command) in enumerate(steps):
        try:
            owner.execute(stream_of("S", f"{run}/{external}"), command, at=NOON + timedelta(seconds=number), by="t")
        except Refused:
            continue
    rebuilt: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for external in ("1", "2", "3"):
        for recorded in owner.history(stream_of("S", f"{run}/{external}")):
            row = IMPORT_STATUS.project(recorded, recorded.position)
            assert row is not None
            before = rebuilt.get(row[:2], row)
            rebuilt[row[:2]] = (*row[:3], *before[3:5], *row[5:])
    assert live_rows(admin, IMPORT_STATUS) == sorted(rebuilt.values(), key=lambda row: row[:2])
