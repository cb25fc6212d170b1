"""Numbers of accounts by error (code and path), a sample of each error, and the share of accounts that the best
corrections fix.
"""

import collections
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from importledger_client.answers import FieldError
from importledger_client.failures import decoded_or_none, shown, value_at

Kind = tuple[str, str]
"""A code, and a path with [] for each place in a list, as in the record of a run."""

MOST_KINDS = 3
"""Kinds of errors whose correction is proposed."""
_INDEX = re.compile(r"\.\d+(?=\.|$)")


class Sample(msgspec.Struct, frozen=True):
    """An account with an error, and the wrong value."""

    number: str = ""
    value: str = ""
    detail: str = ""


class Cause(NamedTuple):
    """Errors with one code: accounts with it, and the share of accounts without errors of other codes [percent]."""

    code: str
    accounts: int
    clears: float
    kinds: list[Kind]


def kind_of(error: FieldError) -> Kind:
    return error.code, _INDEX.sub("[]", error.attr)


def kinds_of(external: str | None, content: bytes, errors: Iterable[FieldError]) -> Iterator[tuple[Kind, Sample]]:
    """Yield the kinds of an account's errors, with samples whose values are masked."""
    account = decoded_or_none(content)
    for error in errors:
        value = masked(shown(value_at(account, error.attr)))
        yield kind_of(error), Sample(external or "", value, error.detail)


class ErrorCounts:
    """Accounts by kind of error. An account counts once for each kind."""

    def __init__(self) -> None:
        self.accounts = 0
        self.numbers: collections.Counter[Kind] = collections.Counter()
        self.samples: dict[Kind, Sample] = {}
        self._sets: collections.Counter[frozenset[Kind]] = collections.Counter()

    def add(self, kinds: Iterable[tuple[Kind, Sample]]) -> None:
        """Add one account."""
        self.accounts += 1
        found = dict(kinds)
        self.numbers.update(found.keys())
        for kind, sample in found.items():
            self.samples.setdefault(kind, sample)
        self._sets[frozenset(found)] += 1

    def most_frequent(self) -> list[Kind]:
        """Return the kinds of errors, the kinds with most accounts first."""
        return sorted(self.numbers, key=lambda kind: (-self.numbers[kind], kind))

    def clears(self, kinds: Iterable[Kind]) -> float:
        """Return the share of accounts whose errors are all of these kinds [percent]."""
        chosen_kinds = frozenset(kinds)
        cleared = sum(times for found, times in self._sets.items() if found <= chosen_kinds)
        return 100 * cleared / self.accounts if self.accounts else 0.0

    def causes(self) -> list[Cause]:
        """Return the errors by code, most accounts first."""
        accounts: collections.Counter[str] = collections.Counter()
        for found, times in self._sets.items():
            accounts.update(dict.fromkeys({code for code, _ in found}, times))
        paths = {code: [kind for kind in self.most_frequent() if kind[0] == code] for code in accounts}
        ordered = sorted(accounts, key=lambda code: (-accounts[code], code))
        return [Cause(code, accounts[code], self.clears(paths[code]), paths[code]) for code in ordered]

    def best(self, limit: int = MOST_KINDS) -> list[Kind]:
        """Return the few kinds of errors whose correction fixes the most accounts, chosen one after the other."""
        chosen: list[Kind] = []
        while len(chosen) < min(limit, len(self.numbers)) and self.clears(chosen) < 100:
            remaining = [kind for kind in self.most_frequent() if kind not in chosen]
            chosen.append(max(remaining, key=lambda kind: (self.clears([*chosen, kind]), self.numbers[kind])))
        return chosen


def masked(value: str) -> str:
    """Return the form of a value without its content: x for letters, 9 for digits; punctuation stays."""
    text = "".join("9" if c.isdigit() else "x" if c.isalpha() else c for c in value)
    return text if len(text) <= 40 else text[:39] + "…"
