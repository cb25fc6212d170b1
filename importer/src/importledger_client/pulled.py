"""Files of a pulled book: its accounts, its records by kind, and optionally tables in Parquet."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Self, cast

import msgspec
import zstandard

from importledger_client.answers import Content
from importledger_client.contract import ACCOUNT, RECORDS, Field, in_utc
from importledger_client.failures import private_file
from importledger_client.sources import Unreadable
from importledger_client.unfinished import UNFINISHED, private_folder

ACCOUNT_KIND, LEFT_OUT = "account", "left_out"
_ROWS = 20_000
"""Rows of a table that are written at once."""
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


class BookFiles:
    """Files of a pulled book, with mode 0600, in private folders until the book is complete.

    Accounts are in `output`, records in files with their kind in the name. A file whose name ends with .zst is
    compressed. `counts` has the number of lines by kind, `left_out` the number of imports without an account by status.
    """

    def __init__(self, output: Path, folder: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self._output = output
        self._streams: dict[str, IO[bytes]] = {}
        self._stack, self._folders = ExitStack(), ExitStack()
        self._private: dict[Path, Path] = {}
        """Private folders, by the folder of the complete files."""
        self._parts: dict[Path, Path] = {}
        """Files until they are complete, by the complete file."""
        self._tables = Tables(folder, self._open) if folder is not None else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._folders:
            self._stack.close()

    def path(self, kind: str) -> Path:
        """Return the path of the file of a kind."""
        if kind == ACCOUNT_KIND:
            return self._output
        name, ending = self._output.name, "".join(self._output.suffixes[-2:])
        return self._output.with_name(f"{name.removesuffix(ending)}.{kind}{ending or '.ndjson'}")

    def add(self, contents: Iterable[Content]) -> None:
        """Write the complete contents of an import."""
        for content in contents:
            if content.kind == LEFT_OUT:
                self.left_out[_decode(content.payload)["status"]] += 1
                continue
            self.counts[content.kind] += 1
            self._stream(content.kind).write(bytes(content.payload) + b"\n")
            if self._tables is not None:
                self._tables.add(content)

    def finish(self) -> None:
        """Close the files and give them their names."""
        if self._tables is not None:
            self._tables.finish()
        self._stack.close()
        for path, part in self._parts.items():
            part.replace(path)

    def _open(self, path: Path) -> IO[bytes]:
        if path.parent not in self._private:
            self._private[path.parent] = self._folders.enter_context(private_folder(UNFINISHED, path.parent))
        self._parts[path] = self._private[path.parent] / path.name
        return self._stack.enter_context(private_file(self._parts[path]))

    def _stream(self, kind: str) -> IO[bytes]:
        if kind not in self._streams:
            path = self.path(kind)
            stored = self._open(path)
            if path.suffix == ".zst":
                compressed = zstandard.ZstdCompressor().stream_writer(stored, closefd=False)
                stored = cast(IO[bytes], self._stack.enter_context(compressed))
            self._streams[kind] = stored
        return self._streams[kind]


class Tables:
    """Parquet files of a folder, one for each table of accounts and records. `open_file` opens each file.

    Rows have the account's number, their ordinal and the ordinal of their parent. Fields of an inner object are
    columns. Lists and objects without a separate table are columns of JSON. Raises Unreadable without pyarrow.
    """

    def __init__(self, folder: Path, open_file: Callable[[Path], IO[bytes]]) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise Unreadable(
                "To write Parquet, install pyarrow: {command}", command="pip install 'importledger-client[parquet]'"
            ) from None
        self._pyarrow, self._parquet, self._folder = pyarrow, parquet, folder
        self._open = open_file
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._schemas = {name: pyarrow.schema(self._columns(columns)) for name, columns in _TABLES.items()}
        self._writers: dict[str, Any] = {}
        self._external, self._ordinals = "", Counter[str]()

    def add(self, content: Content) -> None:
        """Add the rows of an account or of a record."""
        payload = _decode(content.payload)
        if payload[_KEY] != self._external:
            self._external, self._ordinals = payload[_KEY], Counter()
        if content.kind == ACCOUNT_KIND:
            self._add("service_account", _row(ACCOUNT, payload))
            self._add_lists(ACCOUNT, payload, "")
        else:
            self._add_item(content.kind, RECORDS[content.kind], payload[content.kind], "")

    def _add_lists(self, fields: Mapping[str, Field], value: Any, table: str) -> None:
        for field in fields.values():
            for item in value.get(field.name, ()) if field.table else ():
                self._add_item(field.table, field.fields, item, table)

    def _add_item(self, table: str, fields: Mapping[str, Field], item: Any, above: str) -> None:
        self._ordinals[table] += 1
        key = {_KEY: self._external, "ordinal": self._ordinals[table]}
        parent = {f"{above}_ordinal": self._ordinals[above]} if above else {}
        self._add(table, key | parent | _row(fields, item))
        self._add_lists(fields, item, table)

    def _add(self, table: str, row: dict[str, Any]) -> None:
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        if len(rows) >= _ROWS:
            self._write(table)

    def _write(self, table: str) -> None:
        rows, schema = self._rows.pop(table, []), self._schemas[table]
        if table not in self._writers:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._writers[table] = self._parquet.ParquetWriter(self._open(self._folder / f"{table}.parquet"), schema)
        try:
            self._writers[table].write_table(self._pyarrow.Table.from_pylist(rows, schema=schema))
        except self._pyarrow.ArrowException as error:
            raise Unreadable(
                "The table {table} cannot be written as Parquet: {error}", table=table, error=error
            ) from None

    def finish(self) -> None:
        """Write the remaining rows, also of tables without rows."""
        for table in self._schemas:
            self._write(table)
            self._writers[table].close()

    def _columns(self, columns: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        arrow = self._pyarrow
        types = {
            "decimal": arrow.decimal128(38, 18),
            "integer": arrow.int64(),
            "boolean": arrow.bool_(),
            "date": arrow.date32(),
            "moment": arrow.timestamp("us", "UTC"),
            "texts": arrow.list_(arrow.string()),
        }
        for name, kind in columns.items():
            yield name, types.get(kind, arrow.string())


_KEY = "external_account_number"


def _columns_of(fields: Mapping[str, Field], before: str = "") -> Iterator[tuple[str, Field]]:
    """Yield the name of each column with its field.

    The column of an inner object's field begins with the object's name.
    """
    for field in fields.values():
        if field.kind == "object" and not field.is_column:
            yield from _columns_of(field.fields, f"{before}{field.name}_")
        elif not field.table:
            yield before + field.name, field


def _tables_of(fields: Mapping[str, Field], above: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name of each table below these fields with its columns and their kinds."""
    for field in fields.values():
        if field.table:
            yield from _with_tables(field.table, field.fields, above)


