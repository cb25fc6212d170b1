"""A mapping (YAML) from the columns of tables to accounts.

key: Kundennummer              # rows with the same key are one account; else the column of the account's number
dates: DD.MM.YYYY              # how dates are written
decimals: 1.234,56             # how numbers are written
tables: {anrede: {H: Herr, F: Frau}}
files:                         # further tables, joined by key
  zaehler: {path: zaehler.csv, key: Kundennummer}   # `unmatched: ignore` for rows that belong to no account
ignore: [Bemerkung]            # columns that are meant to go nowhere, or of which one row's value is enough
account:
  external_account_number: Kundennummer                      # a column
  sales_channel: {constant: DIRECT}                          # the same for all
  customers:
  - family_name: Nachname
    title: {column: Anrede, table: anrede}                   # looked up; `default` for what is not in the table
    date_of_birth: {column: Geburtstag, format: YYYY-MM-DD}
  supply_addresses:
  - each: [Lieferstelle]                                     # one for each of these in the account's rows
    supply_address1: LS Straße
    supply_points:
    - from: zaehler                                          # one for each row of that table
      each: [MaLo]
      identifier: MaLo
"""

import itertools
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import yaml

from importledger_client.answers import FieldError
from importledger_client.contract import ACCOUNT, Field
from importledger_client.losses import Losses, Strays
from importledger_client.sources import Line, Source, Unreadable
from importledger_client.tables import Dialect, Row, rows_of

_TOKENS = (("YYYY", "%Y"), ("YY", "%y"), ("DD", "%d"), ("MM", "%m"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))
_TRUE = frozenset({"ja", "j", "yes", "y", "true", "wahr", "x", "1"})
_FALSE = frozenset({"nein", "n", "no", "false", "falsch", "0"})
_LEAF = frozenset({"column", "constant"})
_SPECIAL = frozenset({"each", "from"})
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class MappingError(Unreadable):
    """A mapping that cannot be used; the message says where and why."""


class File(msgspec.Struct, forbid_unknown_fields=True):
    """A further table."""

    path: str
    key: str
    unmatched: Literal["refuse", "ignore"] = "refuse"
    """What becomes of rows that belong to no account: named as lost, or meant so."""


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    """A mapping as it is written."""

    account: dict[str, Any]
    key: str = ""
    dates: str = "YYYY-MM-DD"
    decimals: str = "1234.56"
    tables: dict[str, dict[str, Any]] = {}
    files: dict[str, File] = {}
    ignore: list[str] = []
    source: dict[str, Any] = {}


