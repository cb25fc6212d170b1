"""What accounts are refused for, by code and path: how often, with a sample, and how much mending some of it clears."""

import collections
import re
from collections.abc import Iterable

import msgspec

from importledger_client.answers import FieldError

Kind = tuple[str, str]
"""A code, and a path with [] for any place in a list, as runs name it."""

MOST_KINDS = 3
_INDEX = re.compile(r"\.\d+(?=\.|$)")


class Sample(msgspec.Struct, frozen=True):
    """An account with an error, and the value that is wrong."""

    number: str = ""
    value: str = ""
    detail: str = ""


def kind_of(error: FieldError) -> Kind:
    return error.code, _INDEX.sub("[]", error.attr)


class Tally:
    """Accounts by what they were refused for. An account counts once for each kind."""

    def __init__(self) -> None:
        self.accounts = 0
        self.numbers: collections.Counter[Kind] = collections.Counter()
        self.samples: dict[Kind, Sample] = {}
        self._sets: collections.Counter[frozenset[Kind]] = collections.Counter()

    def add(self, kinds: Iterable[tuple[Kind, Sample]]) -> None:
        """One account."""
        self.accounts += 1
        found = dict(kinds)
        self.numbers.update(found.keys())
        for kind, sample in found.items():
            if kind not in self.samples:
                self.samples[kind] = sample
        self._sets[frozenset(found)] += 1

    def most(self) -> list[Kind]:
        """The kinds, most accounts first."""
        return sorted(self.numbers, key=lambda kind: (-self.numbers[kind], kind))

    def clears(self, kinds: Iterable[Kind]) -> float:
        """The share of the accounts that have nothing but these, in percent."""
        wanted = frozenset(kinds)
        cleared = sum(times for found, times in self._sets.items() if found <= wanted)
        return 100 * cleared / self.accounts if self.accounts else 0.0

    def best(self, most: int = MOST_KINDS) -> list[Kind]:
        """The few kinds whose mending clears the most accounts, each added to those before it."""
        chosen: list[Kind] = []
        while len(chosen) < min(most, len(self.numbers)) and self.clears(chosen) < 100:
            rest = [kind for kind in self.most() if kind not in chosen]
            chosen.append(max(rest, key=lambda kind: (self.clears([*chosen, kind]), self.numbers[kind])))
        return chosen


def masked(value: str) -> str:
    """A value of which one sees how it is made, but not what it is: letters are x, digits 9, punctuation stays."""
    text = "".join("9" if c.isdigit() else "x" if c.isalpha() else c for c in value)
    return text if len(text) <= 40 else text[:39] + "…"
