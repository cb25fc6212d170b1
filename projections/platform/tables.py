"""Tables of accounts and of the market in the schema `platform`, derived from the shapes of payloads.

The key of a row is the account number and an ordinal (its place among the account's rows of the table, from 1); rows
refer to their parent by its ordinal. Rows of records (delivery notes, energy amounts, invoices) also have the record's
reference in their key. Market participants and price sheets belong to an organisation ("" for the operator of the
service) instead of an account. A list that the platform queries is a table; other lists are columns of their parent
(`projections.platform.json_columns`), since each row makes an import slower. Fields of inner objects become columns,
prefixed by the name of the object. Datetimes are instants: without zone they are German market time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, LiteralString

import msgspec
from msgspec import inspect

from eventstore.log.copy_format import COLUMNS
from eventstore.operations.rights import Rights
from projections.platform.json_columns import (
    FOLDED_OBJECTS,
    TABLE_OF_FIELD,
    is_free,
    list_encoding,
    object_folding,
    without_null,
)
from schemas.account import Account
from schemas.base import DECIMAL_PATTERN, Wire
from schemas.delivery_note import DeliveryNote
from schemas.energy_amount import EnergyAmount
from schemas.invoice import MarketParticipantInvoice
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import PriceSheet

REFERRING: LiteralString = """strpos(a."references"::text, '"A-') > 0"""
"""SQL condition on accounts `a` whose references may name the number of another account."""
INDEXES: dict[str, dict[str, str]] = {
    "service_account": {
        "service_account_of_import": "UNIQUE (import_supplier, external_account_number)",
        "service_account_referring": 'USING gin (("references"::jsonb) jsonb_path_ops) WHERE '
        + REFERRING.replace("a.", ""),
    },
    "supply_point": {"supply_point_identifier": "(identifier)"},
}
"""Indexes in addition to the keys, by table and name.

