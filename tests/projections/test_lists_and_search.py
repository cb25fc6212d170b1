"""A supplier's imports in pages, retries by the codes of problems, searches by what people know, failures once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import (
    CancelImport,
    CompleteImport,
    FailImport,
    ImportErrored,
    StageImport,
    stream_of,
)
from eventstore.events import Recorded
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from projections import FOLLOWING
from projections.account_search import ACCOUNT_SEARCH, find_accounts, folded, project
from projections.error_statistics import project as statistics_of
from projections.import_run import IMPORT_RUN, run_states
from projections.import_status import SELECT_EXTERNALS, Wanted, imports_page
from projections.versioning.reading import Seen
from tests.support.make import NOON, an_account, encoded, stage, staged, start
from workers.projector import Projector

MISSING = "path_does_not_exist_in_file_store@statements.0.statement_path"
INVALID = "account_failed_validation"


def asked(url: str, query: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    async def ask() -> Any:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await query(connection, *arguments)

    return asyncio.run(ask())


def fail(ledger: Ledger, external: str, code: str, *problems: str) -> None:
    for command in (stage(), start(), FailImport(attempt=1, code=code, detail="No.", problems=problems)):
        ledger.execute(stream_of("S", external), command, at=NOON, by="t")


@pytest.fixture
def imports(ledger: Ledger) -> None:
    """Of supplier S: 1 pending, 2 and 4 failed with problems, 3 given up, 5 processed, 6 cancelled; of T: 9."""
    ledger.execute(stream_of("S", "1"), stage(), at=NOON, by="t")
    fail(ledger, "2", INVALID, MISSING, "invalid_iban@payment_instructions.0")
    fail(ledger, "3", "attempts_exhausted")
    fail(ledger, "4", INVALID, MISSING)
    for command in (stage(), start(), CompleteImport(attempt=1, account_number="A-00000005")):
        ledger.execute(stream_of("S", "5"), command, at=NOON, by="t")
    for other in (stage(), CancelImport()):
        ledger.execute(stream_of("S", "6"), other, at=NOON, by="t")
    ledger.execute(stream_of("T", "9"), stage(), at=NOON, by="t")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(), "123456"),
        (Wanted(status="ERRORED"), "234"),
        (Wanted(status="PENDING"), "1"),
        (Wanted(status="PROCESSED"), "5"),
        (Wanted(status="CANCELLED"), "6"),
        (Wanted(status="DRY_RUN_ERRORED"), ""),
        (Wanted(code=INVALID), "24"),
        (Wanted(code="attempts_exhausted"), "3"),
        (Wanted(code="invalid_iban", is_problem=True), "2"),
        (Wanted(code="path_does_not_exist_in_file_store", is_problem=True), "24"),
        (Wanted(code="does_not_exist", is_problem=True), ""),
        (Wanted(code="path_does_not_exist_in_file_store", is_problem=True, status="PENDING"), ""),
    ],
)
def test_imports_are_listed_by_status_and_code(imports: None, database: Any, wanted: Wanted, expected: str) -> None:
    page = asked(database.service, imports_page, "S", wanted)
    assert "".join(one.external_account_number for one in page.imports) == expected
    assert page.next_after is None


@pytest.mark.parametrize("limit", [1, 2, 4, 6])
def test_pages_follow_each_other_without_gap_or_repeat(imports: None, database: Any, limit: int) -> None:
    found, after, pages = "", 0, 0
    while True:
        page = asked(database.service, imports_page, "S", Wanted(after=after, limit=limit))
        found += "".join(one.external_account_number for one in page.imports)
        pages += 1
        if page.next_after is None:
            break
        after = page.next_after
    assert found == "123456"
    assert pages == -(-6 // limit)


def test_a_page_is_read_from_an_index(imports: None, database: PostgresUrls) -> None:
    with psycopg.connect(database.admin) as connection:
        rows = connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'import_status'").fetchall()
    told = " ".join(row[0] for row in rows)
    assert "(supplier, created_position)" in told
    assert "(supplier, status, created_position)" in told
    assert "(supplier, error_code, created_position)" in told


@pytest.mark.parametrize(
    ("code", "expected"),
    [(None, "234"), (INVALID, "24"), ("invalid_iban", "2"), ("path_does_not_exist_in_file_store", "24"), ("iban", "")],
)
def test_a_retry_by_code_matches_the_codes_of_problems(
    imports: None, database: Any, code: str | None, expected: str
) -> None:
    with psycopg.connect(database.service) as connection:
        wanted = {"supplier": "S", "status": "ERRORED", "code": code}
        rows = connection.execute(SELECT_EXTERNALS, wanted).fetchall()
    assert "".join(row[0] for row in rows) == expected


def counted(**fields: Any) -> list[tuple[str, str, int]]:
    event = ImportErrored(attempt=1, detail="No.", **fields)
    recorded = Recorded("import/S/1", 3, event, NOON, "S", "t", None, 3, "1")
    return [(code, path, number) for _, _, _, code, path, number in statistics_of(Seen(recorded))]


def test_one_failure_is_counted_once() -> None:
    twice = (MISSING, MISSING.replace(".0.", ".1."))
    assert counted(code="attempts_exhausted") == [("attempts_exhausted", "", 1)]
    assert counted(code=INVALID, problems=twice) == [
        ("path_does_not_exist_in_file_store", "statements[].statement_path", 1)
    ]
    two = (MISSING, "invalid_iban@payment_instructions.0")
    assert counted(code=INVALID, problems=two) == [
        ("path_does_not_exist_in_file_store", "statements[].statement_path", 1)
    ]
    assert counted(code=INVALID, problems=("unknown_field@customers.0.Erika",)) == [
        ("unknown_field", "customers[].*", 1)
    ]


def person(external: str, given: str, family: str, iban: str = "DE89370400440532013000") -> dict[str, Any]:
    account = an_account("S", 1) | {"external_account_number": external}
    account["customers"][0] |= {"given_name": given, "family_name": family, "email": f"{external}@example.com"}
    account["payment_instructions"][0]["bank_account"]["iban"] = iban
    return account


@pytest.fixture
def found(ledger: Ledger, database: Any) -> Callable[..., Any]:
    """What a search finds among four accounts: external numbers, and the next page."""
    people = [
        person("1", "Anna Maria", "Groß"),
        person("2", "Hans", "Müller", "DE02120300000000202051"),
        person("3", "Müller", "Hans"),
        person("4", "Hannes", "Müllerschön"),
    ]
    for account in people:
        payload = Payload.of(encoded(account))
        command = StageImport(payload_sha256=payload.sha256.hex(), content_sha256="c", payload_bytes=1)
        stream = stream_of("S", account["external_account_number"])
        ledger.execute(stream, command, at=NOON, by="t", payload=payload)
    projector = Projector(ledger, FOLLOWING)
    with ledger.connection() as connection:
        while projector.advance(connection, ACCOUNT_SEARCH):
            pass

    def search(text: str, **more: Any) -> tuple[str, str]:
        with ledger.connection() as connection:
            page = find_accounts(connection, text, more.pop("suppliers", None), **more)
        return "".join(one.external_account_number for one in page.accounts), page.next_after

    return search


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hans Müller", "23"),
        ("müller hans", "23"),
        ("MUELLER, Hans", "23"),
        ("müller han", "234"),
        ("groß anna", "1"),
        ("Anna Maria Gross", "1"),
        ("maria gro", "1"),
        ("muellersch", "4"),
        ("DE02 1203 0000 0000 2020 51", "2"),
        ("de02120300000000202051", "2"),
        ("2@example.com", "2"),
        ("hans gross", ""),
        ("ha", ""),
        ("%", ""),
    ],
)
def test_people_are_found_by_names_in_any_order_and_by_iban(
    found: Callable[..., Any], text: str, expected: str
) -> None:
    assert found(text) == (expected, "")


def test_a_search_says_that_there_are_more_and_goes_on(found: Callable[..., Any]) -> None:
    externals, after = found("müller", limit=1)
    seen = externals
    while after:
        externals, after = found("müller", limit=1, after=after)
        seen += externals
    assert seen == "234"
    assert found("müller", suppliers=["T"]) == ("", "")
    for nonsense in ("x", "ÄÖ", "AAAA"):
        with pytest.raises(ValueError, match="no page"):
            found("müller", after=nonsense)


def test_an_account_is_found_by_its_number(ledger: Ledger, database: PostgresUrls) -> None:
    for command in (stage(), start(), CompleteImport(attempt=1, account_number="A-7K2M9QXD")):
        ledger.execute(stream_of("S", "77"), command, at=NOON, by="t")
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO platform.service_account"
            " (account_number, created_at, external_account_number, import_supplier)"
            " VALUES ('A-7K2M9QXD', %s, '77', 'S')",
            (NOON + timedelta(seconds=1),),
        )
        for text in ("A-7K2M9QXD", " a-7k2m9qxd "):
            page = find_accounts(connection, text, None)
            assert [one.external_account_number for one in page.accounts] == ["77"]
        assert find_accounts(connection, "A-7K2M9QXD", ["T"]).accounts == []


def test_who_is_erased_has_no_row_in_the_search() -> None:
    recorded = Recorded("import/S/1", 1, staged(), NOON, "S", "t", None, 1, "1")
    assert list(project(Seen(recorded))) == []
    [row] = project(Seen(recorded, body=encoded(person("1", "Anna", "Groß"))))
    assert {"anna", folded("Groß"), "de89370400440532013000"} <= set(row[-1])


def test_a_failure_counts_once_in_its_run_as_in_the_statistics(ledger: Ledger, database: PostgresUrls) -> None:
    for external, problems in (("1", (MISSING, "invalid_iban@payment_instructions.0")), ("2", ())):
        stream = stream_of("S", external)
        failure = FailImport(attempt=1, code=INVALID, detail="No.", problems=problems)
        for command in (stage(run="r"), start(), failure):
            ledger.execute(stream, command, at=NOON, by="t")
    projector = Projector(ledger, FOLLOWING)
    with ledger.connection() as connection:
        while projector.advance(connection, IMPORT_RUN):
            pass
    [state] = asked(database.service, run_states, "S", "r")
    assert [(error.code, error.path, error.number) for error in state.record.errors] == [
        (INVALID, "", 1),
        ("path_does_not_exist_in_file_store", "statements[].statement_path", 1),
    ]
