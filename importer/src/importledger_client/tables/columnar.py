"""Read Parquet files with pyarrow. The second count comes from the metadata of the file."""

from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from importledger_client.language import _, translatable
from importledger_client.sources import Unreadable
from importledger_client.tables.table import Cell, Count, Doubts

_ROWS = 1000
"""Rows to decode at once."""
_EXACT = {"halffloat": 2**11, "float": 2**24, "double": 2**53}
"""Numbers from which on a type of Parquet does not hold every integer."""
_ROUNDED = translatable("has a number that the file holds only rounded: the column must be text or decimal.")
_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Columnar:
    """A Parquet file."""

    written = "Parquet"

    def __init__(self, name: str) -> None:
        self.name = self.label = name
        self.doubts = Doubts()
        with Path(name).open("rb") as file:
            if file.read(4) != b"PAR1":
                raise Unreadable("{file} is not a Parquet file.", file=name)
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            command = "pip install 'importledger-client[parquet]'"
            raise Unreadable("To read {file}, install pyarrow: {command}", file=name, command=command) from None
        self._broken: tuple[type[Exception], ...] = (ArrowException, OSError, ValueError, OverflowError)
        try:
            self._file = parquet.ParquetFile(name)
            schema = self._file.schema_arrow
        except self._broken as error:
            raise Unreadable("{file} cannot be read as Parquet: {error}", file=name, error=error) from None
        self._names, self._types = [str(column) for column in schema.names], [str(found) for found in schema.types]
        for column, kind in zip(self._names, self._types, strict=True):
            if kind.startswith(("struct", "list", "map", "large_list", "fixed_size_list", "duration")):
                raise Unreadable(
                    "{file}: the column {column} is a {kind}; a column must hold texts, numbers or dates.",
                    file=name,
                    column=column,
                    kind=kind,
                )

    def header(self) -> list[str]:
        return [name.strip() for name in self._names]

    def rows(self) -> Iterator[tuple[int, list[Cell]]]:
        number = 1
        limits = [(position, _EXACT[kind]) for position, kind in enumerate(self._types) if kind in _EXACT]
        try:
            for batch in self._file.iter_batches(batch_size=_ROWS):
                for values in zip(*map(_values, batch.columns), strict=True):
                    number += 1
                    for position, limit in limits:
                        if isinstance(value := values[position], int | Decimal) and not -limit < value < limit:
                            self.doubts.add(position, "", f"{_('row')} {number}", _(_ROUNDED))
                    yield number, [self._plain(number, *cell) for cell in zip(self._names, values, strict=True)]
        except self._broken as error:
            place = f"{self.name}, {_('after row {row}', row=number)}"
            raise Unreadable("{place}: it cannot be read as Parquet: {error}", place=place, error=error) from None

    def recount(self) -> Count:
        """Count by the metadata of the row groups. A column without statistics is decoded to count its nulls."""
        count = Count()
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group)
            count.rows += rows.num_rows
            for position in range(metadata.num_columns):
                statistics = rows.column(position).statistics
                if statistics is not None and statistics.has_null_count:
                    nulls = statistics.null_count
                else:
                    nulls = self._file.read_row_group(group, columns=[self._names[position]]).column(0).null_count
                count.filled[position] += rows.num_rows - nulls
        return count

    def _plain(self, number: int, column: str, value: Any) -> Cell:
        """Return a cell as text, number, boolean or None."""
        match value:
            case datetime():
                is_day = value.time() == time() and value.tzinfo is None
                return value.date().isoformat() if is_day else value.isoformat()
            case date() | time():
                return value.isoformat()
            case bytes():
                try:
                    return value.decode()
                except UnicodeDecodeError:
                    place = self._place(number, column)
                    raise Unreadable("{place} must be text in UTF-8.", place=place) from None
            case str() | int() | Decimal() | None:
                return value
            case _:
                kind = _("{kind} is not supported.", kind=type(value).__name__)
                raise Unreadable(f"{self._place(number, column)}: {kind}")

    def _place(self, row: int, column: str) -> str:
        return f"{self.name}, {_('row')} {row}, {_('column')} {column}"


def _values(column: Any) -> list[Any]:
    """Return the values of a column. Floats get the fewest digits of their size, or become a word such as NaN."""
    if not str(column.type).endswith(("float", "double")):
        return column.to_pylist()  # type: ignore[no-any-return]
    texts = column.cast("string").to_pylist()
    return [text if text is None else _NO_NUMBERS.get(text) or _number(text) for text in texts]


def _number(text: str) -> Cell:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() and abs(number) < 2**53 else number
