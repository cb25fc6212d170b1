"""Read tables as a source of accounts.

Tables are counted twice, and every cell is either in an account or reported. Rows are stored on disk by their keys, so
that they may be in any order and need not fit into memory.
"""

import collections
import contextlib
import glob
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from importledger_client.answers import FieldError
from importledger_client.display import counted
from importledger_client.display import number as shown_number
from importledger_client.engine import Engine
from importledger_client.language import _, translatable
from importledger_client.mapped import Cells, Mapped, plain
from importledger_client.mapping import MappingError, Plan, check_columns, named, text_columns
from importledger_client.sources import Differs, Line, Source, Unreadable
from importledger_client.tables.reading import Recounter, Table
from importledger_client.unfinished import private_folder
from importledger_client.unused import TableUse
from importledger_client.value_list import CodeValue
from importledger_client.values import DAMAGED, NO_VALUE, ROUNDED, clean, empty_cells

T = TypeVar("T")

_encode = msgspec.json.Encoder(decimal_format="number").encode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Line).decode
_SHOWN_ROWS, _SHOWN_ACCOUNTS = 10_000, 1_000
"""Rows and accounts after which progress is shown."""
SHOWN_ACCOUNTS, _MOST_ROWS = 2, 20
"""Accounts that `map check` shows, and most rows of each of their tables."""
_SQL_TYPES = {"number": "DECIMAL(38, 10)", "day": "DATE"}
_TYPES = {
    "true or false": ("BOOLEAN",),
    "a number": ("DECIMAL", "DOUBLE", "HUGEINT", "BIGINT", "INTEGER", "SMALLINT", "TINYINT"),
}
"""Prefixes of the engine's types, by the required kind of an expression."""
_DOUBTS = {
    NO_VALUE: translatable(
        "column {column}: {place} has {text}, which may mean no value: list it in `empty` of the mapping, or in `texts`"
        " if it is text."
    ),
    ROUNDED: translatable(
        "column {column}: {place} has {text}, which Excel writes for a long number and which has lost digits: export"
        " the column as text, or list the value in `texts` of the mapping if it is text."
    ),
    DAMAGED: translatable(
        "column {column}: {place} has a text that another program has changed, such as MÃ¼ller, M?ller, Bau &amp; Boden"
        " or '0001: correct the column, also with an expression, or list the text in `texts` of the mapping."
    ),
}
_BOOLEAN = translatable(
    "column {column}: {place}, and {path} is a text: Excel may have made it of another text, such as the name Wahr."
    " Format the column as text and type its values again, or read it with a lookup `table`."
)
_DATED = translatable(
    "column {column}: {place}, and {path} is a text: Excel may have made the date of another text. Format the column as"
    " text and type its values again. If they are dates, say `{form}`."
)
_SIGNS = translatable(
    "column {column}: {place}, and {path} is a text: format the column as text and type its values again, or say what"
    " to send, such as `{form}` for the number alone."
)


class Traced(NamedTuple):
    """An account with the numbers of its rows by table, the cells of its values by path, and the cell of its key."""

    external: str
    rows: Mapping[str, list[int]]
    origins: Mapping[str, Cells]
    key: Cells

    def cells_of(self, path: str) -> Cells:
        """Return the cells of the value at a path, else those of a value below it, else beside it; at last the key."""
        return nearest(path, self.origins) or self.key


def nearest(path: str, by_path: Mapping[str, T]) -> T | None:
    """Return the value at the path of an error, else a value below it, else at or below the nearest parent, or None."""
    steps = path.removesuffix("non_field_errors").strip(".").split(".")
    while steps and steps[0]:
        at = ".".join(steps)
        below = (value for known, value in by_path.items() if known.startswith(f"{at}."))
        if (found := by_path.get(at) or next(below, None)) is not None:
            return found
        steps.pop()
    return None


