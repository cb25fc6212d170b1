"""Counts, exact sums and digests of a book, from its source.

After the import, the platform must have the same counts, sums and digests.

Accounts are in buckets by their number. The digest of a bucket is the sum of its accounts' digests. It does not depend
on the order of accounts, but changes if a value is altered, lost, or moved to another account or another place in the
account.
"""

import collections
import json
import operator
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from importledger_client.contract import ACCOUNT, EXACT, Field, exact, is_filled, paths
from importledger_client.digest import BUCKETS, SHAPE, TABLES, digest_of, rows_of
from importledger_client.display import counted, number
from importledger_client.language import _
from importledger_client.protocol import NOT_JSON
from importledger_client.sources import Differs

FORMAT = "importledger-manifest/2"
COUNTS = {
    "customers": "customers",
    "supply_addresses": "supply_addresses",
    "supply_points": "supply_addresses.supply_points",
    "meters": "supply_addresses.supply_points.melos.meters",
    "registers": "supply_addresses.supply_points.melos.meters.registers",
    "readings": "supply_addresses.supply_points.melos.meters.registers.readings",
    "agreements": "supply_addresses.supply_points.agreements",
    "ledgers": "ledgers",
    "documents": "statements",
}
"""Names of the counts of rows, each with the path of the list."""
SHOWN_COUNTS = (*COUNTS, "balances", "transactions")
SUMS = ("transfer_balances", "balances", "transactions", "readings")
_NO_SUM = "0"
"""Sum without values."""


def sums_filled(*sides: Mapping[str, Any]) -> list[str]:
    """Return the names of sums with at least one value. A sum without values is not shown as 0."""
    return [name for name in SUMS if any(side.get("sums", {}).get(name, _NO_SUM) != _NO_SUM for side in sides)]


_NO_LEDGERS: dict[str, int | Decimal] = {
    "ledgers": 0,
    "balances": 0,
    "balance_sum": Decimal(0),
    "transactions": 0,
    "transaction_sum": Decimal(0),
}
_MODULUS = 2**64
_NOT_COUNTED = frozenset({"import_supplier"})
"""Members that are not counted, such as the supplier, which is a member of the manifest."""
_READINGS = TABLES.index(COUNTS["readings"])
_VALUE = [*dict(paths())[COUNTS["readings"]].fields].index("value")
"""Place of a reading's value among the scalars of its row."""
_MEMBERS = tuple(name for name in ACCOUNT if name not in _NOT_COUNTED)
_values_of = operator.attrgetter(*_MEMBERS)
_PLAIN = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,10})?\Z")
"""Texts of most numbers, which need no further check."""
_WRAPPED = re.compile(rb'\s*\{\s*"(payload|task_params)"\s*:')

_decoder = msgspec.json.Decoder(float_hook=Decimal)
_wrapper_type = msgspec.defstruct("Wrapper", [("payload", SHAPE), ("task_params", msgspec.Raw, msgspec.Raw())])
_decode_bare = msgspec.json.Decoder(SHAPE, float_hook=Decimal).decode
_decode_wrapped: Any = msgspec.json.Decoder(_wrapper_type, float_hook=Decimal).decode


class NoAccount(Exception):
    """A line that is not an account. The message has the reason."""


