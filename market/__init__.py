"""Rules of the German energy market, as rows of tables. `check` applies all of them to an account. Pure."""

from collections.abc import Sequence
from datetime import datetime

from market.account import ACCOUNT
from market.customer import CUSTOMER
from market.edition import edition_of, sources
from market.finance import FINANCE
from market.plausibility import PLAUSIBILITY
from market.rule import Breach, Rule, RuleBook
from market.supply import SUPPLY
from schemas.account import Account
from schemas.base import Problem
from schemas.reading.work import MAX_RULES_S
from system.steps import Steps, finish_steps

EDITION = edition_of(sources())
"""Digest of the rules and shapes, stored in events.

A worker repeats the check of an account only under another edition.
"""

RULES: tuple[Rule, ...] = (*ACCOUNT, *CUSTOMER, *SUPPLY, *FINANCE, *PLAUSIBILITY)

_BOOKS = RuleBook.of(Account, (*ACCOUNT, *CUSTOMER, *SUPPLY, *FINANCE)), RuleBook(PLAUSIBILITY)


def check(account: Account, now: datetime, shape_errors: Sequence[Problem] = ()) -> Sequence[Breach]:
    """Return the result of `check_in_steps` in one step. Raises TooMuchWork."""
    return finish_steps(check_in_steps(account, now, shape_errors))


def check_in_steps(
    account: Account, now: datetime, shape_errors: Sequence[Problem] = (), *, within_s: float = MAX_RULES_S
) -> Steps[Sequence[Breach]]:
    """Return every rule that the account breaks, in the order of its fields; rules of plausibility are last.

    Rules over values with a problem in `shape_errors` are skipped, since such values are stand-ins. Raises TooMuchWork
    if the check takes more than `within_s` seconds of CPU time and the answer is not full of problems by then.
    """
    breaches = list[Breach]()
    for book in _BOOKS:
        breaches += book.breaches(account, now, shape_errors, within_s=within_s)
        yield
    return breaches
