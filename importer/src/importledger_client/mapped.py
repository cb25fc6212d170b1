"""Make accounts from rows of tables, as a mapping describes. `unused` records what is in no account."""

import collections
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from importledger_client.answers import FieldError
from importledger_client.contract import ACCOUNT, Field
from importledger_client.mapping import SPECIAL, Plan, column_of, grouping_columns, is_object, joins, named
from importledger_client.tables.reading import Table
from importledger_client.unused import Numbered, UnusedCells
from importledger_client.values import converted

UNREADABLE = "UNREADABLE: "
"""Prefix of a value that does not have the form of the mapping. Without it, the service would accept some of them."""
_TEXT = Field("", "text", {})
Tables = Mapping[str, list[Numbered]]
"""Rows of one account, by further table."""


class _Rows(NamedTuple):
    """Rows of one table, "" for the main one."""

    table: str
    rows: list[Numbered]


class Mapped:
    """Makes accounts from rows. `unfit` has a sentence on the first value of each column that cannot be read."""

    def __init__(self, plan: Plan, supplier: str | None, tables: Mapping[str, Table]) -> None:
        self._plan = plan
        self._supplier = supplier
        self._tables = tables
        self.unfit: dict[str, str] = {}
        self.unused = UnusedCells(plan)
        self._errors: list[FieldError] = []
        self.joined: set[tuple[str, str]] = set()
        """Columns by which tables are joined, named by `on` or not."""
        self._joins: dict[int, list[tuple[str, str]]] = {}
        self._resolve(plan.account, "", ())
        self._used: dict[int, set[int]] = collections.defaultdict(set)

    def account(
        self, key: str, rows: list[Numbered], further_tables: Tables
    ) -> tuple[dict[str, Any], list[FieldError]]:
        """Return one account, and the errors of its values that cannot be read."""
        self._errors, self._used = [], collections.defaultdict(set)
        account = self._object(self._plan.account, ACCOUNT, _Rows("", rows), further_tables, "")
        self.unused.end_account(key, {"": rows, **further_tables})
        if self._supplier:
            account["import_supplier"] = self._supplier
        return account, self._errors

    def _resolve(self, spec: Any, table: str, shared: tuple[str, ...] | None) -> None:
        """Find the columns by which each `from` joins its parent: those of `on`, else the parent's `each` by name.

        `shared` are the columns that set the parent's rows apart: () for the account, None for single rows.
        """
        if isinstance(spec, list):
            for item in spec:
                self._resolve(item, table, shared)
        if not is_object(spec):
            return
        if "from" in spec:
            child = str(spec["from"])
            self._joins[id(spec)] = joins(spec)
            if "on" not in spec and shared and all(column in self._tables[child].columns for column in shared):
                self._joins[id(spec)] = [(column, column) for column in shared]
            self.joined |= {(child, column) for _, column in self._joins[id(spec)]}
            table, shared = child, None
        for name, inner in spec.items():
            if name not in SPECIAL:
                self._resolve(inner, table, grouping_columns(spec) or shared)

    def _object(
        self, spec: Mapping[str, Any], fields: Mapping[str, Field], rows: _Rows, further_tables: Tables, before: str
    ) -> dict[str, Any]:
        account: dict[str, Any] = {}
        for name, inner in spec.items():
            if name in SPECIAL:
                continue
            field = fields.get(name) or Field(name, "json", {})
            path = f"{before}{name}"
            if isinstance(inner, list):
                value: Any = []
                for item in inner:
                    self._add_items(value, item, field, rows, further_tables, path)
            elif is_object(inner):
                value = self._object(inner, field.fields, rows, further_tables, f"{path}.")
            else:
                value = self._value(inner, field, rows, path)
            if value not in (None, "", [], {}):
                account[name] = value
        return account

    def _add_items(
        self, items: list[Any], spec: Any, field: Field, rows: _Rows, further_tables: Tables, path: str
    ) -> None:
        """Add the objects of a list: one, or one for each group of rows."""
        if not is_object(spec):
            if (text := self._value(spec, _TEXT, rows, path)) is not None:
                items.append(text)
            return
        if "from" in spec:
            rows = self._joined(spec, rows, further_tables)
        for group in _groups(spec, rows):
            item = self._object(spec, field.fields, group, further_tables, f"{path}.{len(items)}.")
            if any(not _is_constant(spec.get(name)) for name in item):
                for column in grouping_columns(spec):
                    self.unused.read(group.table, group.rows, column)
                items.append(item)

    def _joined(self, spec: Mapping[str, Any], parent: _Rows, further_tables: Tables) -> _Rows:
        """Return the rows of a further table that belong to the parent's rows."""
        table, on = str(spec["from"]), self._joins[id(spec)]
        rows = further_tables.get(table, [])
        if on:
            ours, theirs = zip(*on, strict=True)
            expected = {_keys(row, ours) for row in parent.rows}
            rows = [row for row in rows if all(key := _keys(row, theirs)) and key in expected]
            for column in ours:
                self.unused.read(parent.table, parent.rows, column)
            for column in theirs:
                self.unused.read(table, rows, column)
        self.unused.join(table, rows, self._used[id(spec)])
        return _Rows(table, rows)

    def _value(self, spec: Any, field: Field, rows: _Rows, path: str) -> Any:
        """Return the value of a field. An unreadable value adds an error, and is marked as `UNREADABLE`."""
        if isinstance(spec, Mapping) and "constant" in spec:
            return converted(spec["constant"], field.kind) if spec["constant"] != "" else None
        options: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {}
        column = column_of(spec)
        row = self._row(rows, column, options)
        value = row.cells[column] if row is not None else None
        if "table" in options and value is not None:
            table = self._plan.tables[str(options["table"])]
            value = table.get(str(value), options.get("default", value))
        if value in (None, ""):
            value = options.get("default")
        if value in (None, ""):
            return None
        dates = str(options.get("format", self._plan.dates))
        decimals = str(options.get("decimals", self._plan.decimals))
        try:
            return converted(value, field.kind, dates=dates, decimals=decimals, field=field.name)
        except (ValueError, ArithmeticError):
            location = self._tables[rows.table].location(row.number) if row is not None else "default"
            form = {"date": dates, "moment": dates, "boolean": "ja or nein"}.get(field.kind, decimals)
            is_short = "YY" in form and "YYYY" not in form
            also = ", and a birth date must have a year of four digits" if is_short else ""
            name, rule = named(rows.table, column), f"must be written like {form}{also}."
            self.unfit.setdefault(name, f"the value {str(value)!r} in {location} {rule}")
            detail = f"{location[0].upper()}{location[1:]}, column {name}: the value {rule}"
            self._errors.append(FieldError(path, "invalid", detail))
            return f"{UNREADABLE}{value}"

    def _row(self, rows: _Rows, column: str, options: Mapping[str, Any]) -> Numbered | None:
        """Return the row whose value of a column is used, None if no row has one.

        All rows must have the same value unless `first` chooses one.
        """
        filled = [row for row in rows.rows if row.cells.get(column) is not None]
        self.unused.read(rows.table, filled, column)
        if "first" in options:
            by = str(options["first"]).removeprefix("by ")
            self.unused.read(rows.table, rows.rows, by)
            orders = [(order, row) for row in filled if (order := self._order(row, by)) is not None]
            if len({kind for (kind, _), _ in orders}) == 1:
                least = min(order for order, _ in orders)
                filled = [row for order, row in orders if order == least]
        if not filled:
            return None
        value = str(filled[0].cells[column])
        other = next((row for row in filled if str(row.cells[column]) != value), None)
        if other is not None:
            self.unused.differ(rows.table, column, other)
        return filled[0]

    def _order(self, row: Numbered, by: str) -> tuple[str, Any] | None:
        """Return (kind, value) by which a row is ordered: a moment, else a number, else text. None without a value."""
        cell = row.cells.get(by)
        if cell is None:
            return None
        for kind in ("moment", "decimal"):
            try:
                value = converted(cell, kind, dates=self._plan.dates, decimals=self._plan.decimals)
            except (ValueError, ArithmeticError):
                continue
            return kind, Decimal(value) if kind == "decimal" else value
        return "text", str(cell)


def _groups(spec: Mapping[str, Any], rows: _Rows) -> list[_Rows]:
    """Return the rows of each object: by the columns of `each`, else one by one below `from`, else all of them."""
    if each := grouping_columns(spec):
        groups: dict[tuple[str, ...], list[Numbered]] = {}
        for row in rows.rows:
            if any(key := _keys(row, each)):
                groups.setdefault(key, []).append(row)
        return [_Rows(rows.table, group) for group in groups.values()]
    return [_Rows(rows.table, [row]) for row in rows.rows] if "from" in spec else [rows]


def _keys(row: Numbered, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key_of(row.cells.get(column)) for column in columns)


def key_of(cell: Any) -> str:
    """Return a cell as a key, the same for a number and its text."""
    return "" if cell is None else str(cell)


def _is_constant(spec: Any) -> bool:
    return isinstance(spec, Mapping) and "constant" in spec