class MappedSource(Source):
    """Tables as lines, one for each account, with the number of its first row.

    With `is_strict`, which `push` needs, no line is yielded if the mapping is incomplete.
    """

    def __init__(
        self, names: Sequence[str], plan: Plan, path: Path, supplier: str | None, *, is_strict: bool = False
    ) -> None:
        super().__init__(names[0])
        self.files = list(names)
        self.size = None
        self.mapping = str(path)
        self.tables: dict[str, Table] = {}
        self.mapped: Mapped | None = None
        self.doubts: list[str] = []
        """Sentences on cells and sheets that the mapping must decide on."""
        self.plan = plan
        self.first_rows: dict[int, list[str]] = {}
        """Rows of the first accounts, as text with their locations, by the number of the account's first row."""
        self._supplier, self._is_strict = supplier, is_strict
        self._accounts_read = 0
        self._nowhere: collections.Counter[str] = collections.Counter()
        """Number of rows of each table that belong to no account."""
        self._without_key: list[int] = []
        """Numbers of the rows of the main table that belong to no account."""
        self._left_out: collections.Counter[tuple[str, str]] = collections.Counter()
        """Number of cells without a value or outside of all accounts, by table and column; under the column "", rows
        that `where` leaves out.
        """

    @property
    def read(self) -> int:
        return self._accounts_read

    def columns_nowhere(self) -> list[str]:
        """Return the columns of all tables that the mapping neither reads nor ignores."""
        used = self.plan.columns | (self.mapped.joined if self.mapped else set())
        return [
            named(alias, column)
            for alias, table in self.tables.items()
            for column in table.columns
            if (alias, column) not in used and column not in self.plan.ignore
        ]

    def written(self) -> Iterator[str]:
        """Yield sentences: how each file or sheet was read, and how many rows and cells each table has."""
        for alias, table in self.tables.items():
            yield from table.written
            if self.mapped is None:  # the reader has ended early
                continue
            use = self.mapped.uses[alias]
            filled = table.filled + table.skipped
            ignored = filled - use.cells()[0]
            named_cells = ", ".join(
                f"{column or _('no name')} {shown_number(cells)}" for column, cells in sorted(ignored.items())
            )
            total = shown_number(ignored.total())
            cells = _(", {number} of them ignored: {cells}", number=total, cells=named_cells) if ignored else ""
            left_out = self._left_out[alias, ""]
            nowhere = self._nowhere[alias] + use.unread_rows + len(use.unread_shared())
            without = [_("{number} left out by `where`", number=shown_number(left_out))] if left_out else []
            without += [_("{number} in no account", number=shown_number(nowhere))] if nowhere else []
            rows = counted(table.rows_read, "row") + (f" ({', '.join(without)})" if without else "")
            yield f"{alias or table.name}: {rows}, {counted(filled.total(), 'filled cell')}{cells}"

    def open_points(self) -> list[str]:
        """Return sentences on all points that the mapping must decide before accounts are sent."""
        lost = self.mapped.unused.sentences(self._location) if self.mapped else iter(())
        unmapped = [
            _("column {column}: No field uses this column.", column=column) for column in self.columns_nowhere()
        ]
        return [*self.doubts, *unmapped, *lost]

    def _all_lines(self) -> Iterator[Line]:
        """Yield the accounts. Raises Unreadable, and Differs unless every row and cell is in an account or ignored."""
        with self._joined() as (engine, mapped, folder):
            lines = self._lines(engine, mapped)
            if self._is_strict:
                lines = self._decided(lines, folder / "lines")
            for self._accounts_read, line in enumerate(lines, 1):
                yield line

    def code_values(self) -> Iterator[CodeValue]:
        """Yield the values of all columns with a lookup table, the most frequent of each first. Raises Unreadable."""
        with self._joined() as (engine, mapped, __):
            found: dict[tuple[str, str], CodeValue] = {}
            for alias, place, name in mapped.looked_up:
                for value, rows, example in engine.values(alias, place - 2):
                    key = name, str(plain(value))
                    before = found.get(key, CodeValue(*key, 0, example))
                    found[key] = before._replace(rows=before.rows + rows)
        yield from found.values()

    def traced(self, externals: Collection[str]) -> Iterator[Traced]:
        """Yield each of these accounts with its rows, and with the cells of its values. Raises Unreadable.

        The number "" stands for all rows of the main table without a key.
        """
        number = self.plan.account["external_account_number"]
        is_key = number in (self.plan.key, {"column": self.plan.key})
        origins: dict[str, Cells] = {}
        with self._joined(origins) as (engine, mapped, __):
            for key, first, rows in engine.accounts():
                if is_key and key not in externals:
                    continue
                origins.clear()
                external = mapped.account(key, rows)[0].get("external_account_number", key)
                if external in externals:
                    numbers = {alias: [row[1] for row in found] for alias, found in rows.items()}
                    yield Traced(external, numbers, dict(origins), Cells("", first, (self.plan.key,)))
            if "" in externals:
                for row in self._without_key:
                    yield Traced("", {"": [row]}, {}, Cells("", row, (self.plan.key,)))

    def whole_tables(self) -> Mapping[str, Table]:
        """Return the tables, to read once more, by their names in the mapping; "" for the main one."""
        self._open(None)
        return self.tables

    @contextlib.contextmanager
    def _joined(self, origins: dict[str, Cells] | None = None) -> Iterator[tuple[Engine, Mapped, Path]]:
        """Yield the tables in the engine, with their rows joined to accounts and ordered."""
        with contextlib.closing(Recounter()) as recounter:
            self._open(recounter)
            self.mapped = Mapped(self.plan, self._supplier, self.tables, origins)
            with (
                private_folder("importbook-") as folder,
                contextlib.closing(Engine(folder, self.tables)) as engine,
            ):
                self._load(engine, self.mapped)
                self._order(engine, self.mapped)
                yield engine, self.mapped, folder

    def _open(self, recounter: Recounter | None) -> None:
        """Read the headers of all tables, and begin their second counts. Workbooks are loaded two at a time."""
        sources = {"": (self.files, self.plan.source)}
        sources |= {alias: (_files_at(file.path), file.source) for alias, file in self.plan.files.items()}
        columns_read = self.plan.columns
        ignored = {
            alias: [column for column in self.plan.ignore if (alias, column) not in columns_read] for alias in sources
        }

        def table_of(alias: str) -> Table:
            names, source = sources[alias]
            other_sheets = [
                sheet
                for other_alias, (other_names, other_source) in sources.items()
                if other_alias != alias
                and {Path(name).resolve() for name in other_names} & {Path(name).resolve() for name in names}
                for sheet in other_source.sheets
            ]
            return Table(names, source, ignored=ignored[alias], chosen_elsewhere=other_sheets, recounter=recounter)

        with ThreadPoolExecutor(2) as pool:
            self.tables = dict(zip(sources, pool.map(table_of, sources), strict=True))
        check_columns(self.plan, {alias: table.columns for alias, table in self.tables.items()})

    def _load(self, engine: Engine, mapped: Mapped) -> None:
        """Read all tables, count each a second time, and join their rows to accounts."""
        for alias, table in self.tables.items():
            use = mapped.uses[alias]
            kinds = dict.fromkeys(use.columns.values(), "VARCHAR")
            kinds |= {name: _SQL_TYPES.get(conversion.kind, "VARCHAR") for conversion, name in use.conversions.items()}
            engine.fill(alias, kinds, self._stored(alias, table, use))
            self.doubts += [sentence for word, sentence in table.doubts if not word or word not in self.plan.empty]
            self._check_types(engine, mapped, alias)
            self._filter(engine, mapped, alias)
            self.doubts += self._doubts_of(engine, alias, use)
        self.doubts += self._changed_texts()
        engine.join(
            {alias: mapped.uses[alias].columns.get(key, "") for alias, key in self.plan.keys.items()}, mapped.joins
        )

    def _stored(self, alias: str, table: Table, use: TableUse) -> Iterator[list[Any]]:
        """Yield the rows for the engine: number, cells without outer blanks, and converted cells."""
        empty = empty_cells(self.plan.empty, self.plan.dates, self.plan.decimals)
        emptied = [0] * len(use.columns)
        columns = [*use.columns]
        places = [table.columns.index(column) for column in columns]
        conversions = [(columns.index(conversion.column), conversion.stored) for conversion in use.conversions]
        for number, row in table.rows():
            cells = [row[place] for place in places]
            texts = [clean(cell, empty) for cell in cells]
            if texts != cells:
                for place, text in enumerate(texts):
                    emptied[place] += text is None and cells[place] is not None
            stored: list[Any] = [number, *texts]
            if number % _SHOWN_ROWS == 0:
                self.show(_("reading {file}: {rows}", file=table.name, rows=counted(number, "row")), None)
            for place, convert in conversions:
                cell, text = cells[place], texts[place]
                stored.append(None if text is None else convert(text if type(cell) is str else cell))
            yield stored
        self._left_out.update({(alias, column): cells for column, cells in zip(use.columns, emptied, strict=True)})

    def _check_types(self, engine: Engine, mapped: Mapped, alias: str) -> None:
        """Raise MappingError for a condition that is not true or false, and for a sum of texts."""
        types = engine.types(alias, mapped.uses[alias].values)
        for (table, place), (text, kind) in mapped.expected.items():
            if table == alias and not types[place - 2].startswith(_TYPES[kind]):
                raise MappingError(f"{self.mapping}: " + _("{text!r} must be {kind}.", text=text, kind=_(kind)))

    def _filter(self, engine: Engine, mapped: Mapped, alias: str) -> None:
        """Leave out the rows of a table for which `where` is not true. Raises Unreadable for an unreadable cell."""
        if alias not in mapped.filters:
            return
        use, found = mapped.uses[alias], mapped.filters[alias]
        failures = [] if found.failed is None else [use.values[found.failed - 2]]
        for number, position in filter(None, engine.first(alias, failures)):
            reader = found.readers[position]
            column = named(alias, reader.column)
            place = f"{self.tables[alias].name}, {self._location(alias, number)}"
            raise Unreadable("{place}, column {column}: the value {rule}", place=place, column=column, rule=reader.rule)
        engine.filter(alias, use.values[found.place - 2])

    def _doubts_of(self, engine: Engine, alias: str, use: TableUse) -> Iterator[str]:
        """Yield sentences on words that may mean "no value", and on rounded numbers and changed texts."""
        texts = {column for table, column, __ in text_columns(self.plan.account) if table == alias}
        checks = [
            (column, pattern) for column in use.columns for pattern in _DOUBTS if pattern is NO_VALUE or column in texts
        ]
        patterns = [(use.columns[column], pattern.pattern) for column, pattern in checks]
        for (column, pattern), found in zip(checks, engine.first_like(alias, patterns, self.plan.texts), strict=True):
            if found is not None:
                number, text = found
                place = self._location(alias, number)
                yield _(_DOUBTS[pattern], column=named(alias, column), place=place, text=text)

    def _changed_texts(self) -> Iterator[str]:
        """Yield sentences on text columns with values that Excel may have made of a text, or shows with other signs."""
        for alias, column, path in dict.fromkeys(text_columns(self.plan.account)):
            table = self.tables[alias]
            for places, sentence, form in (
                (table.booleans, _BOOLEAN, ""),
                (table.dated, _DATED, f"{{column: {column}, format: YYYY-MM-DD}}"),
                (table.signs, _SIGNS, f"{{sql: '\"{column}\"'}}"),
            ):
                if place := places.get(column):
                    yield _(sentence, column=named(alias, column), place=place, path=path, form=form)

    def _decided(self, lines: Iterator[Line], path: Path) -> Iterator[Line]:
        """Store all lines in a file, then yield them.

        Raises Differs if the mapping does not cover all parts of the tables.
        """
        with path.open("w+b") as file:
            for made, line in enumerate(lines, 1):
                if made % _SHOWN_ACCOUNTS == 0:
                    accounts = counted(self.size or 0, "account")
                    text = _("made {number} of {accounts}", number=shown_number(made), accounts=accounts)
                    self.show(text, made / (self.size or 1))
                content = _pack(line)
                file.write(len(content).to_bytes(4, "big") + content)
            if found := self.open_points():
                raise Differs("\n".join([_("Nothing was sent, since the mapping leaves something open:"), *found]))
            file.seek(0)
            while size := file.read(4):
                yield _unpack(file.read(int.from_bytes(size, "big")))

    def _order(self, engine: Engine, mapped: Mapped) -> None:
        """Order the rows of all tables by account, and record rows that are in no account or in several accounts."""
        for alias, use in mapped.uses.items():
            numbers, (__, *cells) = engine.nowhere(alias, use.columns.values())
            mapped.unused.unmatched(alias, numbers)
            self._nowhere[alias] = len(numbers)
            self._left_out.update({(alias, column): number for column, number in zip(use.columns, cells, strict=True)})
            left_out = zip(["", *use.columns], engine.left_out(alias, use.columns.values()), strict=True)
            self._left_out.update({(alias, column): number for column, number in left_out})
            if not alias:
                self._without_key = numbers
            use.shared = frozenset(engine.repeated(alias))
            for number in use.shared:
                mapped.unused.repeat(alias, number)
            engine.order(alias, use.values)
        self.size = len(self._without_key) + engine.size

    def _lines(self, engine: Engine, mapped: Mapped) -> Iterator[Line]:
        """Yield the accounts, then errors for rows of the main table without a key. Raises Differs."""
        for key, first, rows in engine.accounts():
            account, errors = mapped.account(key, rows)
            if len(self.first_rows) < SHOWN_ACCOUNTS:
                self.first_rows[first] = [*self._shown_rows(mapped, rows)]
            yield Line(first, _encode(account), tuple(errors), key)
        for number in self._without_key:
            location = self._location("", number)
            place = f"{location[0].upper()}{location[1:]}"
            sentence = _("{rows} must have a value in column {column}.", rows=place, column=self.plan.key)
            yield Line(number, b"", (FieldError("external_account_number", "required", sentence),))
        for alias, use in mapped.uses.items():
            mapped.unused.unmatched(alias, use.unread_shared())
        self._settle(mapped)

    def _shown_rows(self, mapped: Mapped, rows: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[str]:
        """Yield the location of each row of an account, and the row's cells that the mapping reads."""
        for alias, found in rows.items():
            for __, number, *values in found[:_MOST_ROWS]:
                cells = [
                    f"{column}={value}"
                    for column, value in zip(mapped.uses[alias].columns, values, strict=False)
                    if value is not None
                ]
                yield f"{alias or self.tables[alias].name}, {self._location(alias, number)}: {' · '.join(cells)}"
            if more := len(found[_MOST_ROWS:]):
                yield f"{alias or self.tables[alias].name}: {counted(more, 'more row')}"

    def _settle(self, mapped: Mapped) -> None:
        """Raise Differs unless each filled cell is in an account or named as ignored."""
        for alias, table in self.tables.items():
            use = mapped.uses[alias]
            used, unused = use.cells()
            for column in use.columns:
                ignored = unused[column] + self._left_out[alias, column]
                if table.filled[column] != used[column] + ignored:
                    filled = counted(table.filled[column], "filled cell was", "filled cells were")
                    raise Differs(
                        "{column}: {cells} counted, {used} used and {ignored} ignored. Nothing is certified.",
                        column=named(alias, column),
                        cells=filled,
                        used=shown_number(used[column]),
                        ignored=shown_number(ignored),
                    )

    def _location(self, alias: str, number: int) -> str:
        return self.tables[alias].location(number)


def _files_at(path: str) -> list[str]:
    """Return the files of a path, which may have a pattern such as `MARKTLOKATION/*.json`."""
    return sorted(glob.glob(path)) or [path]
