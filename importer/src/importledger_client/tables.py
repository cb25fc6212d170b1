"""Rows of tables: CSV (delimiter and encoding are found out), XLSX and Parquet, a row at a time."""

import codecs
import csv
import io
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from importledger_client.sources import Source, Unreadable, opened

Row = dict[str, Any]
"""By column: text, numbers, booleans or None; dates and datetimes as ISO 8601 text."""

DELIMITERS = (";", ",", "\t", "|")
_SAMPLE_BYTES = 2**16
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MOST_CELL = 2**24


class Dialect(msgspec.Struct, frozen=True):
    """How a CSV file is written."""

    delimiter: str = ";"
    encoding: str = "utf-8"


def is_table(name: str) -> bool:
    """Whether a file holds rows rather than JSON, by its ending."""
    return _kind(name) in ("csv", "xlsx", "parquet")


def is_json(name: str) -> bool:
    """Whether a file holds JSON, by its ending."""
    return _kind(name) in ("ndjson", "jsonl", "json")


def dialect_of(name: str) -> Dialect:
    """How a CSV file is written, from its beginning."""
    with opened(name) as stream:
        sample = stream.read(_SAMPLE_BYTES)
    encoding = next((name for bom, name in _BOMS if sample.startswith(bom)), None) or _encoding_of(sample)
    text = sample.decode(encoding, "ignore")
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    return Dialect(max(DELIMITERS, key=lambda d: _fit(lines, d)), encoding)


def rows_of(name: str, *, follower: Source | None = None, dialect: Dialect | None = None) -> Iterator[tuple[int, Row]]:
    """The rows of a table with their numbers; the first row, which names the columns, is 1. Raises Unreadable."""
    if not Path(name).is_file():
        raise Unreadable(f"There is no file {name}.")
    kind = _kind(name)
    if kind == "xlsx":
        return _named(_xlsx(name))
    if kind == "parquet":
        return enumerate(_parquet(name), 2)
    return _named(_csv(name, follower, dialect or dialect_of(name)))


def columns_of(name: str) -> list[str]:
    """The names of the columns."""
    if _kind(name) == "parquet":
        return [str(column) for column in _pyarrow(name).ParquetFile(name).schema_arrow.names]
    rows = _xlsx(name) if _kind(name) == "xlsx" else _csv(name, None, dialect_of(name))
    return [str(cell).strip() for cell in next(rows, []) if cell not in (None, "")]


def _kind(name: str) -> str:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes if suffix.lower() not in (".gz", ".zst")]
    ending = suffixes[-1].removeprefix(".") if suffixes else ""
    return "csv" if ending in ("csv", "tsv", "txt") else ending


def _encoding_of(sample: bytes) -> str:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _fit(lines: list[str], delimiter: str) -> tuple[int, int]:
    """How well a delimiter fits: lines that have as many cells as the first, and how many cells that are."""
    rows = list(csv.reader(lines, delimiter=delimiter))
    width = len(rows[0]) if rows else 0
    return (sum(len(row) == width for row in rows) if width > 1 else 0, width)


def _named(rows: Iterator[list[Any]]) -> Iterator[tuple[int, Row]]:
    columns = [str(cell).strip() if cell is not None else "" for cell in next(rows, [])]
    for number, row in enumerate(rows, 2):
        if any(cell not in (None, "") for cell in row):
            yield number, {name: cell for name, cell in zip(columns, row, strict=False) if name}


def _csv(name: str, follower: Source | None, dialect: Dialect) -> Iterator[list[Any]]:
    csv.field_size_limit(_MOST_CELL)
    with opened(name, follower) as stream:
        text = io.TextIOWrapper(stream, encoding=dialect.encoding, errors="strict", newline="")
        try:
            yield from csv.reader(text, delimiter=dialect.delimiter)
        except (UnicodeDecodeError, csv.Error) as error:
            raise Unreadable(f"{name} cannot be read as CSV in {dialect.encoding}: {error}.") from None


def _xlsx(name: str) -> Iterator[list[Any]]:
    from openpyxl import load_workbook

    with Path(name).open("rb") as file:
        try:
            book = load_workbook(file, read_only=True, data_only=True)
        except Exception as error:
            raise Unreadable(f"{name} cannot be read as XLSX: {error}.") from None
        sheet = book.worksheets[0]
        for row in sheet.iter_rows(values_only=True):
            yield [_plain(cell) for cell in row]
        book.close()


def _parquet(name: str) -> Iterator[Row]:
    for batch in _pyarrow(name).ParquetFile(name).iter_batches(batch_size=1000):
        for row in batch.to_pylist():
            yield {column: _plain(value) for column, value in row.items()}


def _pyarrow(name: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise Unreadable(f"To read {name}, install pyarrow: pip install 'importledger-client[parquet]'") from None
    return parquet


def _plain(value: Any) -> Any:
    """A cell as text, number, boolean or None."""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() and value.tzinfo is None else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Decimal | float):
        return Decimal(str(value))
    return value if isinstance(value, str | int | bool | None) else str(value)