def _with_tables(table: str, fields: Mapping[str, Field], above: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a table and all tables below it."""
    key = {_KEY: "text", "ordinal": "integer"} | ({f"{above}_ordinal": "integer"} if above else {})
    yield table, key | {name: field.kind for name, field in _columns_of(fields)}
    yield from _tables_of(fields, table)


_TABLES: dict[str, dict[str, str]] = {
    "service_account": {name: field.kind for name, field in _columns_of(ACCOUNT)},
    **dict(_tables_of(ACCOUNT)),
    **{table: columns for kind in RECORDS for table, columns in _with_tables(kind, RECORDS[kind], "")},
}
"""Columns by table, with their kinds."""


def _row(fields: Mapping[str, Field], value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in fields.values():
        sent = value.get(field.name)
        if sent is None or field.table:
            continue
        if field.kind == "object" and not field.is_column:
            row |= _row(field.fields, sent, f"{before}{field.name}_")
        else:
            row[before + field.name] = _cell(field.kind, sent)
    return row


def _cell(kind: str, value: Any) -> Any:
    match kind:
        case "decimal":
            return Decimal(value)
        case "date":
            return date.fromisoformat(value)
        case "moment":
            return in_utc(value)
        case "list" | "object" | "json":
            return _encode(value).decode()
        case _:
            return value
