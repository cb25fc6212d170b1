"""From a ledger to a book, and from the book to an empty ledger: nothing is lost on the way."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from importledger_client import Client
from importledger_client.book import one_account
from importledger_client.manifest import FORMAT
from tests.support.bulk import bulk
from tests.support.folders import temporary_folder
from tests.support.importbook import access_to, importbook
from tests.support.post_account import PATHS, RECORDS
from tests.support.running import Importer, RunningService, start_service

ACCOUNTS = 30
RECORD_FILES = {kind: f"book.{kind}.ndjson.zst" for kind in PATHS}


def auditor_of(importer: Importer) -> Importer:
    return importer.service.importer(role="auditor", organisation="Auditors", supplier=importer.supplier)


def pushed(folder: Path, book: str, importer: Importer) -> None:
    """Push the book as the run `go`, and certify it against its own manifest."""
    access = access_to(importer)
    assert importbook("push", book, "--run", "go", "--wait", at=folder, access=access).returncode == 0
    assert importbook("manifest", book, "-o", f"{book}.json", at=folder).returncode == 0
    balance(folder, f"{book}.json", importer)


def balance(folder: Path, manifest: str, importer: Importer) -> None:
    shown = importbook("reconcile", "go", "--manifest", manifest, at=folder, access=access_to(importer))
    assert (shown.returncode, "BALANCED" in shown.stdout) == (0, True), shown.stdout + shown.stderr


def pull(folder: Path, importer: Importer) -> str:
    words = ("pull", importer.supplier, "-o", "book.ndjson.zst")
    pulled = importbook(*words, at=folder, access=access_to(auditor_of(importer)))
    assert pulled.returncode == 0, pulled.stdout + pulled.stderr
    return pulled.stdout


@pytest.mark.promise("pull-push-balances")
def test_a_pulled_book_is_pushed_into_an_empty_ledger_and_balances(
    service: RunningService, importer: Importer, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    book = [one_account(importer.supplier, number) for number in range(ACCOUNTS)]
    (first / "source.ndjson").write_bytes(b"".join(msgspec.json.encode(account) + b"\n" for account in book))
    pushed(first, "source.ndjson", importer)
    external = book[0]["external_account_number"]
    for kind, path in PATHS.items():
        body = {"import_supplier": importer.supplier, "external_account_number": external, kind: RECORDS[kind]}
        assert importer.request("POST", path, body)[0].status == 201
    shown = pull(first, importer)
    for kind, name in RECORD_FILES.items():
        assert f"in {name}" in shown
        assert f"POST {name} to {PATHS[kind].replace('create', 'bulk')}" in shown
    assert importbook("manifest", "book.ndjson.zst", "-o", "book.json", at=first).returncode == 0
    balance(first, "book.json", importer)
    with Client(service.base_url, importer.api_key) as client:
        assert_same(client.totals(importer.supplier, "go"), msgspec.json.decode((first / "book.json").read_bytes()))
    with temporary_folder() as folder, start_service(folder) as empty:
        empty.cli("supplier", "create", importer.supplier)
        again = empty.importer(supplier=importer.supplier)
        (second / "pulled.ndjson.zst").write_bytes((first / "book.ndjson.zst").read_bytes())
        pushed(second, "pulled.ndjson.zst", again)
        for kind, name in RECORD_FILES.items():
            path = PATHS[kind].replace("create", "bulk")
            answered = bulk(again, (first / name).read_bytes(), path=path, Content_Encoding="zstd")
            assert answered.statuses == ["IMPORTED"]
        pull(second, again)
        for name in ("book.ndjson.zst", *RECORD_FILES.values()):
            assert (second / name).read_bytes() == (first / name).read_bytes()


def assert_same(totals: dict[str, Any], manifest: dict[str, Any]) -> None:
    common = [name for name in manifest if name in totals and name not in ("paths", "digest")]
    assert manifest["format"] == FORMAT
    assert {"accounts", "readings", "sums", "by_ledger", "buckets"} <= {*common}
    assert {name: totals[name] for name in common} == {name: manifest[name] for name in common}
