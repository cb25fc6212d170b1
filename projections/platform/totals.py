"""Totals of a run's accounts, computed from the rows of the platform's tables instead of payloads.

Accounts are in buckets by their external number. A bucket has the sum of the digests of its accounts, computed from
their rows (`projections.platform.content`). A source and the platform are compared bucket by bucket.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from psycopg import Connection

from eventstore.log.rows import rows_of
from projections.platform.content import EXACT, account_contents, by_index
from projections.platform.paths import MODULUS, PATH_COLUMNS
from schemas.reading.problems import MAX_PROBLEMS, truncated
from schemas.reading.work import MAX_WALK_S, Work
from schemas.sentence import Sentence

BUCKETS = tuple(f"{number:03x}" for number in range(4096))
"""Names of the buckets of accounts: the first three hexadecimal digits of the SHA-256 of the external number."""
COUNTED = {
    "customers": "customer",
    "supply_addresses": "supply_address",
    "supply_points": "supply_point",
    "meters": "meter",
    "registers": "register",
    "readings": "reading",
    "agreements": "agreement",
    "ledgers": "ledger",
    "documents": "statement",
}
"""Tables that are counted, by the name of the count."""
SUMS = ("transfer_balances", "balances", "transactions", "readings")
"""Names of the sums."""


class LedgerTotal(msgspec.Struct, frozen=True):
    """Totals of the ledgers of one code."""

    ledgers: int = 0
    balances: int = 0
    balance_sum: Decimal = Decimal(0)
    transactions: int = 0
    transaction_sum: Decimal = Decimal(0)

    def merge(self, added: "LedgerTotal") -> "LedgerTotal":
        return LedgerTotal(
            self.ledgers + added.ledgers,
            self.balances + added.balances,
            EXACT.add(self.balance_sum, added.balance_sum),
            self.transactions + added.transactions,
            EXACT.add(self.transaction_sum, added.transaction_sum),
        )

    def record(self) -> dict[str, Any]:
        return {
            name: decimal_text(value) if isinstance(value, Decimal) else value
            for name, value in msgspec.structs.asdict(self).items()
        }


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of accounts, which do not depend on the order and size of the merged portions."""

    accounts: int = 0
    erased: int = 0
    counts: dict[str, int] = {}
    """Number of rows by table."""
    sums: dict[str, Decimal] = {}
    """Sums of columns by name, without sums of no values. Sums of ledgers are in `ledgers`."""
    ledgers: dict[str, LedgerTotal] = {}
    """By ledger code."""
    buckets: dict[str, int] = {}
    """Sum of the digests of the accounts in a bucket."""

    def merge(self, added: "Totals") -> "Totals":
        """Return the sum of two totals."""
        return Totals(
            accounts=self.accounts + added.accounts,
            erased=self.erased + added.erased,
            counts=_merged(self.counts, added.counts, int.__add__),
            sums=_merged(self.sums, added.sums, EXACT.add),
            ledgers=_merged(self.ledgers, added.ledgers, LedgerTotal.merge),
            buckets=_merged(self.buckets, added.buckets, lambda first, second: (first + second) % MODULUS),
        )

    def record(self) -> dict[str, Any]:
        """Return the totals as JSON, with counts as integers and sums as text."""
        ledgers = reduce(LedgerTotal.merge, self.ledgers.values(), LedgerTotal())
        sums = dict(self.sums)
        if ledgers.balances:
            sums["balances"] = ledgers.balance_sum
        if ledgers.transactions:
            sums["transactions"] = ledgers.transaction_sum
        buckets = [f"{self.buckets.get(bucket, 0):016x}" for bucket in BUCKETS]
        return {
            "accounts": self.accounts,
            **{name: self.counts.get(table, 0) for name, table in COUNTED.items()},
            "balances": ledgers.balances,
            "transactions": ledgers.transactions,
            "sums": {name: decimal_text(sums.get(name)) for name in SUMS},
            "by_ledger": {code: ledger.record() for code, ledger in sorted(self.ledgers.items())},
            "paths": {
                path: {"count": number, "digest": "", "stored": f"platform.{table}"}
                for table, path in sorted(_PATHS.items())
                if (number := self.counts.get(table, 0))
            },
            "buckets": buckets,
            "digest": sha256("".join(buckets).encode()).hexdigest(),
            "erased": self.erased,
        }


_PATHS = {column.source: column.path for column in PATH_COLUMNS if not column.expression}
"""Paths of lists by their table.

Only lists are counted, since accounts are compared by digests, not by sums over paths.
"""
T = TypeVar("T")


def _merged(first: Mapping[str, T], added: Mapping[str, T], both: Callable[[T, T], T]) -> dict[str, T]:
    return {**first, **{name: both(first[name], value) if name in first else value for name, value in added.items()}}


def decimal_text(value: Decimal | None) -> str:
    """Return the number without exponent, in its scale; "0" for None."""
    return "0" if value is None else format(value, "f")


