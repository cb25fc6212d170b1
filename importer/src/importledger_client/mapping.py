"""A mapping (YAML) from the columns of tables to accounts.

key: Kundennummer              # rows with the same key are one account; else the column of the account's number
dates: DD.MM.YYYY              # how dates are written
decimals: 1.234,56             # how numbers are written
empty: [NULL, "#NV"]           # words that mean "no value"; `texts` lists those that are text, such as None
tables: {anrede: {H: Herr, F: Frau}}
source: {delimiter: ";", encoding: cp1252}   # else found out; of a workbook: sheets, ignore_sheets
files:                         # further tables, joined by key
  zaehler: {path: zaehler.csv, key: Kundennummer}   # also `source`, `unmatched: ignore`, `repeated: allow`
ignore: [Bemerkung]            # columns that are meant to go nowhere, or of which one row's value is enough
account:
  external_account_number: Kundennummer                      # a column
  sales_channel: {constant: DIRECT}                          # the same for all
  customers:
  - family_name: Nachname
    title: {column: Anrede, table: anrede}                   # looked up; `default` for what is not in the table
    date_of_birth: {column: Geburtstag, format: YYYY-MM-DD}
    email: {column: E-Mail, first: by Stand}                 # where rows differ: of the row with the least Stand
  supply_addresses:
  - each: [Lieferstelle]                                     # one for each of these in the account's rows
    supply_address1: LS Straße
    supply_points:
    - from: zaehler                                          # one for each row of that table
      on: {LS-Nr: Lieferstelle}                              # whose LS-Nr is the Lieferstelle of the address
      each: [MaLo]
      identifier: MaLo
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from importledger_client.contract import ACCOUNT, Field
from importledger_client.sources import Unreadable
from importledger_client.tables.cells import NO_VALUE
from importledger_client.tables.table import TableSource
from importledger_client.values import converted, date_form, number_form

LEAF = frozenset({"column", "constant"})
_TEXTS = frozenset({"text", "texts", "json"})
"""Kinds of fields that take a cell as it is."""
SPECIAL = frozenset({"each", "from", "on"})
_ROUNDED = re.compile(r"-?[0-9][.,][0-9]+E\+[0-9]{2}\Z")
_ISO_DATE = "YYYY-MM-DD"
_OPTIONS = frozenset({"column", "table", "default", "format", "decimals", "first"})


class MappingError(Unreadable):
    """A mapping that cannot be used; the message says where and why."""


class File(msgspec.Struct, forbid_unknown_fields=True):
    """A further table."""

    path: str
    key: str
    unmatched: Literal["refuse", "ignore"] = "refuse"
    """Rows that get into no account: an error, or meant so."""
    repeated: Literal["refuse", "allow"] = "refuse"
    """Rows that several parents at one place of the mapping use: an error, or meant so."""
    source: TableSource = msgspec.field(default_factory=TableSource)


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    """A mapping as it is written."""

    account: dict[str, Any]
    key: str = ""
    dates: str = "YYYY-MM-DD"
    decimals: str = "1234.56"
    empty: list[str] = []
    """Words that mean "no value"."""
    texts: list[str] = []
    """Words such as None that are text, although they often mean "no value"."""
    tables: dict[str, dict[str, Any]] = {}
    files: dict[str, File] = {}
    ignore: list[str] = []
    source: TableSource = msgspec.field(default_factory=TableSource)

    def is_doubtful(self, cell: Any) -> bool:
        """True for a cell that may mean "no value", while the mapping leaves that open."""
        return isinstance(cell, str) and cell in NO_VALUE and cell not in self.texts

    def is_rounded(self, cell: Any) -> bool:
        """True for a text such as 5,12E+10, while the mapping leaves open that it is one."""
        return isinstance(cell, str) and _ROUNDED.match(cell) is not None and cell not in self.texts

    @property
    def keys(self) -> dict[str, str]:
        """The key column of each table, "" for the main one."""
        return {"": self.key} | {alias: file.key for alias, file in self.files.items()}


class _Texts(yaml.BaseLoader):
    """Texts only, each written where it stands: with aliases, a few lines can stand for more than any memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            place = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.YAMLError(f"it has an alias (*) in line {place.line + 1}; write out what it stands for")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, _ in node.value]
        if len(names) != len(set(map(str, names))):
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"the mapping that begins in line {line} has a name twice")
        return super().construct_mapping(node, deep)


