"""The platform's records of an account: ordinary tables in schema `platform`, derived from the payload.

A row is named by account number and ordinal (its place among the account's rows of that table, from 1) and names
its parent by the parent's ordinal. Objects inside an object become columns with the field's name before theirs.
Datetimes are stored as instants: without zone they are German market time.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, inspect

from schemas.account import Account
from schemas.base import DECIMAL_PATTERN, instant

_encode_json = msgspec.json.Encoder(decimal_format="number").encode

_TABLE_OF_FIELD = {
    "customers": "customer",
    "consents": "consent",
    "supply_addresses": "supply_address",
    "supply_points": "supply_point",
    "agreements": "agreement",
    "melos": "melo",
    "meters": "meter",
    "registers": "register",
    "readings": "reading",
    "smgw_configurations": "smgw_configuration",
    "conversion_factors": "conversion_factor",
    "electricity_meter_gateways": "electricity_meter_gateway",
    "balancing_periods": "balancing_period",
    "balancing_period_time_slices": "balancing_period_time_slice",
    "meter_operators": "meter_operator",
    "network_operators": "network_operator",
    "transmission_system_operators": "transmission_system_operator",
    "articles": "article",
    "gas_supply_point_load_profiles": "gas_load_profile",
    "electricity_supply_point_load_profiles": "electricity_load_profile",
    "references": "reference",
    "statements": "statement",
    "ledgers": "ledger",
    "current_statement_transactions": "transaction",
    "payment_instructions": "payment_instruction",
    "payment_schedules": "payment_schedule",
    "account_campaigns": "account_campaign",
    "metadata": "metadata_item",
    "notes": "note",
}


class Column(msgspec.Struct, frozen=True):
    """A column, its SQL type, and how a wire value becomes its value."""

    name: str
    sql_type: str
    get: Callable[[Any], Any]
    convert: Callable[[Any], Any] | None


class Table(msgspec.Struct, frozen=True):
    """A table, the field that its rows come from, and the tables of its rows' children."""

    name: str
    field: str
    parent: str | None
    columns: tuple[Column, ...]
    children: tuple["Table", ...]

    def all(self) -> Iterator["Table"]:
        yield self
        for child in self.children:
            yield from child.all()


def rows_of(account: Account, account_number: str, created_at: datetime) -> dict[str, list[tuple[Any, ...]]]:
    """The account's rows by table name, columns in the tables' order."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "service_account": [(account_number, created_at, *_values(ROOT, account))]
    }
    _add_children(ROOT, account, account_number, 0, rows)
    return rows


def _add_children(
    table: Table, value: Any, account_number: str, ordinal: int, rows: dict[str, list[tuple[Any, ...]]]
) -> None:
    for child in table.children:
        items = getattr(value, child.field)
        if not items:
            continue
        found = rows.setdefault(child.name, [])
        for item in items:
            number = len(found) + 1
            key = (account_number, number) if child.parent is None else (account_number, number, ordinal)
            found.append((*key, *_values(child, item)))
            if child.children:
                _add_children(child, item, account_number, number, rows)


def _values(table: Table, value: Any) -> list[Any]:
    return [c.get(value) if c.convert is None else c.convert(c.get(value)) for c in table.columns]


def _present(value: Any) -> Any:
    return None if value is UNSET else value


def _number(value: Any) -> Any:
    return None if value is UNSET or value == "" else value


def _instant(value: datetime | None) -> datetime | None:
    return instant(value) if isinstance(value, datetime) else None


def _json(value: Any) -> str | None:
    return None if value is UNSET else _encode_json(value).decode()


def _texts(value: tuple[str, ...]) -> list[str]:
    return list(value)


def _table(name: str, field: str, parent: str | None, node: inspect.StructType) -> Table:
    columns: list[Column] = []
    children: list[Table] = []
    for f in node.fields:
        kind = _without_null(f.type)
        if isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType):
            own = None if name == "service_account" else name
            children.append(_table(_TABLE_OF_FIELD[f.name], f.name, own, kind.item_type))
        elif isinstance(kind, inspect.StructType):
            columns += [_nested(f.name, inner) for inner in kind.fields]
        else:
            columns.append(_column(f.name, kind, attrgetter(f.name)))
    return Table(name, field, parent, tuple(columns), tuple(children))


def _nested(outer: str, inner: inspect.Field) -> Column:
    get_outer, get_inner = attrgetter(outer), attrgetter(inner.name)

    def get(value: Any) -> Any:
        found = get_outer(value)
        return UNSET if found is UNSET else get_inner(found)

    column = _column(f"{outer}_{inner.name}", _without_null(inner.type), get)
    return msgspec.structs.replace(column, convert=column.convert or _present)


def _column(name: str, kind: inspect.Type, get: Callable[[Any], Any]) -> Column:
    match kind:
        case inspect.StrType(pattern=pattern) if pattern == DECIMAL_PATTERN:
            return Column(name, "numeric", get, _number)
        case inspect.StrType():
            return Column(name, "text", get, None)
        case inspect.LiteralType():
            return Column(name, "text", get, _present)
        case inspect.DecimalType():
            return Column(name, "numeric", get, _number)
        case inspect.IntType():
            return Column(name, "bigint", get, _present)
        case inspect.BoolType():
            return Column(name, "boolean", get, _present)
        case inspect.DateType():
            return Column(name, "date", get, _present)
        case inspect.DateTimeType():
            return Column(name, "timestamptz", get, _instant)
        case inspect.VarTupleType():
            return Column(name, "text[]", get, _texts)
        case inspect.AnyType() | inspect.DictType():
            return Column(name, "json", get, _json)
        case _:
            raise NotImplementedError(f"no column for {name}: {kind}")


def _without_null(node: inspect.Type) -> inspect.Type:
    if isinstance(node, inspect.UnionType):
        return next(member for member in node.types if not isinstance(member, inspect.NoneType))
    return node


_root_type = inspect.type_info(Account)
assert isinstance(_root_type, inspect.StructType)
ROOT = _table("service_account", "", None, _root_type)
TABLES: tuple[Table, ...] = tuple(ROOT.all())


def table_columns(table: Table) -> list[tuple[str, str]]:
    """(name, SQL type) of every column, in the order of a row."""
    own = [(column.name, column.sql_type) for column in table.columns]
    if table is ROOT:
        return [("account_number", "text"), ("created_at", "timestamptz"), *own]
    parent = [(f"{table.parent}_ordinal", "integer")] if table.parent else []
    return [("account_number", "text"), ("ordinal", "integer"), *parent, *own]