class Counting:
    """Counts, sums and digests of accounts, each of which is read twice.

    Memory grows only by a hash of each account number.
    """

    def __init__(self) -> None:
        self.accounts = 0
        self.repeated = 0
        self.suppliers: set[str] = set()
        self._counts = collections.Counter[str]()
        self._sums = dict.fromkeys(SUMS, Decimal(0))
        self._ledgers: dict[str, dict[str, int | Decimal]] = {}
        self._buckets = collections.Counter[str]()
        self._undocumented = collections.Counter[str]()
        self._members, self._lost = collections.Counter[str](), collections.Counter[str]()
        self._numbers: set[int] = set()
        self.digest = 0
        """Digest of the account that was added last."""

    def add(self, content: bytes) -> None:
        """Add an account as JSON, bare or wrapped with `task_params`. Raises NoAccount."""
        account, members = self._read(content)
        number = account.external_account_number
        if not isinstance(number, str) or not number:
            raise NoAccount(_("it has no external_account_number"))
        again = _members_again(content)
        self.accounts += 1
        number_sha256 = sha256(number.encode("utf-8", "surrogatepass"))
        hash_of_number = int.from_bytes(number_sha256.digest()[:8], "big")
        self.repeated += hash_of_number in self._numbers
        self._numbers.add(hash_of_number)
        if isinstance(supplier := account.import_supplier, str) and supplier:
            self.suppliers.add(supplier)
        self._members.update(members)
        if again != members:
            self._lost.update({name: again.get(name, 0) - members.get(name, 0) for name in {*members, *again}})
        self.digest = self._add_rows(account, content)
        self._buckets[number_sha256.hexdigest()[:3]] += self.digest

    def _read(self, content: bytes) -> tuple[Any, Mapping[str, int]]:
        """Return the account without undocumented fields, and the number of values of each of its members."""
        try:
            account = _decode_wrapped(content).payload if _WRAPPED.match(content) else _decode_bare(content)
        except (ArithmeticError, *NOT_JSON):
            fields = decoded(content)
            documented = _documented(fields, ACCOUNT, "", self._undocumented)
            try:
                account = msgspec.convert(documented, SHAPE)
            except msgspec.ValidationError:  # the service refuses such a value
                account = SHAPE(
                    external_account_number=documented.get("external_account_number"),
                    import_supplier=documented.get("import_supplier"),
                )
            return account, _members_of(fields.items())
        return account, _members_of(zip(_MEMBERS, _values_of(account), strict=True))

    def _add_rows(self, account: Any, content: bytes) -> int:
        """Add counts and sums of an account, and return its digest."""
        try:
            rows = rows_of(account)
        except (TypeError, ValueError, ArithmeticError):  # the service refuses such a value
            return int.from_bytes(sha256(content).digest()[:8], "big")
        for path, of_table in zip(TABLES, rows, strict=True):
            self._counts[path] += len(of_table)
        self._add("transfer_balances", _sum([account.transfer_balance]))
        self._add("readings", _sum([row[2][_VALUE] for row in rows[_READINGS]]))
        for ledger in account.ledgers:
            of_code = self._ledgers.setdefault(str(ledger.ledger_code), dict(_NO_LEDGERS))
            amounts = [transaction.amount for transaction in ledger.current_statement_transactions]
            of_code["ledgers"] += 1
            of_code["balances"] += is_filled(ledger.ledger_balance)
            of_code["balance_sum"] = EXACT.add(of_code["balance_sum"], _sum([ledger.ledger_balance]))
            of_code["transactions"] += len(amounts)
            of_code["transaction_sum"] = EXACT.add(of_code["transaction_sum"], _sum(amounts))
        return digest_of(rows)

    def _add(self, name: str, amount: Decimal) -> None:
        self._sums[name] = EXACT.add(self._sums[name], amount)

    def merge(self, other: "Counting") -> None:
        """Add the counts of other accounts."""
        self.accounts += other.accounts
        self.repeated += other.repeated + len(self._numbers & other._numbers)
        self._numbers |= other._numbers
        self.suppliers |= other.suppliers
        for name in ("_counts", "_buckets", "_undocumented", "_members", "_lost"):
            getattr(self, name).update(getattr(other, name))
        for name, amount in other._sums.items():
            self._add(name, amount)
        for code, ledger in other._ledgers.items():
            of_code = self._ledgers.setdefault(code, dict(_NO_LEDGERS))
            self._ledgers[code] = {name: EXACT.add(Decimal(of_code[name]), Decimal(ledger[name])) for name in ledger}

    def manifest(self, supplier: str = "") -> dict[str, Any]:
        """Return counts and sums in the shape of the platform's totals.

        Raises Differs if the second reading differs. Names with a full stop are not compared, because they could be
        paths.
        """
        for name in sorted(name for name, lost in self._lost.items() if lost and "." not in name):
            read = self._members[name]
            values, again = counted(read, "value was", "values were"), number(read + self._lost[name])
            counts = _("{counts} read, and {again} counted. Nothing is certified.", counts=values, again=again)
            raise Differs(f"{name}: {counts}")
        sums = self._sums | {"balances": _sum_of(self._ledgers, "balance_sum")}
        sums |= {"transactions": _sum_of(self._ledgers, "transaction_sum")}
        return {
            "import_supplier": supplier,
            "accounts": self.accounts,
            **{name: self._counts[path] for name, path in COUNTS.items()},
            **{name: int(_sum_of(self._ledgers, name)) for name in ("balances", "transactions")},
            "sums": {name: format(value, "f") for name, value in sums.items()},
            "by_ledger": {
                code: {name: format(value, "f") if "sum" in name else int(value) for name, value in ledger.items()}
                for code, ledger in sorted(self._ledgers.items())
            },
            "undocumented": dict(sorted(self._undocumented.items())),
            "buckets": [f"{self._buckets[bucket] % _MODULUS:016x}" for bucket in BUCKETS],
        }