def read_mapping(path: Path) -> Plan:
    """Raises MappingError."""
    try:
        said = yaml.load(path.read_text(encoding="utf-8"), Loader=_Texts)  # noqa: S506 - texts only
        mapping = msgspec.convert(said, Plan, strict=False)
    except OSError as error:
        raise MappingError(f"{path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise MappingError(f"{path} is no mapping: {error}{_allowed(str(error))}") from None
    mapping.key = mapping.key or column_of(mapping.account.get("external_account_number"))
    if not mapping.key:
        raise MappingError(f"{path} does not say which column is the account's number.")
    if "" in mapping.files:
        raise MappingError(f"{path} has a further table without a name.")
    for sentence in _faults(mapping):
        raise MappingError(f"{path}: {sentence}")
    for file in mapping.files.values():
        file.path = str(path.parent / file.path)
    return mapping


def _allowed(error: str) -> str:
    """The allowed names for an error about an unknown one, "" for other errors."""
    if "unknown field" not in error:
        return ""
    struct = TableSource if "source`" in error else File if "$.files" in error else Plan
    return f". The names there must be among {', '.join(struct.__struct_fields__)}."


def column_of(spec: Any) -> str:
    """The column that a field of a mapping reads, "" for none."""
    if isinstance(spec, Mapping):
        return str(spec.get("column", ""))
    return spec if isinstance(spec, str) else ""


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
            if "first" in spec:
                yield table, str(spec["first"]).removeprefix("by ")
        case dict():
            of_table = str(spec.get("from", table))
            for parent, child in joins(spec):
                yield table, parent
                yield of_table, child
            for name, inner in spec.items():
                if name not in ("from", "on"):
                    yield from columns_read(inner, of_table)
        case _:
            return


def text_columns(
    spec: Mapping[str, Any], fields: Mapping[str, Field], before: str = "", table: str = ""
) -> Iterator[tuple[str, str, str]]:
    """(table, column, path) of each field that takes a cell as text, except those with a `format`."""
    of_table = str(spec.get("from", table))
    for name, inner in spec.items():
        field = fields.get(name) or Field(name, "json", {}, False)
        for item in (inner if isinstance(inner, list) else [inner]) if name not in SPECIAL else ():
            if isinstance(item, Mapping) and not LEAF & item.keys():
                yield from text_columns(item, field.fields, f"{before}{name}.", of_table)
            elif isinstance(item, Mapping) and "format" in item:
                continue
            elif (isinstance(inner, list) or field.kind in _TEXTS) and (column := column_of(item)):
                yield of_table, column, before + name


def joins(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The columns that `on` names, as (parent's, child's)."""
    match spec.get("on"):
        case str() as column:
            return [(column, column)]
        case list() as columns:
            return [(str(column), str(column)) for column in columns]
        case dict() as columns:
            return [(str(parent), str(child)) for child, parent in columns.items()]
        case _:
            return []


def check_columns(plan: Plan, columns: Mapping[str, list[str]]) -> None:
    """Every column that a mapping reads must be in its table. Raises MappingError."""
    wanted = [*plan.keys.items(), *dict.fromkeys(columns_read(plan.account))]
    for table, column in wanted:
        if column and column not in columns[table]:
            where = f"the table {table}" if table else "the table"
            raise MappingError(f"There is no column {column} in {where}; there are {', '.join(columns[table])}.")


def _faults(plan: Plan) -> Iterator[str]:
    """Sentences about what a mapping must not say."""
    yield from _faults_of_forms(plan.dates, plan.decimals)
    yield from _faults_of(plan, plan.account, ACCOUNT, "")


def _faults_of(plan: Plan, spec: Mapping[str, Any], fields: Mapping[str, Field], before: str) -> Iterator[str]:
    if "from" in spec and spec["from"] not in plan.files:
        yield f"{before}from: {spec['from']} must be the name of a table in `files`."
    if "on" in spec and "from" not in spec:
        yield f"{before}on: must stand beside `from`."
    for name, inner in spec.items():
        path = f"{before}{name}"
        if name in SPECIAL:
            continue
        field = fields.get(name) or Field(name, "json", {}, False)
        for item in inner if isinstance(inner, list) else [inner]:
            if not isinstance(item, Mapping):
                continue
            if LEAF & item.keys():
                yield from _faults_of_leaf(plan, item, "text" if isinstance(inner, list) else field.kind, path)
                continue
            if SPECIAL & item.keys() and not isinstance(inner, list):
                yield f"{path}: each, from and on must stand in an item of a list (`- each: …`)."
            yield from _faults_of(plan, item, field.fields, f"{path}.")


def _faults_of_leaf(plan: Plan, leaf: Mapping[str, Any], kind: str, path: str) -> Iterator[str]:
    allowed = {"constant"} if "constant" in leaf else _OPTIONS
    for option in leaf.keys() - allowed:
        beside = "constant" if "constant" in leaf else f"column, which takes {', '.join(sorted(_OPTIONS - LEAF))}"
        yield f"{path}: {option} must not stand beside {beside}."
    if "table" in leaf and leaf["table"] not in plan.tables:
        yield f"{path}: {leaf['table']} must be the name of a table in `tables`."
    if kind in _TEXTS and leaf.get("format", _ISO_DATE) != _ISO_DATE:
        yield f"{path}: format must be {_ISO_DATE} for a text, which takes dates of a workbook in this form."
    if "first" in leaf and not str(leaf["first"]).startswith("by "):
        yield f"{path}: first must be written like `first: by COLUMN`."
    try:
        converted(leaf["constant"], kind) if leaf.get("constant") else None
    except (ValueError, ArithmeticError):
        yield f"{path}: the constant {leaf['constant']!r} must be written like 1234.56 or YYYY-MM-DD, as its field is."
    yield from _faults_of_forms(str(leaf.get("format", _ISO_DATE)), str(leaf.get("decimals", "1234.56")))


def _faults_of_forms(dates: str, decimals: str) -> Iterator[str]:
    try:
        date_form(dates)
    except ValueError:
        yield f"dates must be written like DD.MM.YYYY, not {dates!r}."
    try:
        number_form(decimals)
    except ValueError:
        yield f"decimals must be written like 1.234,56 or 1234.56, not {decimals!r}."
