"""Each check reads the places that it declares and no others, so it also runs if others have problems."""

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from market import RULES
from market.rule import Rule, reading
from schemas.account import Account
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Watched:
    """A struct or an array, and the places below it that somebody looks at."""

    def __init__(self, value: Any, path: str, seen: set[str]) -> None:
        self._value, self._path, self._seen = value, path, seen
        seen.add(path)

    def __getattr__(self, name: str) -> Any:
        return watched(getattr(self._value, name), f"{self._path}.{name}".lstrip("."), self._seen)

    def __iter__(self) -> Iterator[Any]:
        for item in self._value:
            yield watched(item, f"{self._path}[]", self._seen)

    def __getitem__(self, index: int) -> Any:
        return watched(self._value[index], f"{self._path}[]", self._seen)

    def __len__(self) -> int:
        return len(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)


def watched(value: Any, path: str, seen: set[str]) -> Any:
    seen.add(path)
    return Watched(value, path, seen) if isinstance(value, msgspec.Struct | tuple) else value


def values_at(value: Any, at: str) -> Iterator[Any]:
    """Yield the values at a rule's place."""
    step, _, below = at.partition(".")
    if not step:
        yield value
        return
    inner = getattr(value, step.removesuffix("[]"))
    for item in (inner if step.endswith("[]") else [inner]) if inner else ():
        yield from values_at(item, below)


def doubled(value: Any) -> Any:
    """Each array with its items twice, so that they are compared."""
    if isinstance(value, dict):
        return {name: doubled(inner) for name, inner in value.items()}
    return [doubled(item) for item in (*value, *copy.deepcopy(value))] if isinstance(value, list) else value


def accounts() -> Iterator[Account]:
    """Such as let every check go to its end."""
    whole = an_account()
    iban = ("payment_instructions", 0, "bank_account", "iban")
    supply_end = ("supply_addresses", 0, "supply_points", 0, "supply_end_date")
    for account in (
        whole,
        doubled(whole),
        changed(whole, True, "unknown_occupier"),
        changed(whole, "", "billing_address1"),
        changed(whole, " ", *iban),
        changed(whole, "2030-01-01", *supply_end),
    ):
        yield read_submission(encoded(account)).account


ACCOUNTS = list(accounts())
OVER_SEVERAL = [rule for rule in RULES if rule.reads is not None]


@pytest.mark.parametrize("rule", OVER_SEVERAL, ids=lambda rule: f"{rule.code}@{rule.at}")
def test_a_rule_names_the_places_that_it_looks_at(rule: Rule) -> None:
    seen: set[str] = set()
    for account in ACCOUNTS:
        for value in values_at(account, rule.at):
            rule.holds(watched(value, "", seen), *([NOW] if rule.needs_now else []))
    last = {place for place in seen if not any(other.startswith((f"{place}.", f"{place}[")) for other in seen)}
    assert last - {""} == set(rule.holds.__dict__["reads"])


def test_all_rules_over_several_fields_name_them() -> None:
    """The others look at one value, and at all of it."""
    unnamed = {rule.at for rule in RULES if rule.reads is None}
    for at in unnamed:
        for account in ACCOUNTS:
            assert not any(isinstance(value, msgspec.Struct | tuple) for value in values_at(account, at)), at


def test_places_are_named_as_steps() -> None:
    @reading("[].ledger_code", "a[].b", "c")
    def check(value: object) -> bool:
        return bool(value)

    rule = msgspec.structs.replace(RULES[0], holds=check)
    assert rule.reads == (("[]", "ledger_code"), ("a", "[]", "b"), ("c",))
