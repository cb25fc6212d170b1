"""Make accounts from rows of tables, as described by a mapping.

`unused` records cells and rows outside of all accounts.
"""

import collections
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from importledger_client.answers import FieldError
from importledger_client.contract import ACCOUNT, EXACT, Field
from importledger_client.engine import Join, Rows
from importledger_client.expressions import expression
from importledger_client.failures import neutral
from importledger_client.language import _, translatable
from importledger_client.mapping import JOINING, SPECIAL, MappingError, Plan, grouping_columns, is_object, joins, named
from importledger_client.tables.reading import Table
from importledger_client.unused import Row, TableUse, UnusedCells
from importledger_client.values import Conversion, converted

UNREADABLE = "UNREADABLE: "
"""Prefix of a value that does not have the form of the mapping.

Without the prefix, the service would accept some wrong values.
"""
_DIGITS = re.compile(r"(?!(19|20)[0-9]{2}[-./][0-9]{2}|[0-9]{2}:[0-9]{2})[0-9.,:/' +-]*[0-9][0-9.,:/' +-]*\Z")
"""Texts that are probably days or numbers in another form than the mapping's, and in another order than as texts."""
Make = Callable[[Sequence[Row], str], Any]
"""Function that makes a value from rows of a table and the path of the parent with a full stop. None means no value."""
Choose = Callable[[Sequence[Row]], Sequence[Row]]


class Cells(NamedTuple):
    """Cells that a value comes from: the table, "" for the main one, the number of the row, and the columns."""

    table: str
    row: int
    columns: tuple[str, ...]


class _Value(NamedTuple):
    """Expression of a mapping, computed by the engine for each row."""

    place: int
    """Index in the row of the expression's value."""
    failed: int | None
    """Index in the row of a position in `readers`: the first conversion that failed, or None in rows without one.

    None if the expression has no conversions.
    """
    readers: list[Conversion]
    """Conversions of the columns that the expression reads."""


