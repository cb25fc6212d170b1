"""Read a mapping (YAML) from columns of tables to accounts. docs/reference/mapping.md describes the language."""

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import yaml

from importledger_client.contract import ACCOUNT, Field
from importledger_client.expressions import expression
from importledger_client.language import _, translatable
from importledger_client.sources import Unreadable
from importledger_client.tables.table import TableSource
from importledger_client.value_list import read_list
from importledger_client.values import converted, date_form, number_form

_LEAF = frozenset({"column", "constant", "sql", "sum"})
_TEXTS = frozenset({"text", "texts", "json"})
"""Kinds of fields that accept any text."""
SPECIAL = frozenset({"each", "from", "on", "where", "first", "last"})
_IN_LISTS = translatable("each, from, on, where, first and last must stand in an item of a list (`- each: …`).")
_ISO_DATE = "YYYY-MM-DD"
_OPTIONS = frozenset({"table", "default", "format", "decimals", "first", "last"})
JOINING = frozenset({"from", "on", "where"})


class MappingError(Unreadable):
    """A mapping that cannot be used. The message has the path and the reason."""


class File(msgspec.Struct, forbid_unknown_fields=True):
    """Further table, in addition to the main table."""

    path: str
    key: str = ""
    """Column with the number of the account. Without it, the parts of `account` that read the table join it by `on`."""
    where: str = ""
    """Expression that selects the rows to read, "" for all rows."""
    unmatched: Literal["refuse", "ignore"] = "refuse"
    """With `refuse`, rows that are in no account are errors."""
    repeated: Literal["refuse", "allow"] = "refuse"
    """With `refuse`, rows that several parents at one node of the mapping use are errors."""
    source: TableSource = msgspec.field(default_factory=TableSource)


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    """A mapping, in the form of its file."""

    account: dict[str, Any]
    """Fields of an account, each with its column, or an object with `each`, `from` and `on` for several rows."""
    key: str = ""
    """Column whose rows with the same value are one account."""
    where: str = ""
    """Expression that selects the rows of the main table to read, "" for all rows."""
    dates: str = "YYYY-MM-DD"
    decimals: str = "1234.56"
    empty: list[str] = []
    """Words that mean "no value"."""
    texts: list[str] = []
    """Words such as None that are text, although they often mean "no value"."""
    tables: dict[str, dict[str, Any]] = {}
    """Lookup tables of values, by name."""
    values: str = ""
    """Path of a list with further entries of lookup tables, in the format of `importbook map values`."""
    files: dict[str, File] = {}
    """Further tables, by name."""
    ignore: list[str] = []
    """Columns that are not imported, or of which the value of the first row is used."""
    source: TableSource = msgspec.field(default_factory=TableSource)

    @property
    def keys(self) -> dict[str, str]:
        """The key column of each table, "" for the main table."""
        return {"": self.key} | {alias: file.key for alias, file in self.files.items()}

    @property
    def filters(self) -> dict[str, str]:
        """The expression for the rows of each table, "" for all rows."""
        return {"": self.where} | {alias: file.where for alias, file in self.files.items()}

    @property
    def columns(self) -> set[tuple[str, str]]:
        """The columns that the mapping reads, with their tables, "" for the main table."""
        return {*columns_read(self.account), *self._fixed()}

    def _fixed(self) -> Iterator[tuple[str, str]]:
        """Yield the columns of keys and filters, with their tables."""
        yield from ((alias, key) for alias, key in self.keys.items() if key)
        for alias, where in self.filters.items():
            yield from ((alias, column) for column in (expression(where).columns if where else ()))


class Node(NamedTuple):
    """Node of the mapping: a field that reads a column or constant, or an object."""

    path: str
    """Dotted path, without list indexes."""
    field: Field
    """Field of an account. A field that accounts do not have is of kind json."""
    siblings: Mapping[str, Field]
    """Fields of the node's object, {} for an object of any JSON."""
    spec: Any
    """Content of the node: a column's name, or a dict."""
    table: str
    """Table of the parent's rows, "" for the main table."""
    is_item: bool
    """True for an item of a list."""

    @property
    def is_object(self) -> bool:
        return is_object(self.spec)

    @property
    def of_table(self) -> str:
        """Table that the node reads."""
        return str(self.spec.get("from", self.table)) if isinstance(self.spec, Mapping) else self.table


def is_object(spec: Any) -> bool:
    """Return True for a part of a mapping that describes an object, False for a field with a column or constant."""
    return isinstance(spec, Mapping) and not _LEAF & spec.keys()


