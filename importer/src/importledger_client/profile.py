"""What is in a book, path by path: how often something is there, how long, how large, how varied, and twice."""

import array
import collections
import itertools
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from importledger_client.contract import ACCOUNT, Field, comparable, is_filled
from importledger_client.manifest import decoded

COUNTED_EXACTLY = 1000
"""Different values of a path are counted one by one up to here, then estimated to a few percent."""
TOP = 3
_POINTS = "supply_addresses[].supply_points[]."
UNIQUE = frozenset(
    {
        "external_account_number",
        "customers[].email",
        f"{_POINTS}identifier",
        f"{_POINTS}melos[].melo_number",
        f"{_POINTS}melos[].meters[].meter_number",
        "payment_instructions[].reference",
        "payment_instructions[].bank_account.iban",
        "references[].value",
        "statements[].statement_id",
        "ledgers[].current_statement_transactions[].transaction_id",
    }
)
"""Paths whose values two accounts should not share."""
_BITS = 12
_REGISTERS = 1 << _BITS
_BIAS = 0.7213 / (1 + 1.079 / _REGISTERS)


class Distinct:
    """How many different values there are: exactly while they are few, then by HyperLogLog."""

    def __init__(self) -> None:
        self._exact: set[int] | None = set()
        self._registers = bytearray(0)

    def add(self, value: str) -> None:
        seen = hash(value) & (2**64 - 1)
        if self._exact is not None:
            self._exact.add(seen)
            if len(self._exact) > COUNTED_EXACTLY:
                self._registers = bytearray(_REGISTERS)
                for known in self._exact:
                    self._estimate(known)
                self._exact = None
        else:
            self._estimate(seen)

    def _estimate(self, seen: int) -> None:
        mixed = (seen * 0x9E3779B97F4A7C15 ^ seen >> 29) & (2**64 - 1)
        place, rest = mixed & (_REGISTERS - 1), mixed >> _BITS
        rank = (64 - _BITS) - rest.bit_length() + 1
        self._registers[place] = max(self._registers[place], rank)

    @property
    def count(self) -> int:
        if self._exact is not None:
            return len(self._exact)
        estimate = _BIAS * _REGISTERS**2 / math.fsum(2.0**-rank for rank in self._registers)
        empty = self._registers.count(0)
        if estimate <= 2.5 * _REGISTERS and empty:
            estimate = _REGISTERS * math.log(_REGISTERS / empty)
        return round(estimate)

    @property
    def is_exact(self) -> bool:
        return self._exact is not None


class PathProfile:
    """One path of the payload."""

    def __init__(self, path: str, kind: str) -> None:
        self.path, self.kind = path, kind
        self.accounts = self.filled = 0
        self.shortest = self.longest = 0
        self.least: Any = None
        self.greatest: Any = None
        self.distinct = Distinct()
        self._top: collections.Counter[str] = collections.Counter()
        self._seen = array.array("q")
        self._last_account = -1
        self._in_account: set[int] = set()

    def add(self, value: Any, account: int) -> None:
        """A filled value in the account with this number."""
        text = value if isinstance(value, str) else comparable(self.kind, value)
        self.shortest = min(self.shortest, len(text)) if self.filled else len(text)
        self.longest = max(self.longest, len(text))
        self.filled += 1
        if account != self._last_account:
            self.accounts += 1
            self._last_account = account
            self._in_account.clear()
        self.distinct.add(text)
        if text in self._top or len(self._top) < COUNTED_EXACTLY:
            self._top[text] += 1
        ordered = _ordered(self.kind, text)
        if ordered is not None:
            self.least = ordered if self.least is None else min(self.least, ordered)
            self.greatest = ordered if self.greatest is None else max(self.greatest, ordered)
        if self.path in UNIQUE and (seen := hash(text)) not in self._in_account:
            self._in_account.add(seen)
            self._seen.append(seen)

    @property
    def distinct_values(self) -> int:
        """Number of different values. An estimate may be too high, so the number of values bounds it."""
        return min(self.distinct.count, self.filled)

    def top(self) -> list[tuple[str, int]]:
        """The most frequent values; none where all are different."""
        return [(text, times) for text, times in self._top.most_common(TOP) if times > 1]

    @property
    def duplicates(self) -> int:
        """Values that more than one account has; counted for paths that should be unique."""
        return sum(1 for _, same in itertools.groupby(sorted(self._seen)) if len(list(same)) > 1)


def _ordered(kind: str, text: str) -> Any:
    """What values of a kind are compared by; None where an order says nothing."""
    if kind in ("decimal", "integer"):
        try:
            return Decimal(text)
        except ArithmeticError:
            return None
    return text[:10] if kind in ("date", "moment") else None


class Profile:
    """Accounts, one after the other; memory does not grow with them, but for what should be unique."""

    def __init__(self) -> None:
        self.accounts = 0
        self.paths: dict[str, PathProfile] = {}

    def add(self, content: bytes) -> None:
        """One account. Raises NoAccount."""
        account = decoded(content)
        self.accounts += 1
        for path, kind, value in _values(account, ACCOUNT, ""):
            if path not in self.paths:
                self.paths[path] = PathProfile(path, kind)
            self.paths[path].add(value, self.accounts)


def _values(value: Mapping[str, Any], fields: Mapping[str, Field], before: str) -> Iterator[tuple[str, str, Any]]:
    for name, inner in value.items():
        field = fields.get(name)
        kind = field.kind if field is not None else "json"
        if not is_filled(inner):
            continue
        if field is not None and kind == "object" and isinstance(inner, dict):
            yield from _values(inner, field.fields, f"{before}{name}.")
        elif field is not None and kind == "list" and isinstance(inner, list):
            for item in inner:
                if isinstance(item, dict):
                    yield from _values(item, field.fields, f"{before}{name}[].")
        else:
            yield before + name, kind, inner
