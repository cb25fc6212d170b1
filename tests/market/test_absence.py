"""Absent values break no rule, except the few fields that a rule requires."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

import pytest

import market
from market.plausibility import PLAUSIBILITY
from market.rule import RuleBook
from schemas.finance import Transaction
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
Path = tuple[str | int, ...]
MISSED = {
    "customers": {"required"},
    "customers[]": {"required"},
    "customers[].family_name": {"customer_family_name_required"},
    "ledgers[].current_statement_transactions": {"balance_mismatch_on_ledger_balance"},
    "ledgers[].current_statement_transactions[]": {"balance_mismatch_on_ledger_balance"},
    "payment_schedules[].day_of_month": {"fixed_payment_schedule_missing_day_of_month"},
    "payment_schedules[].frequency": {"fixed_payment_schedule_missing_frequency"},
    "supply_addresses": {"unknown_ledger_identifiers"},
    "supply_addresses[]": {"unknown_ledger_identifiers"},
    "supply_addresses[].supply_points[]": {"unknown_ledger_identifiers"},
}
"""Rules that the complete account breaks when it lacks a field."""


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of the account, of an array the first item alone."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for step, inner in items:
        yield (*path, step)
        yield from places(inner, (*path, step))


def codes(account: dict[str, Any]) -> set[str] | None:
    """None where the account does not fit its shape."""
    read = read_submission(encoded(account))
    if read.shape_errors:
        return None
    breaches = [*market.check(read.account, NOW), *RuleBook(PLAUSIBILITY).breaches(read.account, NOW)]
    return {breach.problem.code for breach in breaches}


def test_what_is_absent_is_missed_by_the_rules_that_ask_for_it_alone() -> None:
    whole = an_account()
    missed: dict[str, set[str]] = defaultdict(set)
    for path in places(whole):
        if found := codes(changed(whole, ..., *path)):
            missed[".".join("[]" if isinstance(step, int) else step for step in path).replace(".[]", "[]")] |= found
    assert missed == MISSED


LEDGER = ("ledgers", 0)
POINT = ("supply_addresses", 0, "supply_points", 0)


def without(*paths: Path) -> dict[str, Any]:
    account = an_account()
    for path in paths:
        account = changed(account, ..., *path)
    return account


def test_balances_that_are_absent_are_not_compared() -> None:
    balance, last, total = (*LEDGER, "ledger_balance"), (*LEDGER, "last_statement_balance"), ("transfer_balance",)
    for absent in ((balance, last), (balance, total), (last, total), (balance, last, total)):
        assert codes(without(*absent)) == set()
    assert codes(without(("transfer_balance",), ("ledgers",))) == set()
    emptied = changed(an_account(), [], "ledgers")
    assert codes(emptied) == set()


def test_all_ledgers_count_for_the_balance_that_is_transferred() -> None:
    account = an_account()
    [ledger, *_] = account["ledgers"]
    plain = {"ledger_code": ledger["ledger_code"], "ledger_balance": account["transfer_balance"]}
    code = "ledger_balances_not_equal_to_transfer_balance"

    def with_another(balance: str, *, first: bool = False) -> set[str]:
        other = {"ledger_code": "ANOTHER", "ledger_balance": balance}
        found = codes(account | {"ledgers": [other, plain] if first else [plain, other]})
        assert found is not None
        return found

    for first in (False, True):
        assert code not in with_another("0.00", first=first)
        assert code in with_another("0.01", first=first)
        assert code not in with_another("0.004", first=first)
    assert code not in (codes(account | {"ledgers": [plain, {"ledger_code": "ANOTHER"}]}) or set())


def test_one_address_of_either_kind_is_enough() -> None:
    code = "billing_address_not_provided"
    without_billing = changed(an_account(), "", "billing_address1")
    blank_billing = changed(an_account(), " ", "billing_address1")
    for account in (without_billing, blank_billing):
        assert codes(account) == set()
        assert code in (codes(changed(account, [], "supply_addresses")) or set())
    assert code not in (codes(changed(an_account(), [], "supply_addresses")) or set())


ADDS = {"PAYMENT": "11", "CREDIT": "11", "REPAYMENT": "9", "CHARGE": "9", "SUPPLY_CHARGE": "9"}
"""The balance of a ledger at 10 after one transaction of 1."""


@pytest.mark.parametrize("kind", get_args(get_type_hints(Transaction)["type"]))
def test_each_kind_of_transaction_moves_the_balance_in_its_direction(kind: str) -> None:
    [ledger, *_] = an_account()["ledgers"]
    [moved, *_] = ledger["current_statement_transactions"]
    transactions = [moved | {"type": kind, "amount": "1"}]
    for balance in ("9", "10", "11"):
        balances = {"last_statement_balance": "10", "ledger_balance": balance}
        account = an_account() | {"ledgers": [ledger | balances | {"current_statement_transactions": transactions}]}
        found = codes(account)
        assert found is not None
        assert ("balance_mismatch_on_ledger_balance" in found) is (balance != ADDS[kind])