def nodes(
    spec: Mapping[str, Any], fields: Mapping[str, Field] = ACCOUNT, before: str = "", table: str = ""
) -> Iterator[Node]:
    """Yield all nodes of a mapping, objects before their fields. `table` is the table of the object."""
    for name, inner in spec.items():
        if name in SPECIAL:
            continue
        field = fields.get(name) or Field(name, "json", {})
        for item in inner if isinstance(inner, list) else [inner]:
            yield Node(f"{before}{name}", field, fields, item, table, isinstance(inner, list))
            if is_object(item):
                yield from nodes(item, field.fields, f"{before}{name}.", str(item.get("from", table)))


class _Texts(yaml.BaseLoader):
    """YAML as texts, without aliases: a few lines with aliases can expand to more than fits into memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.YAMLError(_("it has an alias (*) in line {line}; write out its content", line=mark.line + 1))
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, __ in node.value]
        if len(names) != len(set(map(str, names))):
            line = node.start_mark.line + 1
            raise yaml.YAMLError(_("the mapping that begins in line {line} has a name twice", line=line))
        return super().construct_mapping(node, deep)


def read_mapping(path: Path) -> Plan:
    """Read and check a mapping. Raises MappingError."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Texts)  # noqa: S506 - texts only
        plan = msgspec.convert(content, Plan, strict=False)
    except OSError as error:
        raise MappingError("{file} cannot be read: {error}.", file=path, error=_(error.strerror or "")) from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        reason = f"{error}{_allowed(str(error))}"
        raise MappingError("{file} is no mapping: {reason}", file=path, reason=reason) from None
    plan.key = plan.key or column_of(plan.account.get("external_account_number"))
    if not plan.key:
        raise MappingError("{file} must name the column of the account's number.", file=path)
    if "" in plan.files:
        raise MappingError("{file} has a further table without a name.", file=path)
    if plan.values:
        plan.values = _inside(path, plan.values, "values")
        for name, entries in read_list(Path(plan.values)).items() if Path(plan.values).exists() else ():
            plan.tables[name] = plan.tables.get(name, {}) | entries
    for sentence in _faults(plan):
        raise MappingError(f"{path}: {sentence}")
    for alias, file in plan.files.items():
        file.path = _inside(path, file.path, f"files.{alias}.path")
    return plan


def _inside(mapping: Path, name: str, place: str) -> str:
    """Return the path of a file that a mapping names.

    Raises MappingError for a file outside the mapping's folder, because a mapping from somebody else must not make its
    user read, and then send, other files.
    """
    path, folder = str(mapping.parent / name), mapping.parent.resolve()
    if not all(Path(found).resolve().is_relative_to(folder) for found in glob.glob(path) or [path]):
        sentence = _("{place} must name a file in the folder of the mapping, or below it.", place=place)
        raise MappingError(f"{mapping}: {sentence}")
    return path


def _allowed(error: str) -> str:
    """Return the allowed names for an error about an unknown name, "" for other errors."""
    if "unknown field" not in error:
        return ""
    struct = TableSource if "source`" in error else File if "$.files" in error else Plan
    return ". " + _("The names there must be among {names}.", names=", ".join(struct.__struct_fields__))


def column_of(spec: Any) -> str:
    """Return the column that a field of a mapping reads, or ""."""
    if isinstance(spec, Mapping):
        return str(spec.get("column", ""))
    return spec if isinstance(spec, str) else ""


def named(table: str, column: str) -> str:
    """Return the name of a column, with the name of its table unless this is the main table."""
    return f"{table}.{column}" if table else column


