"""The two files of failures that a push leaves: one to mend and send again, one to read in a spreadsheet."""

import csv
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from importledger_client.answers import FieldError
from importledger_client.sources import Unreadable

_FORMULA = re.compile(r"""^(?=[\t\r\n])|(?:(?<=[;\t\r\n])|^)(?=[\s"']*[=+\-@＝＋－＠])""")
COLUMNS = ("line", "number", "severity", "code", "path", "sentence", "value")
ERROR, WARNING = "error", "warning"
"""The severities. An account with warnings alone was accepted: it has a row, and is not in the file to mend."""
LONGEST_VALUE = 200


class Failed(msgspec.Struct):
    """One line of the file to mend: its number, the account, and what is wrong with it."""

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
    """Return True for the name of a file of accounts that a push has refused."""
    return ".failures." in Path(name).name


def read_failures(run: str, folder: Path) -> Iterator[Failed]:
    """The failures of the last push of a run in this folder; none where there is no file."""
    path = ndjson_path(run, folder)
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                try:
                    yield _decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):  # somebody is mending it
                    continue


def read_warnings(run: str, folder: Path) -> Iterator[dict[str, str]]:
    """The rows about warnings that the last push of a run has left in this folder, by `COLUMNS`."""
    path = csv_path(run, folder)
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            yield from (row for row in csv.DictReader(file) if row.get("severity") == WARNING)


class FailureFiles:
    """Written beside their places, and put there at the end: a push may read the very file that it replaces."""

    def __init__(self, run: str, folder: Path) -> None:
        self.ndjson, self.csv = ndjson_path(run, folder), csv_path(run, folder)
        self._parts = [path.with_name(f".{path.name}.{os.getpid()}.part") for path in (self.ndjson, self.csv)]
        try:
            self._lines = _private(self._parts[0])
        except PermissionError:
            raise Unreadable(f"A push must be able to write {self.ndjson.name} into its working folder.") from None
        self._table = io.TextIOWrapper(_private(self._parts[1]), encoding="utf-8", newline="")
        self._rows = csv.writer(self._table)
        self._rows.writerow(COLUMNS)
        self._counts = [0, 0]
        """Lines of the file to mend, rows of the table."""

    def add(
        self,
        line: int,
        number: str | None,
        content: bytes,
        errors: tuple[FieldError, ...],
        warnings: tuple[FieldError, ...] = (),
    ) -> None:
        """Add an account with errors, which is to be mended, or one that has warnings alone."""
        if errors:
            self._counts[0] += 1
            self._lines.write(_encoder.encode(Failed(line, _payload(content), errors, warnings)) + b"\n")
        account = _decoded(content)
        for severity, problems in ((ERROR, errors), (WARNING, warnings)):
            for problem in problems:
                self._counts[1] += 1
                value = shown(value_at(account, problem.attr))
                row = (str(line), number or "", severity, problem.code, problem.attr, problem.detail, value)
                self._rows.writerow([neutral(cell) for cell in row])

    def close(self, *, is_whole: bool, keep: frozenset[Path]) -> None:
        """Put the files in their places; an empty one is removed, but what was pushed (`keep`) stays."""
        self._lines.close()
        self._table.close()
        for part, path, count in zip(self._parts, (self.ndjson, self.csv), self._counts, strict=True):
            if count and (is_whole or path.resolve() not in keep):
                part.replace(path)
            else:
                part.unlink()
                if is_whole and not count and path.resolve() not in keep:
                    path.unlink(missing_ok=True)


def _private(path: Path) -> BinaryIO:
    """A new file that its owner alone can read, whatever was there before: it will hold personal data."""
    path.unlink(missing_ok=True)
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def neutral(cell: str) -> str:
    """Return the cell with `'` before each place where a spreadsheet would begin a formula.

    A spreadsheet may separate cells at semicolons and tabs, too.
    """
    return _FORMULA.sub("'", cell)


def value_at(account: Any, path: str) -> Any:
    """What an account has at a dotted path; None where there is nothing."""
    place = account
    if isinstance(place, dict) and "payload" in place:
        place = place["payload"]
    for step in path.split("."):
        if isinstance(place, dict) and step in place:
            place = place[step]
        elif isinstance(place, list) and step.isdigit() and int(step) < len(place):
            place = place[int(step)]
        else:
            return None
    return place


def shown(value: Any) -> str:
    """A value in a cell."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else _encoder.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _payload(content: bytes) -> msgspec.Raw:
    """The account as it is; what is not JSON, as text."""
    if not content:
        return msgspec.Raw(b"null")
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.Raw(_encoder.encode(content.decode("utf-8", "backslashreplace")))
    return msgspec.Raw(content)
