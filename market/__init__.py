"""The German energy market's rules: does it hold? Rows of tables, pure. `check` applies all of them to an account."""

from collections.abc import Sequence
from datetime import datetime

from market.account import ACCOUNT
from market.customer import CUSTOMER
from market.edition import edition_of, sources
from market.finance import FINANCE
from market.plausibility import PLAUSIBILITY
from market.rule import Breach, Rule, RuleBook, Severity
from market.supply import SUPPLY
from schemas.account import Account
from schemas.base import Problem
from schemas.reading.work import MAX_RULES_S
from system.steps import Steps, to_the_end

EDITION = edition_of(sources())
"""Names these rules and shapes in the events that record what they said. Workers do not judge again under the same."""

RULES: tuple[Rule, ...] = (*ACCOUNT, *CUSTOMER, *SUPPLY, *FINANCE, *PLAUSIBILITY)

_book = RuleBook.of(Account, (*ACCOUNT, *CUSTOMER, *SUPPLY, *FINANCE))
_plausibility = RuleBook(PLAUSIBILITY)


def check(
    account: Account, now: datetime, besides: Sequence[Problem] = (), *, within_s: float = MAX_RULES_S
) -> Sequence[Breach]:
    """`check_in_steps`, to the end."""
    return to_the_end(check_in_steps(account, now, besides, within_s=within_s))


def check_in_steps(
    account: Account, now: datetime, besides: Sequence[Problem] = (), *, within_s: float = MAX_RULES_S
) -> Steps[Sequence[Breach]]:
    """Every rule that the account breaks, errors and warnings, in the order of its fields; what is implausible last.

    Rules over places that are problems already are not asked: what stands there is not what the importer meant.
    Raises TooMuchWork when asking takes more processor time and the answer is not full of problems by then.
    """
    breaches = _book.breaches(account, now, besides, within_s=within_s)
    yield
    return breaches + _plausibility.breaches(account, now, besides, within_s=within_s)


__all__ = ["EDITION", "RULES", "Breach", "Rule", "Severity", "check", "check_in_steps"]