The second index finds accounts that refer to an account; most accounts have no entry in it. The third index finds other
accounts of a supply point.
"""
_ACCOUNT_KEY = (("account_number", "text"),)
_RECORD_KEY = (("account_number", "text"), ("reference", "text"))
_PARTICIPANT_KEY = (("organisation", "text"), ("code", "bigint"))
_PRICE_SHEET_KEY = (("organisation", "text"), ("market_participant_code", "bigint"), ("document_number", "text"))


Encoder = Callable[[Any], bytes]


class Column(msgspec.Struct, frozen=True):
    """A column, its SQL type, and the expression of its value in the format of COPY from a wire object `v`.

    The expression has a value or several values, separated by commas, and calls the `encoder` under the name
    `TABLE_COLUMN`. `steps` are the names of the field in the wire object, none for a column that payloads do not have.
    `as_json` is the template of the SQL that returns the field's JSON from the column.
    """

    name: str
    sql_type: str
    expression: str
    encoder: Encoder | None = None
    steps: tuple[str, ...] = ()
    as_json: str = "{}::text"


class Table(msgspec.Struct, frozen=True):
    """A table, its key without the ordinal, the field from which its rows are made, and the tables of its children.

    The root table, for a whole payload, has no field. Children of the root table have no column for the ordinal of
    their parent, since an account has only one row in the root table.
    """

    name: str
    key: tuple[tuple[str, str], ...]
    field: str
    parent: str | None
    columns: tuple[Column, ...]
    children: tuple["Table", ...]
    head: bytes
    """Beginning of a row in the format of COPY: the number of its columns."""

    def all(self) -> Iterator["Table"]:
        yield self
        for child in self.children:
            yield from child.all()


_CERTAIN_TEXT = "SIZE[len(x := {}.encode())], x"
"""Expression for a required text, without a function call, because half of all values are such texts."""


def _table(
    name: str,
    key: tuple[tuple[str, str], ...],
    field: str,
    parent: str | None,
    node: inspect.StructType,
    more_columns: Sequence[Column] = (),
) -> Table:
    columns: list[Column] = []
    children: list[Table] = []
    for f in node.fields:
        if not field and f.name in dict(key):
            continue
        kind = without_null(f.type)
        if isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType):
            if f.name in TABLE_OF_FIELD:
                children.append(_table(TABLE_OF_FIELD[f.name], key, f.name, name if field else None, kind.item_type))
            else:
                columns.append(_folded(name, f.name, kind.item_type))
        elif isinstance(kind, inspect.StructType) and f.name in FOLDED_OBJECTS:
            columns.append(Column(f.name, "json", f"{name}_{f.name}(v.{f.name})", object_folding(kind), (f.name,)))
            columns += [_nested(f.name, inner) for inner in kind.fields if is_free(without_null(inner.type))]
        elif isinstance(kind, inspect.StructType):
            columns += [_nested(f.name, inner) for inner in kind.fields]
        else:
            columns.append(_column((f.name,), kind, f"v.{f.name}", is_certain=kind is f.type))
    columns += more_columns
    before = len(key) + (2 if parent else 1)
    head = COLUMNS[before + len(columns)]
    return Table(name, key, field, parent, tuple(columns), tuple(children), head)


def _folded(table: str, name: str, node: inspect.StructType) -> Column:
    """Return a JSON column for a list of objects of this type."""
    return Column(name, "json", f"SIZE[len(x := {table}_{name}(v.{name} or ()))], x", list_encoding(node), (name,))


def _nested(outer: str, inner: inspect.Field) -> Column:
    """Return a column for a field of an optional inner object."""
    source = f"(UNSET if v.{outer} is UNSET else v.{outer}.{inner.name})"
    return _column((outer, inner.name), without_null(inner.type), source, is_certain=False)


def _column(steps: tuple[str, ...], kind: inspect.Type, source: str, *, is_certain: bool) -> Column:
    name = "_".join(steps)
    sql_type, form, as_json = _form_of(name, kind)
    expression = (_CERTAIN_TEXT if form == "text({})" and is_certain else form).format(source)
    return Column(name, sql_type, expression, steps=steps, as_json=as_json)


_QUOTED = "to_json({})::text"
_MOMENT = """left(to_json({} AT TIME ZONE 'UTC')::text, -1) || 'Z"'"""


def _form_of(name: str, kind: inspect.Type) -> tuple[str, str, str]:
    """Return the SQL type of a field, the template of its expression, and the template of its JSON in SQL."""
    match kind:
        case inspect.StrType(pattern=pattern) if pattern == DECIMAL_PATTERN:
            return "numeric", "NUMERIC[{}]", "to_json({}::text)::text"
        case inspect.StrType():
            return "text", "text({})", _QUOTED
        case inspect.LiteralType():
            return "text", "CHOICE[{}]", _QUOTED
        case inspect.DecimalType():
            return "numeric", "amount({})", "{}::text"
        case inspect.IntType():
            return "bigint", "BIGINT[{}]", "{}::text"
        case inspect.BoolType():
            return "boolean", "BOOLEAN[{}]", "{}::text"
        case inspect.DateType():
            return "date", "DATE[{}]", _QUOTED
        case inspect.DateTimeType():
            return "timestamptz", "INSTANT[{}]", _MOMENT
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return "text[]", "texts({})", _QUOTED
        case inspect.VarTupleType(item_type=inspect.AnyType()):
            return "json", "json({})", "{}::text"
        case inspect.AnyType() | inspect.DictType():
            return "json", "json({})", "{}::text"
        case _:
            raise NotImplementedError(f"no column for {name}: {kind}")


def sql_type_of(name: str, kind: inspect.Type) -> str:
    """Return the SQL type of a field."""
    return _form_of(name, kind)[0]


def _root(name: str, key: tuple[tuple[str, str], ...], wire_type: type[Wire], *more_columns: Column) -> Table:
    node = inspect.type_info(wire_type)
    assert isinstance(node, inspect.StructType)
    return _table(name, key, "", None, node, more_columns)


_ERASED_AT = Column("erased_at", "timestamptz", "INSTANT[None]")
"""Time of erasure. Payloads do not have it."""
ACCOUNT_TABLE = _root("service_account", _ACCOUNT_KEY, Account, _ERASED_AT)
RECORD_TABLES: dict[type[Wire], Table] = {
    DeliveryNote: _root("delivery_note", _RECORD_KEY, DeliveryNote),
    EnergyAmount: _root("energy_amount", _RECORD_KEY, EnergyAmount),
    MarketParticipantInvoice: _root("market_participant_invoice", _RECORD_KEY, MarketParticipantInvoice),
}
TABLES: tuple[Table, ...] = tuple(table for root in (ACCOUNT_TABLE, *RECORD_TABLES.values()) for table in root.all())
"""Tables of accounts and their records."""
PARTICIPANT_TABLE = _root("market_participant", _PARTICIPANT_KEY, MarketParticipant)
PRICE_SHEET_TABLE = _root("price_sheet", _PRICE_SHEET_KEY, PriceSheet)
MARKET_ROOTS = (PARTICIPANT_TABLE, PRICE_SHEET_TABLE)
MARKET_TABLES: tuple[Table, ...] = tuple(table for root in MARKET_ROOTS for table in root.all())
"""Tables whose rows belong to an organisation instead of an account."""
RIGHTS: Mapping[str, Rights] = {
    table.name: rights
    for roots, rights in (
        ([ACCOUNT_TABLE], Rights(worker="SI")),
        (RECORD_TABLES.values(), Rights(api="SID")),
        (MARKET_ROOTS, Rights(api="SID")),
    )
    for root in roots
    for table in root.all()
}
"""Rights by table. Workers write accounts; the api writes their records and market data."""


def table_columns(table: Table) -> list[tuple[str, str]]:
    """Return (name, SQL type) of each column, in the order of a row."""
    own = [(column.name, column.sql_type) for column in table.columns]
    if not table.field:
        return [*table.key, ("created_at" if table is ACCOUNT_TABLE else "recorded_at", "timestamptz"), *own]
    parent = [(f"{table.parent}_ordinal", "integer")] if table.parent else []
    return [*table.key, ("ordinal", "integer"), *parent, *own]


def primary_key(table: Table) -> list[str]:
    """Return the columns of the primary key."""
    return [name for name, _ in table.key] + (["ordinal"] if table.field else [])