def unequal_totals(
    manifest: Mapping[str, Any], totals: Mapping[str, Any], *, drops_unknown: bool
) -> Iterator[tuple[tuple[str, ...], Sentence]]:
    """Yield (steps of the path, sentence) for each difference between a source and the platform.

    An undocumented field of the source differs, unless the supplier's setting drops such fields. Only the first
    sentences contain values, as many as an answer lists. Raises TooMuchWork.
    """
    work, number = Work(MAX_WALK_S), 0
    for steps, source, platform in _compared(manifest, totals, drops_unknown):
        work.check_time()
        if source != platform:
            number += 1
            yield steps, _differ(_text_of(source), _text_of(platform)) if number <= MAX_PROBLEMS else _ALSO
    for name, sentence in UNUSED_CONTENT.items():
        if isinstance(unused := manifest.get(name), list):
            for number in range(len(unused)):
                yield (name, str(number)), sentence


def _compared(
    manifest: Mapping[str, Any], totals: Mapping[str, Any], drops_unknown: bool
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield (steps of the path, value of the source, value of the platform) for everything that is compared.

    Each undocumented field of the source is compared with None, unless the supplier drops undocumented fields
    (`drops_unknown`).
    """
    for name in ("accounts", *COUNTED, "balances", "transactions"):
        yield (name,), manifest.get(name), totals[name]
    for name in SUMS:
        yield ("sums", name), _dict(manifest, "sums").get(name), totals["sums"][name]
    ledgers, stored = _dict(manifest, "by_ledger"), totals["by_ledger"]
    for code in sorted({*ledgers, *stored}):
        for name in _LEDGER_NAMES:
            yield ("by_ledger", code, name), _dict(ledgers, code).get(name), stored.get(code, {}).get(name)
    for path, number in () if drops_unknown else sorted(_dict(manifest, "undocumented").items()):
        yield ("undocumented", *path.split(".")), number, None
    buckets, stored_buckets = manifest.get("buckets"), totals["buckets"]
    if not isinstance(buckets, list) or len(buckets) != len(stored_buckets):
        yield ("buckets",), None, len(stored_buckets)
        return
    for bucket, source, platform in zip(BUCKETS, buckets, stored_buckets, strict=True):
        yield ("buckets", bucket), source, platform


_LEDGER_NAMES = LedgerTotal.__struct_fields__
UNUSED_CONTENT = {
    "columns_nowhere": Sentence(
        "A column of the source is in no account, and its mapping does not ignore it.",
        "Eine Spalte des Altsystems steht in keinem Konto, und die Zuordnung lässt sie nicht ausdrücklich weg.",
    ),
    "values_nowhere": Sentence(
        "Rows of one account differ in a column of which it has one value.",
        "Zeilen eines Kontos unterscheiden sich in einer Spalte, von der es nur einen Wert hat.",
    ),
    "rows_nowhere": Sentence(
        "Rows of a table of the source belong to no account.",
        "Zeilen einer Tabelle des Altsystems gehören zu keinem Konto.",
    ),
}
"""Members of a manifest that list content of the source outside of accounts, with their sentences."""
COMMON = (*("import_supplier", "accounts", *COUNTED, "balances", "transactions"), "sums", "by_ledger", "buckets")
"""Members that manifests and totals have in common."""


def _differ(source: str, platform: str) -> Sentence:
    return Sentence(
        "Source and platform must have the same value: {source} in the source, {platform} in the platform.",
        "Altsystem und Plattform müssen denselben Wert haben: {source} im Altsystem, {platform} in der Plattform.",
        source=source,
        platform=platform,
    )


_ALSO = Sentence("Source and platform differ here as well.", "Altsystem und Plattform weichen auch hier ab.")
_MAX_VALUE = 200
"""Most characters of a value in a sentence. Longer values are cut."""


def _text_of(value: Any) -> str:
    if value is None:
        return Sentence("nothing", "nichts")
    return truncated(value if isinstance(value, str) else msgspec.json.encode(value).decode(), _MAX_VALUE)


def _dict(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def bucket_of(external: str) -> str:
    """Return the bucket of an account."""
    return sha256(external.encode()).hexdigest()[:3]


def account_totals(connection: Connection[Any], accounts: Sequence[tuple[str, str]]) -> Totals:
    """Return the totals of these accounts, given as (account number, external number)."""
    numbers = [number for number, _ in accounts]
    contents = account_contents(connection, numbers)
    buckets = Counter[str]()
    for number, external in accounts:
        buckets[bucket_of(external)] += contents.digests.get(number) or 0
    with by_index(connection):
        ledgers = rows_of(connection, _SELECT_LEDGERS, numbers=numbers)
    erased = [*contents.digests.values()].count(None)
    return Totals(
        accounts=len(contents.digests) - erased,
        erased=erased,
        counts=dict(contents.rows),
        sums=dict(contents.sums),
        ledgers={code: LedgerTotal(*totals) for code, *totals in ledgers},
        buckets={bucket: total % MODULUS for bucket, total in buckets.items()},
    )


_SELECT_LEDGERS = b"""
SELECT l.ledger_code, count(*), count(l.ledger_balance), coalesce(sum(l.ledger_balance), 0),
       coalesce(sum(t.number), 0)::bigint, coalesce(sum(t.amount), 0)
FROM platform.ledger AS l, LATERAL (
    SELECT count(*) AS number, sum(nullif(v ->> 'amount', '')::numeric) AS amount
    FROM json_array_elements(l.current_statement_transactions) AS v
) AS t
WHERE l.account_number = ANY(%(numbers)s)
GROUP BY l.ledger_code
"""
