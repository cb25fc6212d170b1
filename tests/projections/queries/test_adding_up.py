"""The platform's rows add up to the same in one portion and in any number of them."""

from typing import Any

import pytest
from psycopg import Connection

from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.platform.totals import Totals
from projections.queries import reconciliation
from projections.queries.reconciliation import run_portion
from projections.retention.erasure import erase
from projections.views.import_run import RunPlace
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor

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


def added_up(connection: Connection[Any]) -> dict[str, Any]:
    place: RunPlace | None = (0, "")
    totals, number = Totals(), 0
    while place is not None:
        portion, count, place = run_portion(connection, SUPPLIER, "r", place)
        totals, number = totals.merge(portion), number + count
    assert number == ACCOUNTS
    return totals.record()


@pytest.mark.parametrize("size", range(1, ACCOUNTS + 2))
def test_portions_of_any_size_add_up_to_the_same(run: Ledger, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    with run.connection() as connection:
        whole = added_up(connection)
        assert (whole["accounts"], whole["erased"]) == (ACCOUNTS - 2, 1)
        monkeypatch.setattr(reconciliation, "PORTION", size)
        assert added_up(connection) == whole
