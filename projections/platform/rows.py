"""Rows of the platform's tables in the format of COPY, so that rows of many accounts can be sent at once."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from eventstore.log.copy_format import INTEGER, NULL, text
from projections.platform.tables import ACCOUNT_TABLE, INSTANT, Column, Table, table_columns
from schemas.account import Account
from schemas.base import Wire

WrittenRows = dict[str, list[bytes]]
"""Rows in the format of COPY by table name, with columns in the order of the tables."""


class UndatedRows(msgspec.Struct, frozen=True):
    """Rows of an account whose time of creation is not known yet. The first row needs it."""

    begin: bytes
    end: bytes
    below: WrittenRows

    def at(self, created_at: datetime) -> WrittenRows:
        """Return the rows of the account with its time of creation."""
        return {ACCOUNT_TABLE.name: [self.begin + INSTANT[created_at] + self.end], **self.below}


def undated_rows_of(account: Account, account_number: str) -> UndatedRows:
    """Return the account's rows without its time of creation."""
    key = text(account_number)
    own = _values(ACCOUNT_TABLE.columns, account)
    return UndatedRows(ACCOUNT_TABLE.head + key, own, _below(ACCOUNT_TABLE, account, key))


def rows_of(account: Account, account_number: str, created_at: datetime) -> WrittenRows:
    """Return the account's rows."""
    return undated_rows_of(account, account_number).at(created_at)


def rows_under(root: Table, value: Wire, key: Sequence[bytes], at: datetime) -> WrittenRows:
    """Return the rows of a record or market object and of its children; `key` has the values of its key columns."""
    place = b"".join(key)
    own = root.head + place + INSTANT[at] + _values(root.columns, value)
    return {root.name: [own], **_below(root, value, place)}


def erased_row(account_number: str, supplier: str, external: str, erased_at: datetime) -> bytes:
    """Return the row of an erased account: its number, its keys and the time of erasure."""
    values = {
        "account_number": text(account_number),
        "import_supplier": text(supplier),
        "external_account_number": text(external),
        "erased_at": INSTANT[erased_at],
    }
    return ACCOUNT_TABLE.head + b"".join(values.get(name, NULL) for name, _ in table_columns(ACCOUNT_TABLE))


def _values(columns: Sequence[Column], value: Any) -> bytes:
    """Return the values of these columns from a wire object."""
    return b"".join([column.write(column.read(value)) for column in columns])


def _below(root: Table, value: Wire, key: bytes) -> WrittenRows:
    """Return the rows of the tables below the root, which is the table of this object."""
    rows: WrittenRows = {}

    def add(table: Table, parent: Any, parent_ordinal: bytes) -> None:
        for child in table.children:
            for item in getattr(parent, child.field) or ():
                of_table = rows.setdefault(child.name, [])
                ordinal, above = INTEGER[len(of_table) + 1], parent_ordinal if child.parent else b""
                of_table.append(child.head + key + ordinal + above + _values(child.columns, item))
                add(child, item, ordinal)

    add(root, value, b"")
    return rows
