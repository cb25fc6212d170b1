"""What of the tables gets into no account, although the mapping reads its column or its table.

Two rows of one account may say different names where only one is asked for; a row may belong to no account at all.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from importledger_client.tables import Row


class Lost(msgspec.Struct):
    """Of one column: in how many accounts a value was left out, and the first of them."""

    value: str
    account: str
    accounts: int = 0


class Strays(msgspec.Struct, frozen=True):
    """Of one further table: rows that belong to no account, and the number of the first."""

    rows: int
    first: int


class Losses:
    """Watches what is read of each account's rows. `values` is by column, `rows` by further table."""

    def __init__(self, spec: Mapping[str, Any], keys: Mapping[str, str], ignored: Collection[str]) -> None:
        self.values: dict[str, Lost] = {}
        self.rows: dict[str, Strays] = {}
        self._columns = sorted(
            (table, column)
            for table, column in set(columns_read(spec))
            if column not in ignored and column != keys.get(table)
        )
        self._read: set[tuple[str, str, Any]] = set()

    def read(self, table: str, column: str, value: Any) -> None:
        """This value of the present account's rows has got into the account."""
        self._read.add((table, column, value))

    def end_account(self, number: str, tables: Mapping[str, list[Row]]) -> None:
        """Note what was not read of these rows, by table, and begin the next account."""
        for table, column in self._columns:
            left_out = [
                value
                for row in tables.get(table, ())
                if (value := row.get(column)) not in (None, "") and (table, column, value) not in self._read
            ]
            if left_out:
                lost = self.values.setdefault(named(table, column), Lost(str(left_out[0]), number))
                lost.accounts += 1
        self._read.clear()

    def sentences(self) -> Iterator[tuple[str, str]]:
        """(what, a sentence about it) of all that was lost."""
        for column, lost in sorted(self.values.items()):
            yield (
                f"column {column}",
                f"in {lost.accounts:,} accounts rows have a value that gets into no account; "
                f"the first is {lost.value!r} of account {lost.account}.",
            )
        for table, strays in sorted(self.rows.items()):
            yield f"table {table}", f"{strays.rows:,} rows belong to no account; the first is row {strays.first}."


def named(table: str, column: str) -> str:
    """A column; one of a further table with the table's name."""
    return f"{table}.{column}" if table else column


def columns_read(spec: Any, table: str = "") -> Iterator[tuple[str, str]]:
    """All columns that a mapping's account reads, each with its table, "" for the main one."""
    match spec:
        case str():
            yield table, spec
        case list():
            for item in spec:
                yield from columns_read(item, table)
        case dict() if "constant" in spec:
            return
        case dict() if "column" in spec:
            yield table, str(spec["column"])
        case dict():
            of_table = str(spec.get("from", table))
            for name, inner in spec.items():
                if name != "from":
                    yield from columns_read(inner, of_table)
        case _:
            return
