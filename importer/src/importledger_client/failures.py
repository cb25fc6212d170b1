"""The two files of failures of a push: NDJSON to correct and send again, CSV to read in a spreadsheet."""

import contextlib
import csv
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET

from importledger_client.answers import FieldError
from importledger_client.protocol import NOT_JSON
from importledger_client.sources import Unreadable
from importledger_client.unfinished import UNFINISHED, private_folder

_FORMULA = re.compile(r"""^(?=[\t\r\n])|(?:(?<=[;\t\r\n])|^)(?=[\s"']*[=+\-@＝＋－＠])""")
COLUMNS = ("line", "number", "severity", "code", "path", "sentence", "value")
ERROR, WARNING = "error", "warning"
"""Severities. The service accepts an account with only warnings, and only the CSV file lists it."""
LONGEST_VALUE = 200


class Failed(msgspec.Struct):
    """A line of the NDJSON file: the account, its line in the pushed file, its errors and its warnings."""

    line: int
    payload: msgspec.Raw
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[FieldError, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Failed)


def ndjson_path(run: str, folder: Path) -> Path:
    return folder / f"{run}.failures.ndjson"


def csv_path(run: str, folder: Path) -> Path:
    return folder / f"{run}.failures.csv"


def is_of_failures(name: str) -> bool:
    """Return True for the name of a file of failures."""
    return ".failures." in Path(name).name


def read_failures(run: str, folder: Path) -> Iterator[Failed]:
    """Yield the failures of the last push of a run.

    Lines that cannot be read are skipped, since people may edit the file.
    """
    path = ndjson_path(run, folder)
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                try:
                    yield _decoder.decode(line)
                except NOT_JSON:
                    continue


def read_warnings(run: str, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the warnings of the last push of a run, as rows by `COLUMNS`."""
    path = csv_path(run, folder)
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            yield from (row for row in csv.DictReader(file) if row.get("severity") == WARNING)


class FailureFiles:
    """Writes both files under temporary names, and renames them at the end, because a push may read the file that it
    replaces.
    """

    def __init__(self, run: str, folder: Path) -> None:
        self.ndjson, self.csv = ndjson_path(run, folder), csv_path(run, folder)
        self._stack = contextlib.ExitStack()
        try:
            parts = self._stack.enter_context(private_folder(UNFINISHED, folder))
        except PermissionError:
            raise Unreadable(
                "A push must be able to write {file} into its working folder.", file=self.ndjson.name
            ) from None
        self._parts = [parts / path.name for path in (self.ndjson, self.csv)]
        self._lines = private_file(self._parts[0])
        self._table = io.TextIOWrapper(private_file(self._parts[1]), encoding="utf-8", newline="")
        self._rows = csv.writer(self._table)
        self._rows.writerow(COLUMNS)
        self.is_stored = True
        """False if the files could not be written, so that the earlier files stay."""
        self._counts = [0, 0]
        """Number of lines of the NDJSON file, and of rows of the CSV file."""

    def add(
        self,
        line: int,
        number: str | None,
        content: bytes,
        errors: tuple[FieldError, ...],
        warnings: tuple[FieldError, ...] = (),
    ) -> None:
        """Add an account. Only accounts with errors are written to the NDJSON file."""
        account = decoded_or_none(content)
        if errors:
            self._counts[0] += 1
            with_values = tuple(_with_value(error, account) for error in errors)
            self._lines.write(_encoder.encode(Failed(line, _payload(content), with_values, warnings)) + b"\n")
        for severity, problems in ((ERROR, errors), (WARNING, warnings)):
            for problem in problems:
                self._counts[1] += 1
                value = shown(value_at(account, problem.attr))
                row = (str(line), number or "", severity, problem.code, problem.attr, problem.detail, value)
                self._rows.writerow([neutral(cell) for cell in row])

    def flush(self) -> None:
        """Write everything to the disk. Raises OSError, for example for a full disk."""
        self._lines.flush()
        self._table.flush()

    def close(self, *, is_whole: bool, keep: frozenset[Path], keeps_last: bool = False) -> None:
        """Rename the files, and remove empty files.

        Files in `keep`, which were pushed, stay unless `is_whole`. With `keeps_last`, the files of the last push stay
        unchanged, and so they do if the disk is full.
        """
        with self._stack, contextlib.suppress(OSError):
            self.is_stored = False
            self._lines.close()
            self._table.close()
            for part, path, count in zip(self._parts, (self.ndjson, self.csv), self._counts, strict=True):
                if count and not keeps_last and (is_whole or path.resolve() not in keep):
                    part.replace(path)
                elif is_whole and not count and path.resolve() not in keep:
                    path.unlink(missing_ok=True)
            self.is_stored = True


def _with_value(error: FieldError, account: Any) -> FieldError:
    """Return the error with the wrong value in its suggestion."""
    if error.suggestion is UNSET:
        return error
    suggestion = msgspec.structs.replace(error.suggestion, before=value_at(account, error.attr))
    return msgspec.structs.replace(error, suggestion=suggestion)


def private_file(path: Path) -> BinaryIO:
    """Open a new file with mode 0600, replacing any other: it will hold personal data."""
    path.unlink(missing_ok=True)
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def neutral(cell: str) -> str:
    """Return the cell with `'` before each place where a spreadsheet would begin a formula.

    A spreadsheet may also separate cells at semicolons and tabs.
    """
    return _FORMULA.sub("'", cell)


def value_at(account: Any, path: str) -> Any:
    """Return the value of an account at a dotted path, or None."""
    value = account
    if isinstance(value, dict) and "payload" in value:
        value = value["payload"]
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def shown(value: Any) -> str:
    """Return a value as the text of a cell, cut to `LONGEST_VALUE` characters."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else _encoder.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def decoded_or_none(content: bytes) -> Any:
    """Decode JSON. Returns None for anything else."""
    try:
        return msgspec.json.decode(content)
    except NOT_JSON:
        return None


def _payload(content: bytes) -> msgspec.Raw:
    """Return the account unchanged, or as a text if it is not JSON."""
    if not content or decoded_or_none(content) is not None or content.strip() == b"null":
        return msgspec.Raw(content or b"null")
    return msgspec.Raw(_encoder.encode(content.decode("utf-8", "backslashreplace")))
