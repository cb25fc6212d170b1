"""Second check of a stored payload: only if rules or terms have changed since it was staged."""

from typing import Any

import pytest

import market
from eventstore.aggregates.import_process import IMPORT_PROCESS, FailImport
from market.submission_check import Terms
from schemas.account import Account
from tests.support.make import NOON, an_account, changed, encoded, staged
from workers.actors.stored_account import account_of

USUAL = Terms()
BREAKS_A_RULE = changed(an_account(), "not an address", "customers", 0, "email")
STRICT = Terms(strictness="strict")


def account_or_failure(account: Any, terms: Terms = USUAL, **fields: Any) -> Account | FailImport:
    process = IMPORT_PROCESS.evolve(IMPORT_PROCESS.initial, staged(**fields))
    return account_of(encoded(account), process, terms, NOON)


def test_the_same_edition_is_not_judged_again() -> None:
    """This payload breaks a rule, so the test notices if it is judged."""
    account = account_or_failure(BREAKS_A_RULE, rules_edition=market.EDITION)
    assert not isinstance(account, FailImport)
    assert account.customers[0].email == "not an address"


@pytest.mark.parametrize(
    ("terms", "fields"),
    [
        (Terms(), {"rules_edition": "2026-11-21"}),
        (Terms(), {"rules_edition": ""}),
        (Terms(), {"rules_edition": market.EDITION, "dropped": 1}),
        (STRICT, {"rules_edition": market.EDITION, "warnings": ("postcode_unknown@billing_postcode",)}),
    ],
    ids=["another edition", "no edition", "fields were dropped", "warnings are errors by now"],
)
def test_every_other_payload_is_judged_again(terms: Terms, fields: dict[str, Any]) -> None:
    failed = account_or_failure(BREAKS_A_RULE, terms, **fields)
    assert isinstance(failed, FailImport)
    assert failed.problems


def test_an_account_without_warnings_is_not_judged_again_for_a_strict_supplier() -> None:
    assert not isinstance(account_or_failure(BREAKS_A_RULE, STRICT, rules_edition=market.EDITION), FailImport)
