"""Lines of files and files of failures: the content stays the same, byte for byte."""

import csv
import gzip
import os
from pathlib import Path

import click
import msgspec
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from importledger_client.answers import FieldError
from importledger_client.commands.common import run_name
from importledger_client.commands.push import push
from importledger_client.error_counts import ErrorCounts, Sample, masked
from importledger_client.failures import FailureFiles, neutral
from importledger_client.notes import run_named_after
from importledger_client.protocol import MODES, receipt_of
from importledger_client.sources import (
    LONGEST_LINE,
    Source,
    Unreadable,
    account_in,
    for_supplier,
    identity_of,
    number_of,
)
from tests.support.importbook import importbook

LINES = b'{"a": 1}\n\n{"b": 2.50}\r\n'
ACCOUNT = b'{"external_account_number":"X","import_supplier":"A","transfer_balance":1.50}'
ERRORS = (FieldError("transfer_balance", "invalid", "Wrong."),)


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
    lines = Source(str(written(tmp_path, "book", content))).lines()
    assert [(line.number, line.content) for line in lines] == [(1, b'{"a": 1}'), (3, b'{"b": 2.50}')]


def test_a_line_beyond_10_mib_is_refused_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "book", b"1\n" + b"x" * (LONGEST_LINE + 100_000) + b"\n3\n")
    lines = list(Source(str(path)).lines())
    assert [line.content for line in lines] == [b"1", b"", b"3"]
    assert [line.errors[0].code if line.errors else None for line in lines] == [None, "request_too_large", None]


@pytest.mark.parametrize("whole", [gzip.compress(LINES * 999), zstandard.compress(LINES * 999)], ids=["gzip", "zstd"])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, whole: bytes) -> None:
    with pytest.raises(Unreadable, match="book is damaged or cut off"):
        list(Source(str(written(tmp_path, "book", whole[:-9]))).lines())


@pytest.mark.parametrize("name", ["books", "books.csv"])
def test_a_folder_is_not_called_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    mapping = ["--mapping", "m.yaml"] if name.endswith(".csv") else []
    (tmp_path / "m.yaml").write_text("account: {external_account_number: K}", encoding="utf-8")
    shown = importbook("profile", name, *mapping, at=tmp_path)
    assert (shown.returncode, f"{name} must be a file. It is a folder." in shown.stderr) == (2, True)


def test_a_supplier_is_set_and_no_other_byte_changes() -> None:
    assert for_supplier(ACCOUNT, "A") is ACCOUNT
    assert for_supplier(ACCOUNT, "B") == ACCOUNT.replace(b'"A"', b'"B"')
    wrapped = b'{"payload":%s,"task_params":{}}' % ACCOUNT
    assert for_supplier(wrapped, "B") == wrapped.replace(b'"A"', b'"B"')
    assert for_supplier(b"{broken", "B") == b"{broken"


def test_a_line_that_is_nested_too_deeply_is_no_account() -> None:
    """The service refuses it, and the other lines of the book are sent."""
    deep = b'{"line":1,"errors":[],"external_account_number":"X","import_supplier":"A","payload":'
    deep += b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert account_in(deep) is deep
    assert for_supplier(deep, "B") is deep
    assert (identity_of(deep), number_of(deep)) == ((None, b""), None)
    assert receipt_of(deep, "VALID").status == "VALID"


def failures(folder: Path, content: bytes, errors: tuple[FieldError, ...] = ERRORS) -> bytes:
    """The line of a file of failures with this account."""
    files = FailureFiles("reh-1", folder)
    files.add(1, "X", content, errors)
    files.close(is_whole=True, keep=frozenset())
    return (folder / "reh-1.failures.ndjson").read_bytes()


@pytest.mark.parametrize("content", [ACCOUNT, b'{"payload":%s,"task_params":{}}' % ACCOUNT, b"{broken", b'"text"'])
def test_a_file_of_failures_has_the_accounts_as_they_were_sent(tmp_path: Path, content: bytes) -> None:
    line = failures(tmp_path, content)
    failed = msgspec.json.decode(line)
    assert list(failed) == ["line", "payload", "errors", "warnings"]
    assert failed["errors"] == [{"attr": "transfer_balance", "code": "invalid", "detail": "Wrong."}]
    if content != b'"text"':  # JSON, but no account
        assert account_in(line) == content


def test_the_table_of_failures_names_the_value_and_holds_no_formula(tmp_path: Path) -> None:
    account = b'{"external_account_number":"=1+1","customers":[{"landline":"+49 12"}]}'
    failures(tmp_path, account, (FieldError("customers.0.landline", "invalid_phone_number", "Wrong, so."),))
    with (tmp_path / "reh-1.failures.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert list(row) == ["line", "number", "severity", "code", "path", "sentence", "value"]
    assert [*row.values()] == [
        *("1", "X", "error", "invalid_phone_number", "customers.0.landline", "Wrong, so.", "'+49 12")
    ]
    assert [neutral(cell)[0] for cell in ("=1", "+1", "-1", "@x", "\tx", "\rx")] == ["'"] * 6


def test_files_of_failures_are_private_follow_no_link_and_go_when_they_are_empty(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"mine")
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "reh-1.failures.csv").symlink_to(elsewhere)
    before = os.umask(0)
    try:
        written(folder, "reh-1.failures.ndjson", b"old").chmod(0o644)
        failures(folder, ACCOUNT)
    finally:
        os.umask(before)
    assert elsewhere.read_bytes() == b"mine"
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "reh-1.failures.ndjson": 0o600,
        "reh-1.failures.csv": 0o600,
    }
    FailureFiles("reh-1", folder).close(is_whole=True, keep=frozenset())
    assert list(folder.iterdir()) == []


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


@given(st.text("a.ü -_\n", max_size=80), st.sampled_from(["", ".ndjson", ".failures.ndjson", ".csv.gz"]))
@example("", ".ndjson")
@example(".", ".ndjson")
def test_a_run_is_named_after_any_file_as_the_service_wants_it(stem: str, ending: str) -> None:
    for mode in MODES:
        run = run_named_after(stem + ending, mode)
        assert run_name(click.Context(push), push.params[0], run) == run


def test_fixing_few_kinds_clears_most_accounts() -> None:
    error_counts, sample = ErrorCounts(), Sample()
    for kinds, times in ((["a"], 50), (["b"], 30), (["a", "b"], 10), (["c", "d"], 8), (["e"], 2)):
        for _ in range(times):
            error_counts.add(((kind, ""), sample) for kind in kinds)
    assert error_counts.best(2) == [("a", ""), ("b", "")]
    assert error_counts.clears(error_counts.best(2)) == 90
    assert error_counts.clears([("c", "")]) == 0


def test_a_masked_value_shows_its_form_without_its_content() -> None:
    assert masked("+49 30 Käthe@x.de") == "+99 99 xxxxx@x.xx"
