"""Statistics of a book by payload path: numbers of values, their lengths and range, frequent values, duplicates."""

import array
import collections
import itertools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from importledger_client.contract import ACCOUNT, Field, comparable, is_filled
from importledger_client.manifest import decoded

MOST_COUNTED = 1000
"""Most different values of a path that are counted. Further values are not counted."""
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
"""Paths whose values should not occur in two accounts."""


class PathProfile:
    """Statistics of one payload path."""

    def __init__(self, path: str, kind: str) -> None:
        self.path, self.kind = path, kind
        self.accounts = self.filled = 0
        self.shortest = self.longest = 0
        self.least: Any = None
        self.greatest: Any = None
        self.distinct: collections.Counter[str] = collections.Counter()
        """Up to `MOST_COUNTED` values with their frequency."""
        self.has_more = False
        """True if there are further different values, which `distinct` does not have."""
        self._seen = array.array("q")
        self._last_account = -1
        self._in_account: set[int] = set()

    def add(self, value: Any, account: int) -> None:
        """Add a filled value of the account with this number."""
        text = value if isinstance(value, str) else comparable(self.kind, value)
        self.shortest = min(self.shortest, len(text)) if self.filled else len(text)
        self.longest = max(self.longest, len(text))
        self.filled += 1
        if account != self._last_account:
            self.accounts += 1
            self._last_account = account
            self._in_account.clear()
        if text in self.distinct or len(self.distinct) < MOST_COUNTED:
            self.distinct[text] += 1
        else:
            self.has_more = True
        ordered = _ordered(self.kind, text)
        if ordered is not None:
            self.least = ordered if self.least is None else min(self.least, ordered)
            self.greatest = ordered if self.greatest is None else max(self.greatest, ordered)
        if self.path in UNIQUE and (seen := hash(text)) not in self._in_account:
            self._in_account.add(seen)
            self._seen.append(seen)

    def top(self) -> list[tuple[str, int]]:
        """Return the most frequent values that occur more than once."""
        return [(text, times) for text, times in self.distinct.most_common(TOP) if times > 1]

    @property
    def duplicates(self) -> int:
        """Number of values that several accounts share. Counted for the paths of `UNIQUE`."""
        return sum(1 for _, same in itertools.groupby(sorted(self._seen)) if len(list(same)) > 1)


def _ordered(kind: str, text: str) -> Any:
    """Return the value for comparisons, or None for kinds without a useful order."""
    if kind in ("decimal", "integer"):
        try:
            return Decimal(text)
        except ArithmeticError:
            return None
    return text[:10] if kind in ("date", "moment") else None


class Profile:
    """Statistics of accounts. Memory grows only with the values that should be unique."""

    def __init__(self) -> None:
        self.accounts = self.bad_lines = 0
        self.paths: dict[str, PathProfile] = {}

    def add(self, content: bytes) -> None:
        """Add one account. Raises NoAccount."""
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
