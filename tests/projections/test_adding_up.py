"""The platform's rows add up to the same in one go and in any parts, on either kind of connection."""

from functools import reduce
from typing import Any, cast

import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.erasure import erase
from projections.import_run import RunPlace
from projections.inquiries import answer, answer_async
from projections.platform import adding_up
from projections.platform.adding_up import run_portion
from projections.platform.totals import Totals
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.rows import asked
from tests.support.staging import SUPPLIER, stage
from workers.process_imports import ImportProcessor

ACCOUNTS = 7


@pytest.fixture
def run(ledger: Ledger, owner: Ledger) -> Ledger:
    """Accounts of a run: one of them has failed, and one was erased."""
    accounts = [an_account(SUPPLIER, number) for number in range(1, ACCOUNTS + 1)]
    accounts[2]["transfer_balance"] = "999999.99"
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, account, run="r") for account in accounts])
    external = str(accounts[4]["external_account_number"])
    assert erase(owner, SUPPLIER, external, reason="r", at=now(), by="t") is not None
    follow(ledger)
    return ledger


def between(connection: Connection[Any], first: int, last: int | None) -> Totals:
    """What joined the run at these positions, portion by portion."""
    totals, place = Totals(), cast("RunPlace | None", (first, ""))
    while place is not None:
        portion, place = answer(connection, run_portion(SUPPLIER, "r", place, upto=last))
        totals = totals.merge(portion)
    return totals


def test_parts_add_up_to_what_one_process_says(run: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with run.connection() as connection:
        whole = between(connection, 0, None).record()
        assert (whole["accounts"], whole["erased"]) == (ACCOUNTS - 2, 1)
        monkeypatch.setattr(adding_up, "PORTION", 2)
        rows = connection.execute("SELECT max(position) AS last FROM import_run_account").fetchall()
        last = rows[0]["last"]
        for cuts in ([], [0], [last], [last + 5], [*range(last + 1)], [last // 3, last // 2]):
            parts = zip([0, *(cut + 1 for cut in cuts)], [*cuts, None], strict=True)
            assert reduce(Totals.merge, [between(connection, *part) for part in parts]).record() == whole, cuts


def test_both_kinds_of_connections_say_the_same(run: Ledger, database: PostgresUrls) -> None:
    with run.connection() as connection:
        said = answer(connection, run_portion(SUPPLIER, "r", (0, "")))
    assert asked(database.service, answer_async, run_portion(SUPPLIER, "r", (0, ""))) == said


def test_an_account_that_the_platform_lacks_is_missing_in_its_part(run: Ledger, owner: Ledger) -> None:
    with run.connection() as connection:
        before = between(connection, 0, None).record()
        with owner.connection() as admin:
            admin.execute("DELETE FROM platform.service_account WHERE external_account_number LIKE '%2'")
        after = between(connection, 0, None).record()
    assert after["accounts"] == before["accounts"] - 1
    assert "external_account_number" in before["paths"]
    assert after["paths"]["external_account_number"]["count"] == before["paths"]["external_account_number"]["count"] - 1