def grouping_columns(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of `each`."""
    columns = spec.get("each", ())
    return (columns,) if isinstance(columns, str) else tuple(columns)


def columns_read(account: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the columns that a mapping's account reads, each with its table, "" for the main table."""
    for node in nodes(account):
        if isinstance(node.spec, Mapping):
            for parent, child in joins(node.spec):
                yield node.table, parent
                yield node.of_table, child
        columns = grouping_columns(node.spec) if node.is_object else (column_of(node.spec),)
        yield from ((node.of_table, column) for column in (*columns, *_expressed(node.spec)) if column)


def _expressed(spec: Any) -> list[str]:
    """Return the columns in the expressions of a part of a mapping, and the columns of `first` and `last`."""
    if not isinstance(spec, Mapping):
        return []
    texts = [str(spec[option]) for option in ("sql", "sum", "where") if option in spec]
    chosen = [str(spec[option]).removeprefix("by ") for option in ("first", "last") if option in spec]
    return [*chosen, *(column for text in texts for column in expression(text).columns)]


def text_columns(account: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (table, column, path) of each field that reads a cell as text.

    Fields with a `format` are left out, and fields whose every value must have an entry in a lookup table.
    """
    for node in nodes(account):
        options = node.spec.keys() if isinstance(node.spec, Mapping) else frozenset[str]()
        if node.is_object or "format" in options or ("table" in options and "default" not in options):
            continue
        if (node.is_item or node.field.kind in _TEXTS) and (column := column_of(node.spec)):
            yield node.of_table, column, node.path


def joins(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs of columns in `on`: the parent's and the child's."""
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
    """Check that each table has the columns that the mapping reads. Raises MappingError."""
    for table, column in dict.fromkeys([*plan._fixed(), *columns_read(plan.account)]):
        if column not in columns[table]:
            where = _("the table {table}", table=table) if table else _("the table")
            others = ", ".join(columns[table])
            raise MappingError(
                "There is no column {column} in {where}; there are {others}.", column=column, where=where, others=others
            )


def _faults(plan: Plan) -> Iterator[str]:
    """Yield a sentence on each fault of a mapping."""
    yield from _faults_of_forms(plan.dates, plan.decimals)
    for alias, where in plan.filters.items():
        yield from _faults_of_expressions({"where": where} if where else {}, f"files.{alias}" if alias else "account")
    if SPECIAL & plan.account.keys():
        yield "account: " + _(_IN_LISTS)
    for node in nodes(plan.account):
        path, spec = node.path, node.spec
        if isinstance(spec, Mapping) and not node.is_object:
            yield from _faults_of_leaf(plan, spec, "text" if node.is_item else node.field.kind, path)
        if isinstance(spec, Mapping):
            if "from" in spec and spec["from"] not in plan.files:
                yield f"{path}.from: " + _("{name} must be the name of a table in `files`.", name=spec["from"])
            if "on" in spec and "from" not in spec:
                yield f"{path}.on: " + _("must stand beside `from`.")
        if node.is_object:
            if SPECIAL & spec.keys() and not node.is_item:
                yield f"{path}: " + _(_IN_LISTS)
            yield from _faults_of_expressions(spec, path)


def _faults_of_leaf(plan: Plan, leaf: Mapping[str, Any], kind: str, path: str) -> Iterator[str]:
    main = next(form for form in ("constant", "sum", "sql", "column") if form in leaf)
    allowed = {"constant": frozenset[str](), "sum": JOINING | {"default"}}.get(main, _OPTIONS | JOINING)
    for option in sorted(leaf.keys() - allowed - {main}):
        names = ", ".join(sorted(allowed)) or _("no option")
        yield f"{path}: " + _(
            "{option} must not stand beside {main}, which takes {names}.", option=option, main=main, names=names
        )
    if "table" in leaf and leaf["table"] not in plan.tables and not plan.values:
        name = leaf["table"]
        yield f"{path}: " + _(
            "{name} must be the name of a table in `tables`, or `values` must name a list.", name=name
        )
    if kind in _TEXTS and leaf.get("format", _ISO_DATE) != _ISO_DATE:
        yield f"{path}: " + _(
            "format must be {form} for a text, which takes dates of a workbook in this form.", form=_ISO_DATE
        )
    yield from _faults_of_expressions(leaf, path)
    dates, decimals = str(leaf.get("format", plan.dates)), str(leaf.get("decimals", plan.decimals))
    try:
        yield from _faults_of_forms(dates, decimals)
        converted(leaf["constant"], kind) if leaf.get("constant") else None
        converted(leaf["default"], kind, dates=dates, decimals=decimals) if leaf.get("default") else None
    except (ValueError, ArithmeticError):
        noun = "default" if "default" in leaf else "constant"
        number, day = (decimals, dates) if noun == "default" else ("1234.56", _ISO_DATE)
        yield f"{path}: " + _(
            "the {noun} {value!r} must be written like {number} or {day}, as its field is.",
            noun=noun,
            value=leaf[noun],
            number=number,
            day=day,
        )


def _faults_of_expressions(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    for option in ("sql", "sum", "where"):
        try:
            expression(str(spec[option])) if option in spec else None
        except ValueError as error:
            yield f"{path}.{option}: {error}"
    for option in ("first", "last"):
        if option in spec and not str(spec[option]).startswith("by "):
            yield f"{path}: " + _("{option} must be written like `{option}: by COLUMN`.", option=option)


def _faults_of_forms(dates: str, decimals: str) -> Iterator[str]:
    try:
        date_form(dates)
    except ValueError:
        yield _("dates must be written like DD.MM.YYYY, not {form!r}.", form=dates)
    try:
        number_form(decimals)
    except ValueError:
        yield _("decimals must be written like 1.234,56 or 1234.56, not {form!r}.", form=decimals)
