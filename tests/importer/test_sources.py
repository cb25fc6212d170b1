"""Lines from files, and the files of failures: what comes out is what went in, byte for byte."""

import csv
import gzip
import os
from pathlib import Path

import msgspec
import pytest
import zstandard

from importledger_client.answers import FieldError
from importledger_client.failures import FailureFiles, neutral
from importledger_client.notes import run_named_after
from importledger_client.sources import LONGEST_LINE, Source, Unreadable, account_in, for_supplier
from importledger_client.tally import Sample, Tally, masked
from tests.support.importbook import importbook

LINES = b'{"a": 1}\n\n{"b": 2.50}\r\n'
ACCOUNT = b'{"external_account_number":"X","import_supplier":"A","transfer_balance":1.50}'


def read(path: Path) -> list[tuple[int, bytes]]:
    return [(line.number, line.content) for line in Source(str(path)).lines()]


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        gzip.compress(LINES[:9]) + gzip.compress(LINES[9:]),
        zstandard.compress(LINES[:9]) + zstandard.compress(LINES[9:]),
        b"\xef\xbb\xbf" + LINES,
    ],
    ids=["plain", "gzip members", "zstd frames", "byte order mark"],
)
def test_lines_are_numbered_from_1_and_empty_ones_are_skipped(tmp_path: Path, content: bytes) -> None:
    assert read(written(tmp_path, "book", content)) == [(1, b'{"a": 1}'), (3, b'{"b": 2.50}')]


def test_a_line_beyond_10_mib_is_refused_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "book", b"1\n" + b"x" * (LONGEST_LINE + 100_000) + b"\n3\n")
    lines = list(Source(str(path)).lines())
    assert [line.content for line in lines] == [b"1", b"", b"3"]
    assert [line.errors[0].code if line.errors else None for line in lines] == [None, "request_too_large", None]


@pytest.mark.parametrize("whole", [gzip.compress(LINES * 999), zstandard.compress(LINES * 999)], ids=["gzip", "zstd"])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, whole: bytes) -> None:
    with pytest.raises(Unreadable, match="book is damaged or cut off"):
        read(written(tmp_path, "book", whole[:-9]))


def test_a_supplier_is_set_and_no_other_byte_is_touched() -> None:
    assert for_supplier(ACCOUNT, "A") is ACCOUNT
    assert for_supplier(ACCOUNT, "B") == ACCOUNT.replace(b'"A"', b'"B"')
    wrapped = b'{"payload":%s,"task_params":{}}' % ACCOUNT
    assert for_supplier(wrapped, "B") == wrapped.replace(b'"A"', b'"B"')
    assert for_supplier(b"{broken", "B") == b"{broken"


def failures(folder: Path, contents: list[bytes], errors: tuple[FieldError, ...]) -> list[bytes]:
    files = FailureFiles("reh-1", folder)
    for number, content in enumerate(contents, 1):
        files.add(number, "X", content, errors)
    files.close(is_whole=True, keep=frozenset())
    return (folder / "reh-1.failures.ndjson").read_bytes().splitlines()


@pytest.mark.parametrize("content", [ACCOUNT, b'{"payload":%s,"task_params":{}}' % ACCOUNT, b"{broken", b'"text"'])
def test_a_file_of_failures_gives_back_what_was_sent(tmp_path: Path, content: bytes) -> None:
    (line,) = failures(tmp_path, [content], (FieldError("transfer_balance", "invalid", "Wrong."),))
    said = msgspec.json.decode(line)
    assert list(said) == ["line", "payload", "errors", "warnings"]
    assert said["errors"] == [{"attr": "transfer_balance", "code": "invalid", "detail": "Wrong."}]
    if content != b'"text"':  # JSON, but no account
        assert account_in(line) == content


def test_the_table_of_failures_names_the_value_and_holds_no_formula(tmp_path: Path) -> None:
    account = b'{"external_account_number":"=1+1","customers":[{"landline":"+49 12"}]}'
    failures(tmp_path, [account], (FieldError("customers.0.landline", "invalid_phone_number", "Wrong, so."),))
    with (tmp_path / "reh-1.failures.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {
        "line": "1",
        "number": "X",
        "severity": "error",
        "code": "invalid_phone_number",
        "path": "customers.0.landline",
        "sentence": "Wrong, so.",
        "value": "'+49 12",
    }
    assert [neutral(cell)[0] for cell in ("=1", "+1", "-1", "@x", "\tx", "\rx")] == ["'"] * 6


def test_files_of_failures_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for name in ("reh-1.failures.ndjson", "reh-1.failures.csv"):
            written(tmp_path, name, b"old").chmod(0o644)
        failures(tmp_path, [ACCOUNT], (FieldError("a", "b", "c"),))
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "reh-1.failures.ndjson": 0o600,
        "reh-1.failures.csv": 0o600,
    }


def test_a_link_in_the_place_of_a_file_of_failures_is_not_followed(tmp_path: Path) -> None:
    elsewhere = written(tmp_path, "elsewhere", b"mine")
    (tmp_path / f".reh-1.failures.csv.{os.getpid()}.part").symlink_to(elsewhere)
    failures(tmp_path, [ACCOUNT], (FieldError("a", "b", "c"),))
    assert elsewhere.read_bytes() == b"mine"


def test_without_failures_there_are_no_files(tmp_path: Path) -> None:
    failures(tmp_path, [ACCOUNT], (FieldError("a", "b", "c"),))
    files = FailureFiles("reh-1", tmp_path)
    files.close(is_whole=True, keep=frozenset())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "mode", "run"),
    [
        ("dir/book.ndjson.zst", "create", "book"),
        ("book.ndjson", "dry_run", "book-dry-run"),
        ("reh-1.failures.ndjson", "validate", "reh-1"),
        ("Kunden Süd (2).csv", "create", "Kunden-S-d-2"),
        ("-", "create", "stdin"),
    ],
)
def test_a_run_is_named_after_its_file(file: str, mode: str, run: str) -> None:
    assert run_named_after(file, mode) == run


def test_mending_few_kinds_clears_most_accounts() -> None:
    tally, sample = Tally(), Sample()
    for kinds, times in ((["a"], 50), (["b"], 30), (["a", "b"], 10), (["c", "d"], 8), (["e"], 2)):
        for _ in range(times):
            tally.add(((kind, ""), sample) for kind in kinds)
    assert tally.best(2) == [("a", ""), ("b", "")]
    assert tally.clears(tally.best(2)) == 90
    assert tally.clears([("c", "")]) == 0


def test_a_masked_value_shows_how_it_is_made_and_not_what_it_is() -> None:
    assert masked("+49 30 Käthe@x.de") == "+99 99 xxxxx@x.xx"


@pytest.mark.parametrize("name", ["books", "books.csv"])
def test_a_folder_is_not_called_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    mapping = ["--mapping", "m.yaml"] if name.endswith(".csv") else []
    (tmp_path / "m.yaml").write_text("account: {external_account_number: K}", encoding="utf-8")
    shown = importbook("profile", name, *mapping, at=tmp_path)
    assert shown.returncode == 2
    assert f"{name} must be a file. It is a folder." in shown.stderr