class _Texts(yaml.BaseLoader):
    """Texts only, each written where it stands: with aliases, a few lines can stand for more than any memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            place = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.YAMLError(f"it has an alias (*) in line {place.line + 1}; write out what it stands for")
        return super().compose_node(parent, index)


def read_mapping(path: Path) -> Plan:
    """Raises MappingError."""
    try:
        said = yaml.load(path.read_text(encoding="utf-8"), Loader=_Texts)  # noqa: S506 - texts only
        mapping = msgspec.convert(said, Plan, strict=False)
    except OSError as error:
        raise MappingError(f"{path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise MappingError(f"{path} is no mapping: {error}") from None
    mapping.key = mapping.key or _column(mapping.account.get("external_account_number"))
    if not mapping.key:
        raise MappingError(f"{path} does not say which column is the account's number.")
    if "" in mapping.files:
        raise MappingError(f"{path} has a further table without a name.")
    for file in mapping.files.values():
        file.path = str(path.parent / file.path)
    return mapping


def _column(spec: Any) -> str:
    if isinstance(spec, Mapping):
        return str(spec.get("column", ""))
    return spec if isinstance(spec, str) else ""


class Mapped:
    """Accounts out of rows.

    `unfit` collects the values that are not written as the mapping says, by column; `losses` what gets into no account.
    """

    def __init__(self, mapping: Plan, supplier: str | None) -> None:
        self._mapping = mapping
        self._supplier = supplier
        self.unfit: dict[str, str] = {}
        keys = {alias: file.key for alias, file in mapping.files.items()}
        self.losses = Losses(mapping.account, keys, mapping.ignore)

    def account(self, key: str, rows: list[Row], others: Mapping[str, list[Row]]) -> dict[str, Any]:
        """One account."""
        made = self._object(self._mapping.account, ACCOUNT, _Rows("", rows), others)
        self.losses.end_account(key, {"": rows, **others})
        if self._supplier:
            made["import_supplier"] = self._supplier
        return made

    def _object(
        self, spec: Mapping[str, Any], fields: Mapping[str, Field], rows: "_Rows", others: Mapping[str, list[Row]]
    ) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, inner in spec.items():
            if name in _SPECIAL:
                continue
            field = fields.get(name) or Field(name, "json", {}, False)
            if isinstance(inner, list):
                value: Any = [item for one in inner for item in self._items(one, field, rows, others)]
            elif isinstance(inner, Mapping) and not _LEAF & inner.keys():
                value = self._object(inner, field.fields, rows, others)
            else:
                value = self._value(inner, field, rows)
            if value not in (None, "", [], {}):
                made[name] = value
        return made

    def _items(
        self, spec: Any, field: Field, rows: "_Rows", others: Mapping[str, list[Row]]
    ) -> Iterator[dict[str, Any] | Any]:
        """The objects of a list: one, or one for each group of rows."""
        if not isinstance(spec, Mapping):
            yield self._value(spec, Field(field.name, "text", {}, False), rows)
            return
        if "from" in spec:
            rows = _Rows(str(spec["from"]), others.get(str(spec["from"]), []))
        each = spec.get("each", [])
        columns = [each] if isinstance(each, str) else list(each)
        whole = [[row] for row in rows.rows] if "from" in spec else [rows.rows]
        groups = _grouped(rows.rows, columns) if columns else whole
        for group in groups:
            made = self._object(spec, field.fields, _Rows(rows.table, group), others)
            if any(not _is_constant(spec.get(name)) for name in made):
                for column in columns:
                    self.losses.read(rows.table, column, group[0].get(column))
                yield made

    def _value(self, spec: Any, field: Field, rows: "_Rows") -> Any:
        if isinstance(spec, Mapping) and "constant" in spec:
            return self._converted(spec["constant"], field, {"decimals": "1234.56", "format": "YYYY-MM-DD"}, field.name)
        options: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {}
        column = _column(spec)
        value = rows.rows[0].get(column)
        self.losses.read(rows.table, column, value)
        if isinstance(value, str):
            value = value.strip()
        if "table" in options and value not in (None, ""):
            table = self._mapping.tables.get(str(options["table"]), {})
            value = table.get(str(value), options.get("default", value))
        if value in (None, ""):
            value = options.get("default")
        return None if value in (None, "") else self._converted(value, field, options, column)

    def _converted(self, value: Any, field: Field, options: Mapping[str, Any], column: str) -> Any:
        """What cannot be converted goes as it is, so that the service names it."""
        try:
            return converted(
                value,
                field.kind,
                dates=str(options.get("format", self._mapping.dates)),
                decimals=str(options.get("decimals", self._mapping.decimals)),
            )
        except ValueError:
            self.unfit.setdefault(column, str(value))
            return value


class _Rows(NamedTuple):
    """Rows of one table, "" for the main one: of the values that are asked for once, the first row's is taken."""

    table: str
    rows: list[Row]


def _is_constant(spec: Any) -> bool:
    return isinstance(spec, Mapping) and "constant" in spec


def _grouped(rows: list[Row], columns: list[str]) -> list[list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row.get(column) for column in columns)
        if any(part not in (None, "") for part in key):
            groups.setdefault(key, []).append(row)
    return list(groups.values())


def converted(value: Any, kind: str, *, dates: str = "YYYY-MM-DD", decimals: str = "1234.56") -> Any:
    """A cell as the wire has values of this kind. Raises ValueError."""
    if kind == "decimal":
        return _decimal(value, decimals)
    if kind == "integer":
        return int(_decimal(value, decimals))
    if kind in ("date", "moment"):
        return _moment(str(value), dates, is_date=kind == "date")
    if kind == "boolean":
        return _boolean(value)
    if kind == "texts":
        return [str(value)]
    if isinstance(value, Decimal):
        return format(value, "f")
    return value if kind == "json" else str(value)


def _decimal(value: Any, decimals: str) -> str:
    if isinstance(value, int | Decimal):
        return format(Decimal(value), "f")
    text = re.sub(r"[\s€']|EUR", "", str(value))
    if text.endswith("-"):
        text = "-" + text[:-1]
    if "," in decimals[-3:]:
        text = text.replace(".", "").replace(",", ".")
    elif decimals.count(",") or text.count(",") > 1:
        text = text.replace(",", "")
    if not re.fullmatch(r"[-+]?\d+(\.\d+)?", text):
        raise ValueError(value)
    return text.removeprefix("+")