class Mapped:
    """Makes accounts from rows. `unfit` has a sentence on the first value of each column that cannot be read.

    `origins`, if given, gets the cells of each value of the account that is made, by the value's path.
    """

    def __init__(
        self, plan: Plan, supplier: str | None, tables: Mapping[str, Table], origins: dict[str, Cells] | None = None
    ) -> None:
        self._plan, self._supplier, self._tables, self._origins = plan, supplier, tables, origins
        self.unfit: dict[str, str] = {}
        self.unused = UnusedCells(plan)
        self.joins: list[Join] = []
        """Joins of the tables without a key."""
        self.joined: set[tuple[str, str]] = set()
        """Columns by which tables are joined, named by `on` or not."""
        self._joins: dict[int, list[tuple[str, str]]] = {}
        self._resolve(plan.account, "", ())
        self.uses = {alias: self._use(alias) for alias in tables}
        self.joins = [self._renamed(join) for join in self.joins]
        self.expected: dict[tuple[str, int], tuple[str, str]] = {}
        """Expressions that must be of a kind, with its name, by table and place."""
        self.looked_up: list[tuple[str, int, str]] = []
        """Table and index of looked up values, and the names of their lookup tables."""
        self._errors: list[FieldError] = []
        self._rows: Rows = {}
        self._of_account: list[dict[Any, Any]] = []
        """Caches of parts of the mapping, which are emptied after each account."""
        reads = set[str]()
        self._make = self._object(plan.account, ACCOUNT, "", reads)
        self._bit = self.uses[""].bit(reads)
        self.filters = {alias: self._condition(alias, where) for alias, where in plan.filters.items() if where}

    def account(self, key: str, rows: Rows) -> tuple[dict[str, Any], list[FieldError]]:
        """Return one account, and the errors of its values that cannot be read."""
        self._errors, self._rows = [], rows
        self.uses[""].mark(rows[""], self._bit)
        account = self._make(rows[""], "") or {}
        for alias, use in self.uses.items():
            for row, column in use.end_account(rows[alias]):
                if column is None:
                    self.unused.unmatched(alias, [row[1]])
                else:
                    self.unused.differ(alias, column, row, row[use.place(use.columns[column])])
        self.unused.end_account(key)
        for memory in self._of_account:
            memory.clear()
        if self._supplier:
            account["import_supplier"] = self._supplier
        return account, self._errors

    def _value(self, table: str, text: str, field: str = "") -> _Value:
        """Register an expression of a table with the engine. `field` is the field that it fills, if any.

        Return the indexes of its results in the engine's rows (value, position of the conversion that failed), and the
        conversions.
        """
        use, readers = self.uses[table], list[Conversion]()

        def read(column: str, kind: str, form: str) -> str:
            readers.append(self._conversion(column, kind, form, form, field))
            return use.converted(readers[-1])

        sql = expression(text).sql(use.columns.__getitem__, read)
        failed = " ".join(
            f"WHEN {use.columns[reader.column]} IS NOT NULL AND {use.converted(reader)} IS NULL THEN {number}"
            for number, reader in enumerate(readers)
        )
        return _Value(use.place(sql), use.place(f"CASE {failed} END") if failed else None, readers)

    def _condition(self, table: str, text: str) -> _Value:
        found = self._value(table, text)
        self.expected[table, found.place] = text, translatable("true or false")
        return found

    def _resolve(self, spec: Any, table: str, shared: tuple[str, ...] | None) -> None:
        """Find the columns by which each `from` joins its parent: the columns of `on`, or else the parent's `each` by
        name. `shared` are the columns that distinguish the parent's rows: () for the account, None for single rows.
        """
        if isinstance(spec, list):
            for item in spec:
                self._resolve(item, table, shared)
        if not isinstance(spec, Mapping):
            return
        if "from" in spec:
            child = str(spec["from"])
            pairs = self._joins[id(spec)] = joins(spec)
            if "on" not in spec and shared and all(column in self._tables[child].columns for column in shared):
                pairs = self._joins[id(spec)] = [(column, column) for column in shared]
            self.joined |= {(child, column) for __, column in pairs}
            if not self._plan.keys[child]:
                if not pairs:
                    raise MappingError(
                        "files.{name} must have a `key`, or each `from: {name}` must have `on`.", name=child
                    )
                self.joins.append(Join(table, child, tuple(pairs)))
            table, shared = child, None
        for name, inner in spec.items() if is_object(spec) else ():
            if name not in SPECIAL:
                self._resolve(inner, table, grouping_columns(spec) or shared)

    def _use(self, alias: str) -> TableUse:
        columns = self._plan.columns | self.joined
        always = [self._plan.keys[alias], *(expression(where).columns if (where := self._plan.filters[alias]) else ())]
        return TableUse([name for name in self._tables[alias].columns if (alias, name) in columns], always)

    def _renamed(self, join: Join) -> Join:
        ours, theirs = self.uses[join.parent].columns, self.uses[join.child].columns
        return join._replace(on=tuple((ours[parent], theirs[child]) for parent, child in join.on))

    def _object(self, spec: Mapping[str, Any], fields: Mapping[str, Field], table: str, reads: set[str]) -> Make:
        """Return the maker of an object. The columns of `table` that it reads are added to `reads`."""
        makers: list[tuple[str, Make]] = []
        for name, inner in spec.items():
            if name in SPECIAL:
                continue
            field = fields.get(name) or Field(name, "json", {})
            if isinstance(inner, list):
                make = self._list(inner, field, table, reads)
            elif is_object(inner):
                make = _below(f"{name}.", self._object(inner, field.fields, table, reads))
            else:
                make = self._field(inner, field, table, reads)
            makers.append((name, make))

        def object_of(rows: Sequence[Row], before: str) -> dict[str, Any] | None:
            made = {name: value for name, make in makers if (value := make(rows, before)) is not None}
            return made or None

        return object_of

    def _list(self, specs: list[Any], field: Field, table: str, reads: set[str]) -> Make:
        makers = [self._items(spec, field, table, reads) for spec in specs]

        def list_of(rows: Sequence[Row], before: str) -> list[Any] | None:
            made: list[Any] = []
            for make in makers:
                make(made, rows, before)
            return made or None

        return list_of

    def _items(
        self, spec: Any, field: Field, table: str, reads: set[str]
    ) -> Callable[[list[Any], Sequence[Row], str], None]:
        """Return the maker of a list's items: a single item, or an item for each group of rows."""
        if not is_object(spec):
            make_text = self._field(spec, Field(field.name, "text", {}), table, reads)

            def text_of(made: list[Any], rows: Sequence[Row], before: str) -> None:
                if (text := make_text(rows, before)) is not None:
                    made.append(text)

            return text_of
        rows_below = self._below(spec, table, reads) if "from" in spec else None
        table = str(spec.get("from", table))
        use, each, own = self.uses[table], grouping_columns(spec), set[str]()
        choose = self._choosing(spec, table, own)
        where = self._where(spec, table) if rows_below is None else None
        groups = _grouping([use.place(use.columns[column]) for column in each], is_single="from" in spec)
        make = self._object(spec, field.fields, table, own)
        bit, bit_of_each = use.bit(own), use.bit(each)
        filled = {name for name, inner in spec.items() if not (isinstance(inner, Mapping) and "constant" in inner)}

        def chosen_of(rows: Sequence[Row]) -> Sequence[Row]:
            chosen = choose(rows) if choose else rows
            if len(chosen) < len(rows):
                numbers = {row[1] for row in chosen}
                use.mark([row for row in rows if row[1] not in numbers], 1)
            return chosen

        def items_of(made: list[Any], rows: Sequence[Row], before: str) -> None:
            found = rows_below(rows) if rows_below else rows
            found = where(found) if where else found
            for group in groups(found if each else chosen_of(found)):
                chosen = chosen_of(group) if each else group
                use.mark(chosen, bit)
                item = make(chosen, f"{before}{field.name}.{len(made)}.")
                if item and not filled.isdisjoint(item):
                    use.mark(group, bit_of_each)
                    made.append(item)

        return items_of

    def _where(self, spec: Mapping[str, Any], table: str) -> Choose | None:
        if "where" not in spec:
            return None
        found = self._condition(table, str(spec["where"]))
        self.uses[table].always.update(expression(str(spec["where"])).columns)

        def where(rows: Sequence[Row]) -> Sequence[Row]:
            for row in rows if found.failed is not None else ():
                self._check_reader(found, row, table, "", "")
            return [row for row in rows if row[found.place]]

        return where

    def _below(self, spec: Mapping[str, Any], table: str, reads: set[str]) -> Choose:
        """Return a function from the parent's rows to the rows of a further table that belong to them."""
        child, on = str(spec["from"]), self._joins[id(spec)]
        ours, theirs = self.uses[table], self.uses[child]
        reads.update(column for column, _ in on)
        bit = theirs.bit([column for _, column in on])
        where = self._where(spec, child)
        index, seen = dict[Any, list[Row]](), dict[int, None]()
        self._of_account += [index, seen]
        key_of = _key_of([ours.place(ours.columns[column]) for column, _ in on])
        key_of_child = _key_of([theirs.place(theirs.columns[column]) for _, column in on])

        def below(rows: Sequence[Row]) -> Sequence[Row]:
            if not index:
                for row in where(self._rows[child]) if where else self._rows[child]:
                    if None not in (key := key_of_child(row)):
                        index.setdefault(key, []).append(row)
            keys = {key_of(row) for row in rows}
            if len(keys) == 1:
                found = index.get(*keys) or []
            else:
                found = sorted((row for key in keys for row in index.get(key, ())), key=operator.itemgetter(1))
            for row in found:
                if row[1] in seen:
                    self.unused.repeat(child, row[1])
                seen[row[1]] = None
            theirs.mark(found, bit)
            return found

        return below

    def _choosing(self, spec: Mapping[str, Any], table: str, reads: set[str]) -> Choose | None:
        """Return a function that chooses the rows with the least (`first`) or greatest (`last`) value."""
        option = next((option for option in ("first", "last") if option in spec), None)
        if option is None:
            return None
        by, use, best = str(spec[option]).removeprefix("by "), self.uses[table], min if option == "first" else max
        reads.add(by)
        conversion = self._conversion(by, "order")
        cell, place = use.place(use.columns[by]), use.place(use.converted(conversion))

        def choose(rows: Sequence[Row]) -> Sequence[Row]:
            orders = [(_order(row[place]), row) for row in rows if row[place] is not None]
            kinds = {kind for (kind, __), __ in orders}
            unordered = [
                row for (kind, __), row in orders if kind == "t" and (len(kinds) > 1 or _DIGITS.match(row[cell]))
            ]
            if len(kinds) > 1 or (unordered and len({row[cell] for __, row in orders}) > 1):
                row = (unordered or rows)[0]
                rule = _(
                    "must be written like {day} or {number}, as in all rows of the account.",
                    day=conversion.dates,
                    number=conversion.decimals,
                )
                self._refused(conversion, row[cell], row, table, "", rule)
            if len(kinds) != 1:
                return rows
            chosen = best(order for order, __ in orders)
            return [row for order, row in orders if order == chosen]

        return choose

    def _field(self, spec: Any, field: Field, table: str, reads: set[str]) -> Make:
        """Return the maker of a field."""
        options: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {"column": spec}
        if "from" in options:
            below, child, own = self._below(options, table, reads), str(options["from"]), set[str]()
            make = self._field({name: options[name] for name in options.keys() - JOINING}, field, child, own)
            use, bit = self.uses[child], self.uses[child].bit(own)

            def from_below(rows: Sequence[Row], before: str) -> Any:
                found = below(rows)
                use.mark(found, bit)
                return make(found, before)

            return from_below
        if "constant" in options:
            constant = converted(options["constant"], field.kind) if options["constant"] != "" else None
            return lambda rows, before: constant
        dates, decimals = str(options.get("format", "")), str(options.get("decimals", ""))
        conversion = self._conversion(str(options.get("column", "")), field.kind, dates, decimals, field.name)
        stored = conversion.stored(options.get("default") or None)
        default = None if stored is None else conversion.loaded(stored)
        if "sum" in options or "sql" in options:
            make = self._of_expression(options, conversion, table, reads)
        else:
            make = self._of_column(options, conversion, table, reads)
        if default is None:
            return make

        def with_default(rows: Sequence[Row], before: str) -> Any:
            value = make(rows, before)
            return default if value is None else value

        return with_default

    def _of_column(self, options: Mapping[str, Any], conversion: Conversion, table: str, reads: set[str]) -> Make:
        column, use = conversion.column, self.uses[table]
        reads.add(column)
        place = use.place(use.columns[column])
        row_of = self._choosing_one(options, column, place, table, reads)
        look_up = self._looking_up(options, conversion, place, table)
        is_text = conversion.kind in ("text", "texts") or look_up is not None
        stored = None if is_text else use.place(use.converted(conversion))

        def value(rows: Sequence[Row], before: str) -> Any:
            row = rows[0] if len(rows) == 1 else row_of(rows)
            if row is None or (text := row[place]) is None:
                return None
            if look_up is not None:
                return look_up(text, row, before)
            if stored is None:
                return text if conversion.kind == "text" else [text]
            if row[stored] is None:
                return self._unreadable(conversion, text, row, table, before)
            return conversion.loaded(row[stored])

        return self._traced(value, row_of, conversion, table, (column,))

    def _traced(
        self,
        make: Make,
        row_of: Callable[[Sequence[Row]], Row | None],
        conversion: Conversion,
        table: str,
        columns: tuple[str, ...],
    ) -> Make:
        """Return the maker of a value, which also records the cells of the value in `origins` if these are wanted."""
        if (origins := self._origins) is None:
            return make

        def traced(rows: Sequence[Row], before: str) -> Any:
            if rows:
                origins[f"{before}{conversion.field}"] = Cells(table, (row_of(rows) or rows[0])[1], columns)
            return make(rows, before)

        return traced

    def _of_expression(self, options: Mapping[str, Any], conversion: Conversion, table: str, reads: set[str]) -> Make:
        text, is_sum = str(options.get("sum") or options["sql"]), "sum" in options
        reads.update(expression(text).columns)
        found = self._value(table, text, conversion.field)
        if is_sum:
            self.expected[table, found.place] = text, translatable("a number")
        conversion = conversion._replace(column=text)
        row_of = self._choosing_one(options, text, found.place, table, reads)
        look_up = self._looking_up(options, conversion, found.place, table)

        def value(rows: Sequence[Row], before: str) -> Any:
            for each in rows if found.failed is not None else ():
                if (unreadable := self._check_reader(found, each, table, before, conversion.field)) is not None:
                    return unreadable
            chosen = rows if is_sum else [row for row in (row_of(rows),) if row]
            cells = [plain(row[found.place]) for row in chosen if row[found.place] is not None]
            if not cells:
                return None
            row = chosen[0]
            if not all(cell.is_finite() for cell in cells if isinstance(cell, Decimal)):
                return self._refused(conversion, "infinity", row, table, before, _("must not be infinite."))
            cell = functools.reduce(EXACT.add, cells) if is_sum else cells[0]
            if cell == "":
                return None
            if look_up is not None:
                return look_up(str(cell), row, before)
            return self._loaded(conversion, cell, row, table, before)

        return self._traced(value, row_of, conversion, table, tuple(expression(text).columns))

    def _choosing_one(
        self, options: Mapping[str, Any], label: str, place: int, table: str, reads: set[str]
    ) -> Callable[[Sequence[Row]], Row | None]:
        """Return a function that chooses the row whose value is used; None if no row has a value.

        All rows must have the same value unless `first` or `last` chooses a row.
        """
        choose = self._choosing(options, table, reads)

        def row_of(rows: Sequence[Row]) -> Row | None:
            filled: Sequence[Row] = [row for row in rows if row[place] is not None]
            chosen = choose(filled) if choose else filled
            if not chosen:
                return None
            other = next((row for row in chosen if row[place] != chosen[0][place]), None)
            if other is not None:
                self.unused.differ(table, label, other, other[place])
            return chosen[0]

        return row_of

    def _looking_up(
        self, options: Mapping[str, Any], conversion: Conversion, place: int, table: str
    ) -> Callable[[str, Row, str], Any] | None:
        """Return a function from a value to its replacement in the lookup table; None without a lookup table."""
        if "table" not in options:
            return None
        name = str(options["table"])
        entries, has_default = self._plan.tables.get(name, {}), "default" in options
        self.looked_up.append((table, place, name))

        def look_up(text: str, row: Row, before: str) -> Any:
            entry = entries.get(text)
            if entry is None:
                entry = entries.get(neutral(text))
            if entry is None and not has_default:
                rule = _("must have an entry in the lookup table {name}: {text!r} has none.", name=name, text=text)
                return self._refused(conversion, text, row, table, before, rule)
            return self._loaded(conversion, entry, row, table, before) if entry else None

        return look_up

    def _conversion(self, column: str, kind: str, dates: str = "", decimals: str = "", field: str = "") -> Conversion:
        return Conversion(column, kind, dates or self._plan.dates, decimals or self._plan.decimals, field)

    def _loaded(self, conversion: Conversion, cell: Any, row: Row, table: str, before: str) -> Any:
        stored = conversion.stored(cell)
        return self._unreadable(conversion, cell, row, table, before) if stored is None else conversion.loaded(stored)

    def _check_reader(self, found: _Value, row: Row, table: str, before: str, field: str) -> str | None:
        """Return the mark of an unreadable value if `number` or `day` cannot read a cell of this row."""
        assert found.failed is not None, "the expression reads a column"
        if row[found.failed] is None:
            return None
        reader, use = found.readers[row[found.failed]], self.uses[table]
        cell = row[use.place(use.columns[reader.column])]
        return self._unreadable(reader._replace(field=field), cell, row, table, before)

    def _unreadable(self, conversion: Conversion, value: Any, row: Row, table: str, before: str) -> str:
        return self._refused(conversion, value, row, table, before, conversion.rule)

    def _refused(self, conversion: Conversion, value: Any, row: Row, table: str, before: str, rule: str) -> str:
        """Add an error to the account, and return the mark of an unreadable value."""
        location, name = self._tables[table].location(row[1]), named(table, conversion.column)
        unfit = _("the value {value!r} in {place} {rule}", value=str(value), place=location, rule=rule)
        self.unfit.setdefault(name, unfit)
        place = f"{location[0].upper()}{location[1:]}"
        detail = _("{place}, column {column}: the value {rule}", place=place, column=name, rule=rule)
        self._errors.append(FieldError(f"{before}{conversion.field}", "invalid", detail))
        return f"{UNREADABLE}{value}"


