"""Counts and exact sums of a book, from its source. The platform must have the same after the import.

Each path has a digest. The digest does not depend on the order of accounts, and changes with a value that is altered,
lost, or moved to another account or another place in it.
"""

import collections
import json
import struct
from collections.abc import Iterable, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec

from importledger_client.contract import ACCOUNT, EXACT, Field, comparable, exact, is_filled
from importledger_client.display import counted
from importledger_client.sources import Differs

FORMAT = "importledger-manifest/1"
COUNTS = {
    "customers": "customers",
    "supply_addresses": "supply_addresses",
    "supply_points": "supply_addresses.supply_points",
    "meters": "supply_addresses.supply_points.melos.meters",
    "registers": "supply_addresses.supply_points.melos.meters.registers",
    "readings": "supply_addresses.supply_points.melos.meters.registers.readings",
    "agreements": "supply_addresses.supply_points.agreements",
    "ledgers": "ledgers",
    "balances": "ledgers.ledger_balance",
    "transactions": "ledgers.current_statement_transactions",
    "documents": "statements",
}
"""Names of the counts, each with the path that is counted."""
SUMS = {
    "transfer_balances": "transfer_balance",
    "balances": "ledgers.ledger_balance",
    "transactions": "ledgers.current_statement_transactions.amount",
    "readings": "supply_addresses.supply_points.melos.meters.registers.readings.value",
}


def sums_filled(*sides: Mapping[str, Any]) -> list[str]:
    """Return the names of sums with at least one value: a sum of nothing is not shown as 0."""
    return [name for name, path in SUMS.items() if any(path in side.get("paths", {}) for side in sides)]


_SUMMED = {path: name for name, path in SUMS.items()}
_NO_LEDGERS: dict[str, int | Decimal] = {
    "ledgers": 0,
    "balances": 0,
    "balance_sum": Decimal(0),
    "transactions": 0,
    "transaction_sum": Decimal(0),
}
_SEPARATOR = "\x1f"
_MODULUS = 2**64
_FIRST = struct.Struct(">Q24x").unpack
"""Reads the first eight bytes of a digest as an integer."""
_NOT_COMPARED = frozenset({"import_supplier"})
"""Paths without a digest: the supplier is a member of the manifest."""

_decoder = msgspec.json.Decoder(float_hook=Decimal)


class NoAccount(Exception):
    """A line that is not an account. The message has the reason."""


class Recount:
    """Second count of the filled members of accounts by name, with Python's own JSON reader."""

    def __init__(self) -> None:
        self._members: collections.Counter[str] = collections.Counter()

    def add(self, content: bytes) -> None:
        """Add one account that Counting has accepted. Raises NoAccount."""
        try:
            account = json.loads(content.decode(), parse_int=str, parse_float=str)
        except (ValueError, RecursionError) as error:
            raise NoAccount(f"a second reader cannot read it as JSON ({error})") from None
        for name, value in (account["payload"] if isinstance(account.get("payload"), dict) else account).items():
            if value in (None, "", [], {}) or name in _NOT_COMPARED or (name == "unknown_occupier" and not value):
                continue
            is_rows = isinstance(value, list) and name in ACCOUNT and ACCOUNT[name].kind == "list"
            self._members[name] += len(value) if is_rows else 1

    def check(self, manifest: Mapping[str, Any]) -> None:
        """Raise Differs if a count differs. Names with a full stop are left out: they could be paths."""
        first = {path: of_path["count"] for path, of_path in manifest["paths"].items() if "." not in path}
        second = {name: number for name, number in self._members.items() if "." not in name}
        for name in sorted({*first, *second}):
            read, again = first.get(name, 0), second.get(name, 0)
            if read != again:
                values = counted(read, "value was", "values were")
                raise Differs(f"{name}: {values} read, and {again:,} counted. Nothing is certified.")