def _moment(text: str, form: str, *, is_date: bool) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        for token, directive in _TOKENS:
            form = form.replace(token, directive)
        moment = datetime.strptime(text, form)  # noqa: DTZ007 - local time of the German market, as the wire has it
    return moment.date().isoformat() if is_date else moment.isoformat()


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(value)


class MappedSource(Source):
    """A table as lines: an account each, numbered by its first row."""

    def __init__(self, name: str, mapping: Plan, path: Path, supplier: str | None) -> None:
        super().__init__(name)
        self.words = ["--mapping", str(path)]
        self.mapped = Mapped(mapping, supplier)
        self._mapping = mapping

    def left_out(self) -> Iterator[str]:
        return (f"{what}: {sentence}" for what, sentence in self.mapped.losses.sentences())

    def lines(self) -> Iterator[Line]:
        with tempfile.TemporaryDirectory(prefix="importbook-") as folder:
            store = _Store(Path(folder) / "rows.db")
            try:
                store.fill("", self._rows(self.name, self), self._mapping.key)
                for alias, file in self._mapping.files.items():
                    store.fill(alias, self._rows(file.path, None), file.key)
                for key, numbered in store.groups(""):
                    yield self._line(key, numbered, {alias: store.rows(alias, key) for alias in self._mapping.files})
                for alias, file in self._mapping.files.items():
                    strays = store.strays(alias)
                    if strays.rows and file.unmatched == "refuse":
                        self.mapped.losses.rows[alias] = strays
            finally:
                store.close()

    def _rows(self, name: str, follower: Source | None) -> Iterator[tuple[int, Row]]:
        said = self._mapping.source
        dialect = Dialect(str(said["delimiter"]), str(said.get("encoding", "utf-8"))) if "delimiter" in said else None
        return rows_of(name, follower=follower, dialect=dialect if follower is not None else None)

    def _line(self, key: str, numbered: list[tuple[int, Row]], others: Mapping[str, list[Row]]) -> Line:
        number = numbered[0][0]
        if not key:
            return Line(number, b"", FieldError("external_account_number", "required", "This field must be given."))
        return Line(number, _encode(self.mapped.account(key, [row for _, row in numbered], others)))


class _Store:
    """Rows on disk, by their keys: they need not stand together, and there may be more than fit into memory."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -8000;")
        self._db.execute("CREATE TABLE row (alias, key, number INTEGER, content BLOB)")

    def close(self) -> None:
        self._db.close()

    def fill(self, alias: str, rows: Iterator[tuple[int, Row]], key: str) -> None:
        """Raises MappingError when there is no such column."""
        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return
        if key not in first[1]:
            raise MappingError(f"There is no column {key}; there are {', '.join(first[1])}.")
        self._db.executemany(
            "INSERT INTO row VALUES (?, ?, ?, ?)",
            ((alias, _key(row.get(key)), number, _encode(row)) for number, row in itertools.chain([first], rows)),
        )
        self._db.execute("CREATE INDEX IF NOT EXISTS by_key ON row (alias, key, number)")

    def groups(self, alias: str) -> Iterator[tuple[str, list[tuple[int, Row]]]]:
        """Rows with the same key, in the order in which the keys come first."""
        keys = self._db.execute("SELECT key FROM row WHERE alias = ? GROUP BY key ORDER BY min(number)", (alias,))
        for (key,) in keys:
            found = self._db.execute(
                "SELECT number, content FROM row WHERE alias = ? AND key = ? ORDER BY number", (alias, key)
            )
            yield key, [(number, _decode(content)) for number, content in found]

    def rows(self, alias: str, key: str) -> list[Row]:
        found = self._db.execute("SELECT content FROM row WHERE alias = ? AND key = ? ORDER BY number", (alias, key))
        return [_decode(content) for (content,) in found]

    def strays(self, alias: str) -> Strays:
        """The rows of a further table that belong to no row of the main one."""
        found = self._db.execute(
            "SELECT count(*), coalesce(min(number), 0) FROM row WHERE alias = ?1"
            " AND NOT EXISTS (SELECT 1 FROM row AS main WHERE main.alias = '' AND main.key = row.key)",
            (alias,),
        )
        return Strays(*found.fetchone())


def _key(value: Any) -> str:
    return "" if value is None else str(value).strip()
