"""Lists of imports match every filter, page by page, without gaps."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CompleteImport, FailImport, RetryImport, stream_of
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.queries import import_list
from projections.queries.import_list import ListFilter, RowDetails, list_imports, names_of_imports, row_details
from tests.support.following import follow
from tests.support.make import NOON, an_account, start
from tests.support.rows import run_query
from tests.support.staging import stage
from tests.support.times import set_log_time

FAILED = "import_process_failed_validation"
IBAN = "invalid_iban@payment_instructions.0.iban"
PLACE = "payment_instructions[].iban"

Listing = Callable[..., list[str]]


@pytest.fixture(scope="module")
def listing(shared_database: PostgresUrls) -> Iterator[Listing]:
    with closing(Ledger(shared_database.service, views=INLINE)) as ledger:
        fill(ledger, shared_database)
    with listing_in(shared_database) as listing:
        yield listing


def fill(ledger: Ledger, database: PostgresUrls) -> None:
    """Write twelve imports of two suppliers on two days."""
    for number in range(12):
        supplier, external = "ST"[number % 2], f"{number:02}"
        account = an_account(supplier, 1) | {"external_account_number": external}
        account["customers"][0] |= {"family_name": "Müller" if number < 4 else "Groß"}
        at = NOON + timedelta(days=number // 6)
        set_log_time(database, at)
        stream = stage(ledger, account, at=at, run="r1" if number < 6 else "")
        if number % 3:
            ledger.execute(stream, start(), at=at, by="t")
        if number % 3 == 1:
            ledger.execute(stream, CompleteImport(start=2, account_number=f"A-{number}"), at=at, by="t")
        if number % 3 == 2:
            code, problems = (FAILED, (IBAN,)) if number != 11 else ("given_up", ())
            ledger.execute(stream, FailImport(start=2, code=code, detail="No.", problems=problems), at=at, by="t")
    follow(ledger)


@contextmanager
def listing_in(database: PostgresUrls) -> Iterator[Listing]:
    """Return a function that lists external numbers, all pages together."""

    async def pages(connection: psycopg.AsyncConnection[Any], limit: int, list_filter: dict[str, Any]) -> list[str]:
        wanted, shown, after = ListFilter(**{"suppliers": ("S", "T")} | list_filter), [], ""
        while True:
            page = await list_imports(connection, wanted, after=after, limit=limit)
            assert len(page.imports) <= limit
            shown += [row.external_account_number for row in page.imports]
            if not page.next_after:
                return shown
            assert page.next_after != after
            after = page.next_after

    with asyncio.Runner() as runner:
        connection = runner.run(psycopg.AsyncConnection.connect(database.service, autocommit=True))
        yield lambda limit=50, **list_filter: runner.run(pages(connection, limit, list_filter))
        runner.run(connection.close())


ALL = [f"{number:02}" for number in range(11, -1, -1)]
CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ALL),
    ({"suppliers": ("S",)}, ALL[1::2]),
    ({"suppliers": ()}, []),
    ({"status": "PENDING"}, ["09", "06", "03", "00"]),
    ({"status": "PROCESSED"}, ["10", "07", "04", "01"]),
    ({"status": "ERRORED", "suppliers": ("T",)}, ["11", "05"]),
    ({"status": "IN_PROGRESS"}, []),
    ({"code": FAILED}, ["08", "05", "02"]),
    ({"code": "given_up"}, ["11"]),
    ({"code": "invalid_iban", "is_problem": True}, ["08", "05", "02"]),
    ({"code": "invalid_iban", "is_problem": True, "path": "payment_instructions[].iban"}, ["08", "05", "02"]),
    ({"code": "invalid_iban", "is_problem": True, "path": "elsewhere"}, []),
    ({"code": "invalid_iban", "is_problem": True, "status": "PROCESSED"}, []),
    ({"code": "invalid_iban", "is_problem": True, "status": "ERRORED"}, ["08", "05", "02"]),
    ({"code": "invalid_iban", "is_problem": True, "status": "CANCELLED"}, []),
    ({"code": "invalid_iban", "is_problem": True, "is_fixed": False}, ["08", "05", "02"]),
    ({"code": "invalid_iban", "is_problem": True, "is_fixed": False, "path": PLACE}, ["08", "05", "02"]),
    ({"code": "invalid_iban", "is_problem": True, "is_fixed": True, "path": PLACE}, []),
    ({"code": "invalid_iban", "is_problem": True, "is_fixed": True, "status": "ERRORED"}, []),
    ({"code": "invalid_iban", "is_problem": True, "is_fixed": False, "status": "PENDING"}, []),
    ({"code": FAILED, "status": "ERRORED"}, ["08", "05", "02"]),
    ({"code": FAILED, "status": "PENDING"}, []),
    ({"code": FAILED, "status": "DRY_RUN_ERRORED"}, []),
    ({"run": "r1", "code": "invalid_iban", "is_problem": True, "is_fixed": True}, []),
    ({"run": "r1"}, ALL[6:]),
    ({"run": "r1", "status": "PROCESSED"}, ["04", "01"]),
    ({"run": "r1", "code": "invalid_iban", "is_problem": True}, ["05", "02"]),
    ({"run": "r2"}, []),
    ({"day": date(2026, 11, 1)}, ALL[6:]),
    ({"day": date(2026, 11, 2)}, ALL[:6]),
    ({"day": date(2026, 11, 2), "status": "PENDING"}, ["09", "06"]),
    ({"day": date(2026, 11, 3)}, []),
]


@pytest.mark.parametrize("candidates", [2, 20_000])
def test_a_list_is_narrowed_and_paged(listing: Listing, candidates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_list, "MAX_CANDIDATES", candidates)
    for list_filter, expected in CASES:
        for limit in (1, 2, 50):
            assert listing(limit, **list_filter) == expected, (list_filter, limit)


def test_a_text_finds_and_the_rest_still_narrows(listing: Listing) -> None:
    assert sorted(listing(text="müller")) == ["00", "01", "02", "03"]
    assert sorted(listing(1, text="müller")) == ["00", "01", "02", "03"]
    assert listing(text="müller", status="PROCESSED") == ["01"]
    assert listing(text="müller", suppliers=("S",), day=date(2026, 11, 2)) == []
    assert sorted(listing(text="groß", run="r1")) == ["04", "05"]
    assert listing(text="groß", run="r2") == []
    assert listing(text="müller", code="invalid_iban", is_problem=True, path=PLACE) == ["02"]
    assert listing(text="müller", code="invalid_iban", is_problem=True, path="elsewhere") == []


def test_what_was_mended_is_told_from_what_still_fails(ledger: Ledger, database: PostgresUrls) -> None:
    fill(ledger, database)
    for command in (RetryImport(), start(), CompleteImport(start=5, account_number="A-2")):
        ledger.execute(stream_of("S", "02"), command, at=NOON + timedelta(days=2), by="t")
    ledger.execute(stream_of("S", "08"), RetryImport(), at=NOON + timedelta(days=2), by="t")
    follow(ledger)
    failed = {"code": "invalid_iban", "is_problem": True}
    with listing_in(database) as listing:
        for more in ({}, {"path": PLACE}):
            assert listing(**failed, **more, is_fixed=True) == ["02"]
            assert listing(**failed, **more, is_fixed=False) == ["08", "05"]
            assert listing(**failed, **more, status="PENDING") == ["08"]
            assert listing(**failed, **more, status="PROCESSED") == ["02"]
            assert listing(1, **failed, **more) == ["08", "05", "02"]


def test_no_page_begins_where_none_has_ended(shared_database: PostgresUrls) -> None:
    for nonsense in ("x", "-1", "1" * 19, "٣", "5~\0"):
        with pytest.raises(ValueError, match="not the start of a page"):
            run_query(shared_database.service, list_imports, ListFilter(suppliers=("S",)), after=nonsense)


@pytest.mark.parametrize(("most", "number"), [(1, 1), (4, 4), (7, 7), (50, 12)])
def test_names_of_matching_imports_are_the_list_up_to_a_limit(
    listing: Listing, shared_database: PostgresUrls, most: int, number: int
) -> None:
    names = run_query(shared_database.service, names_of_imports, ListFilter(suppliers=("S", "T")), most=most)
    assert [external for _, external in names] == ALL[:number]
    failed = run_query(
        shared_database.service,
        names_of_imports,
        ListFilter(suppliers=("S", "T"), code="invalid_iban", is_problem=True),
        most=most,
    )
    assert [external for _, external in failed] == ["08", "05", "02"][:most]


def test_failed_rows_have_a_problem_of_their_failure_and_all_rows_have_details(
    listing: Listing, shared_database: PostgresUrls
) -> None:
    page = run_query(shared_database.service, list_imports, ListFilter(suppliers=("S", "T")))
    problems = {row.external_account_number: (row.error_code, row.error_path, row.problems) for row in page.imports}
    assert problems["08"] == ("invalid_iban", PLACE, 1)
    assert problems["11"] == ("given_up", "", 1)
    assert problems["10"] == (None, "", 1)
    narrowed = run_query(shared_database.service, list_imports, ListFilter(suppliers=("S", "T"), code=FAILED))
    assert {row.error_code for row in narrowed.imports} == {FAILED}
    details = run_query(shared_database.service, row_details, page.imports)
    assert details[stream_of("S", "02")] == RowDetails(
        stream=stream_of("S", "02"), names="lukas muller", postcode="60311", run="r1"
    )
    assert details[stream_of("T", "11")].run == ""
    assert run_query(shared_database.service, row_details, []) == {}