class Counting:
    """Counts and sums of accounts. Memory does not grow with them, except for a hash of each number."""

    def __init__(self) -> None:
        self.accounts = 0
        self.repeated = 0
        self.suppliers: set[str] = set()
        self._counts, self._digests = collections.Counter[str](), collections.Counter[str]()
        self._sums = dict.fromkeys(SUMS, Decimal(0))
        self._ledgers: dict[str, dict[str, int | Decimal]] = {}
        self._numbers: set[int] = set()

    def add(self, content: bytes) -> None:
        """Add one account as JSON, bare or wrapped with `task_params`. Raises NoAccount."""
        account = decoded(content)
        number = account.get("external_account_number")
        if not isinstance(number, str):
            raise NoAccount("it has no external_account_number")
        self.accounts += 1
        number_hash = hash(number)
        self.repeated += number_hash in self._numbers
        self._numbers.add(number_hash)
        if isinstance(supplier := account.get("import_supplier"), str):
            self.suppliers.add(supplier)
        _Walk(self._counts, self._digests, self._sums, number).object(account, ACCOUNT, "", 0, 0)
        for ledger in _objects(account.get("ledgers")):
            self._add_ledger(ledger)

    def _add_ledger(self, ledger: Mapping[str, Any]) -> None:
        of_code = self._ledgers.setdefault(str(ledger.get("ledger_code", "")), dict(_NO_LEDGERS))
        of_code["ledgers"] += 1
        if is_filled(balance := ledger.get("ledger_balance")):
            of_code["balances"] += 1
            of_code["balance_sum"] = EXACT.add(of_code["balance_sum"], _number(balance))
        for transaction in _objects(ledger.get("current_statement_transactions")):
            of_code["transactions"] += 1
            if is_filled(amount := transaction.get("amount")):
                of_code["transaction_sum"] = EXACT.add(of_code["transaction_sum"], _number(amount))

    def manifest(self, supplier: str = "") -> dict[str, Any]:
        """Return the counts and sums in the shape of the platform's totals."""
        return {
            "import_supplier": supplier,
            "accounts": self.accounts,
            **{name: self._counts[path] for name, path in COUNTS.items()},
            "sums": {name: format(value, "f") for name, value in self._sums.items()},
            "by_ledger": {
                code: {name: format(value, "f") if name.endswith("_sum") else value for name, value in ledger.items()}
                for code, ledger in sorted(self._ledgers.items())
            },
            "paths": {
                path: {"count": count, "digest": f"{self._digests[path] % _MODULUS:016x}"}
                for path, count in sorted(self._counts.items())
            },
        }


class _Walk:
    """Walk through one account, which adds its values to the paths and sums."""

    def __init__(
        self,
        counts: collections.Counter[str],
        digests: collections.Counter[str],
        sums: dict[str, Decimal],
        number: str,
    ) -> None:
        self._counts, self._digests, self._sums, self._number = counts, digests, sums, number
        self._rows: collections.Counter[str] = collections.Counter()

    def object(
        self, value: Mapping[str, Any], fields: Mapping[str, Field], before: str, ordinal: int, parent: int
    ) -> None:
        """Add the values of an object: a row, or part of one. `ordinal` and `parent` number the row and its parent."""
        prefix = f"{self._number}{_SEPARATOR}{ordinal}{_SEPARATOR}{parent}{_SEPARATOR}"
        for name, inner in value.items():
            if not is_filled(inner):
                continue
            path, field = before + name, fields.get(name)
            kind = field.kind if field is not None else "json"
            if field is not None and kind == "list" and isinstance(inner, list):
                for item in inner:
                    self._row(item, field, path, ordinal)
            elif field is not None and kind == "object" and isinstance(inner, dict):
                self.object(inner, field.fields, f"{path}.", ordinal, parent)
            elif path not in _NOT_COMPARED and (inner is not False or path != "unknown_occupier"):
                text = inner if kind == "text" and isinstance(inner, str) else comparable(kind, inner)
                self._note(path, prefix + text)
                if path in _SUMMED:
                    self._sums[_SUMMED[path]] = EXACT.add(self._sums[_SUMMED[path]], _number(inner))

    def _row(self, item: Any, field: Field, path: str, parent: int) -> None:
        self._rows[path] += 1
        ordinal = self._rows[path]
        self._note(path, f"{self._number}{_SEPARATOR}{ordinal}{_SEPARATOR}{parent}{_SEPARATOR}")
        if isinstance(item, dict):
            self.object(item, field.fields, f"{path}.", ordinal, parent)

    def _note(self, path: str, text: str) -> None:
        self._counts[path] += 1
        self._digests[path] += _FIRST(sha256(text.encode("utf-8", "surrogatepass")).digest())[0]


def decoded(content: bytes) -> dict[str, Any]:
    """Return the account of a line, with exact numbers. Raises NoAccount."""
    try:
        account = _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NoAccount(f"it is not JSON ({error})") from None
    except ArithmeticError:
        raise NoAccount("it has a number that is too large") from None
    if isinstance(account, dict) and isinstance(account.get("payload"), dict):
        account = account["payload"]
    if not isinstance(account, dict):
        raise NoAccount("it is not an object")
    return account


def _objects(value: Any) -> Iterable[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: Any) -> Decimal:
    """Return the number, or 0 for anything else: the digest of the path shows the difference."""
    try:
        return exact(value)
    except (ValueError, ArithmeticError):
        return Decimal(0)
