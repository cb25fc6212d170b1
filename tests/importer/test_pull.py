"""The verb that writes a supplier's accounts as a book."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
import zstandard
from pyarrow import parquet

from importledger_client import client
from importledger_client.answers import Content
from importledger_client.contract import comparable
from importledger_client.protocol import lines_of
from importledger_client.pulled import ACCOUNT_KIND, BookFiles
from projections.platform.tables import TABLES
from tests.support.bulk import bulk, ndjson, wait_until_processed
from tests.support.importbook import access_to, importbook
from tests.support.make import an_account
from tests.support.post_account import PATHS, RECORDS
from tests.support.running import Importer, RunningService
from tests.support.whole import admin_url

ACCOUNTS = 20


@pytest.fixture(scope="module")
def accounts(source: Importer) -> list[dict[str, Any]]:
    return [an_account(source.supplier, number) for number in range(ACCOUNTS)]


@pytest.fixture(scope="module")
def source(service: RunningService) -> Importer:
    """An importer with accounts, of which the first has a delivery note."""
    made = service.importer()
    sent = [an_account(made.supplier, number) for number in range(ACCOUNTS)]
    assert len(bulk(made, ndjson(*sent)).receipts) == ACCOUNTS
    wait_until_processed(made, *sent)
    names = {"import_supplier": made.supplier, "external_account_number": sent[0]["external_account_number"]}
    note = names | {"delivery_note": RECORDS["delivery_note"]}
    assert made.request("POST", PATHS["delivery_note"], note)[0].status == 201
    return made


@pytest.fixture(scope="module")
def auditor(service: RunningService, source: Importer) -> Importer:
    return service.importer(role="auditor", supplier=source.supplier)


def pull(auditor: Importer, folder: Path, *options: str, output: str = "book.ndjson") -> Any:
    words = ("pull", auditor.supplier, "-o", output, *options)
    return importbook(*words, at=folder, access=access_to(auditor))


@pytest.mark.promise("pull-files-private-whole")
def test_a_book_and_its_records_are_private_files(
    auditor: Importer, accounts: list[dict[str, Any]], tmp_path: Path
) -> None:
    shown = pull(auditor, tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "book.ndjson": 0o600,
        "book.delivery_note.ndjson": 0o600,
    }
    numbers = [msgspec.json.decode(line)["external_account_number"] for line in lines(tmp_path / "book.ndjson")]
    assert numbers == [account["external_account_number"] for account in accounts]
    assert f"{ACCOUNTS} accounts in book.ndjson\n1 delivery note in book.delivery_note.ndjson\n" in shown.stdout
    for name in ("book.ndjson", "book.delivery_note.ndjson"):
        again = pull(auditor, tmp_path)
        assert (again.returncode, f"{name} must not exist" in again.stderr) == (2, True)
        (tmp_path / name).rename(tmp_path / f"former.{name}")
    assert pull(auditor, tmp_path).returncode == 0
    assert pull(auditor, tmp_path, output="book.ndjson.zst").returncode == 0
    stored = (tmp_path / "book.ndjson.zst").read_bytes()
    assert zstandard.ZstdDecompressor().stream_reader(stored).read() == (tmp_path / "book.ndjson").read_bytes()


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@pytest.mark.promise("pull-files-private-whole")
def test_a_cut_connection_loses_and_repeats_nothing(
    auditor: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = list[int]()

    def cut(parts: Iterable[bytes]) -> Iterator[bytes]:
        remaining = 40_000
        for part in parts:
            yield part[:remaining]
            remaining -= len(part)
            if remaining < 0:
                cuts.append(remaining)
                raise httpx.ReadError("the connection is broken")

    assert pull(auditor, tmp_path).returncode == 0
    monkeypatch.setattr(client, "lines_of", lambda parts: lines_of(cut(parts)))
    shown = pull(auditor, tmp_path, output="cut.ndjson")
    assert shown.returncode == 0, shown.stderr
    assert len(cuts) > 3
    for name in ("ndjson", "delivery_note.ndjson"):
        assert (tmp_path / f"cut.{name}").read_bytes() == (tmp_path / f"book.{name}").read_bytes()


@pytest.mark.promise("pull-names-left-out")
def test_imports_without_an_account_are_counted_and_a_lost_account_is_an_error(
    service: RunningService, tmp_path: Path
) -> None:
    importer = service.importer()
    sent = [an_account(importer.supplier, number) for number in range(3)]
    bulk(importer, ndjson(*sent))
    wait_until_processed(importer, *sent)
    service.cli("erase", importer.supplier, row_number(sent[0]), "--reason", "request", "--yes")
    auditor = service.importer(role="auditor", supplier=importer.supplier)
    shown = pull(auditor, tmp_path)
    assert (shown.returncode, "Left out: 1 import, ERASED\n" in shown.stderr) == (0, True), shown.stderr
    with psycopg.connect(admin_url(service)) as connection:
        deleted = "DELETE FROM platform.service_account WHERE import_supplier = %s AND external_account_number = %s"
        connection.execute(deleted, (importer.supplier, row_number(sent[1])))
    shown = pull(auditor, tmp_path, output="again.ndjson")
    assert (shown.returncode, "1 import, the platform has lost the account" in shown.stderr) == (1, True)
    assert "1 account in again.ndjson" in shown.stdout


@pytest.mark.promise("pull-parquet-tables")
def test_tables_have_a_row_for_each_object(auditor: Importer, accounts: list[dict[str, Any]], tmp_path: Path) -> None:
    assert pull(auditor, tmp_path, "--parquet", "tables").returncode == 0
    tables = {path.stem: parquet.read_table(path).to_pylist() for path in (tmp_path / "tables").iterdir()}
    with psycopg.connect(admin_url(auditor.service)) as connection:
        for table, rows in tables.items():
            of_supplier = "SELECT account_number FROM platform.service_account WHERE import_supplier = %s"
            query = f'SELECT count(*) FROM platform."{table}" WHERE account_number IN ({of_supplier})'
            assert connection.execute(query.encode(), (auditor.supplier,)).fetchone() == (len(rows),), table
    assert {*tables} == {table.name for table in TABLES}
    [amount, *_] = tables["delivery_note_amount"]
    assert (amount["delivery_note_ordinal"], amount["ordinal"]) == (1, 1)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "tables").iterdir()} == {0o600}
    for account, row in zip(accounts, tables["service_account"], strict=True):
        assert row["external_account_number"] == account["external_account_number"]
        assert comparable("decimal", row["transfer_balance"]) == comparable("decimal", account["transfer_balance"])
        assert msgspec.json.decode(row["notes"])[0]["body"] == account["notes"][0]["body"]
    [first, *_] = tables["payment_instruction"]
    assert first["bank_account_iban"] == accounts[0]["payment_instructions"][0]["bank_account"]["iban"]
    readings = [row for row in tables["reading"] if row["external_account_number"] == row_number(accounts[0])]
    assert {row["register_ordinal"] for row in readings} <= {row["ordinal"] for row in tables["register"]}


def row_number(account: dict[str, Any]) -> str:
    return str(account["external_account_number"])


def test_a_pull_takes_no_file_of_another_that_has_not_ended(tmp_path: Path) -> None:
    output, folder = tmp_path / "book.ndjson", tmp_path / "tables"
    first, second = ([Content(1, ACCOUNT_KIND, msgspec.Raw(b'{"external_account_number":"%d"}' % n))] for n in (1, 2))
    with BookFiles(output, folder) as whole:
        whole.add(first)
        with BookFiles(output, folder) as unfinished:
            unfinished.add(second)
            whole.finish()
            complete = {path: path.read_bytes() for path in (output, *folder.glob("*.parquet"))}
    assert complete == {path: path.read_bytes() for path in (output, *folder.iterdir())}
    assert complete[output] == bytes(first[0].payload) + b"\n"


@pytest.mark.promise("pull-files-private-whole")
def test_nothing_is_written_without_accounts_rights_or_pyarrow(
    service: RunningService, source: Importer, auditor: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, code, sentence in (
        (service.importer(role="auditor"), 2, "must have an account on the platform. It has none."),
        (source, 2, "This key's role does not allow this."),
        (auditor.service.with_key("NOBODYS", auditor.api_key), 2, "has no supplier NOBODYS that this key may read"),
    ):
        shown = pull(key, tmp_path, "--parquet", "tables")
        assert (shown.returncode, sentence in shown.stderr) == (code, True), shown.stderr
        assert [*tmp_path.iterdir()] == []
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    shown = pull(auditor, tmp_path, "--parquet", "tables")
    assert (shown.returncode, "pip install 'importledger-client[parquet]'" in shown.stderr) == (2, True)
    assert [*tmp_path.iterdir()] == []