def account_digest(content: bytes) -> int:
    """Return the digest of one account, as Counting adds it. Raises NoAccount."""
    counting = Counting()
    counting.add(content)
    return counting.digest


def _sum_of(ledgers: Mapping[str, Mapping[str, int | Decimal]], name: str) -> Decimal:
    total = Decimal(0)
    for ledger in ledgers.values():
        total = EXACT.add(total, Decimal(ledger[name]))
    return total


def _sum(values: Iterable[Any]) -> Decimal:
    total = Decimal(0)
    for value in values:
        if is_filled(value):
            total = EXACT.add(total, _number(value))
    return total


def _members_of(members: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """Return the number of filled values of each member of an account."""
    return {
        name: len(value) if isinstance(value, list) and name in ACCOUNT and ACCOUNT[name].kind == "list" else 1
        for name, value in members
        if is_filled(value) and name not in _NOT_COUNTED and (name != "unknown_occupier" or value)
    }


def _members_again(content: bytes) -> dict[str, int]:
    """Count the filled values of each member of an account again, with another JSON reader. Raises NoAccount."""
    try:
        account = _decode_again(content)
    except (ValueError, RecursionError) as error:
        raise NoAccount(_("a second reader cannot read it as JSON ({error})", error=error)) from None
    members = {}
    for name, value in (account["payload"] if isinstance(account.get("payload"), dict) else account).items():
        if value in (None, "", [], {}) or name in _NOT_COUNTED or (name == "unknown_occupier" and not value):
            continue
        is_rows = isinstance(value, list) and name in ACCOUNT and ACCOUNT[name].kind == "list"
        members[name] = len(value) if is_rows else 1
    return members


def _decode_again(content: bytes) -> Any:
    """Return JSON as orjson reads it, or as Python does if orjson refuses it, such as lone surrogates."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return json.loads(content.decode(), parse_int=str, parse_float=str)


def _documented(
    value: Mapping[str, Any], fields: Mapping[str, Field], before: str, undocumented: collections.Counter[str]
) -> dict[str, Any]:
    """Return an object without undocumented fields, which are counted by path, and without null that means absence."""
    documented: dict[str, Any] = {}
    for name, inner in value.items():
        field, path = fields.get(name), before + name
        if field is None:
            undocumented.update([path] if is_filled(inner) else [])
        elif inner is None and not field.is_nullable:
            continue
        elif field.fields and isinstance(inner, dict):
            documented[name] = _documented(inner, field.fields, f"{path}.", undocumented)
        elif field.fields and isinstance(inner, list):
            documented[name] = [
                _documented(item, field.fields, f"{path}.", undocumented) if isinstance(item, dict) else item
                for item in inner
            ]
        else:
            documented[name] = inner
    return documented


def decoded(content: bytes) -> dict[str, Any]:
    """Return the account of a line, with exact numbers. Raises NoAccount."""
    try:
        account = _decoder.decode(content)
    except NOT_JSON as error:
        raise NoAccount(_("it is not JSON ({error})", error=error)) from None
    except ArithmeticError:
        raise NoAccount(_("it has a number that is too large")) from None
    if isinstance(account, dict) and isinstance(account.get("payload"), dict):
        account = account["payload"]
    if not isinstance(account, dict):
        raise NoAccount(_("it is not an object"))
    return account


def _number(value: Any) -> Decimal:
    """Return the number, or 0 for any other value, whose difference the digest shows."""
    try:
        return Decimal(value) if type(value) is str and _PLAIN.match(value) else exact(value)
    except (ValueError, ArithmeticError):
        return Decimal(0)