def _below(name: str, make: Make) -> Make:
    return lambda rows, before: make(rows, before + name)


def _key_of(places: Sequence[int]) -> Callable[[Row], tuple[Any, ...]]:
    return lambda row: tuple([row[place] for place in places])


def _grouping(places: Sequence[int], *, is_single: bool) -> Callable[[Sequence[Row]], Iterable[Sequence[Row]]]:
    """Return a function that groups rows: by cells at given places, or each row separately, or all together."""
    if not places:
        return (lambda rows: [[row] for row in rows]) if is_single else lambda rows: [rows]
    key_of = _key_of(places)

    def groups(rows: Sequence[Row]) -> Iterable[Sequence[Row]]:
        found: dict[Any, list[Row]] = collections.defaultdict(list)
        for row in rows:
            if any(key := key_of(row)):
                found[key].append(row)
        return found.values()

    return groups


def plain(value: Any) -> Any:
    """Return a value of the engine as a cell."""
    match value:
        case float():
            return Decimal(f"{value:.15g}")
        case Decimal():
            return value.normalize(EXACT)
        case date():
            return value.isoformat()
        case _:
            return value


def _order(value: str) -> tuple[str, Any]:
    """Return (kind, value) of a text that was stored for ordering."""
    return value[0], Decimal(value[1:]) if value[0] == "d" else value[1:]
