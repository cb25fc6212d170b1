"""Counts, sums and digests of a book, and the differences from the platform."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from importledger_client.book import one_account
from importledger_client.certificate import pdf_of
from importledger_client.comparing import compared
from importledger_client.counter import Counter, count
from importledger_client.manifest import Counting, NoAccount, decoded
from tests.support.importbook import environment, importbook
from tests.support.running import wait_for


def manifest_of(accounts: list[dict[str, Any]]) -> dict[str, Any]:
    counting = Counting()
    for account in accounts:
        counting.add(msgspec.json.encode(account))
    return counting.manifest("NORDWIND")


@pytest.fixture
def accounts() -> list[dict[str, Any]]:
    return [one_account("NORDWIND", number) for number in range(1, 4)]


def test_counts_are_integers_and_sums_exact_decimals(accounts: list[dict[str, Any]]) -> None:
    for account, balance in zip(accounts, ("0.1000", "0.2", "-1000000000000000.3"), strict=True):
        account["ledgers"][0]["ledger_balance"] = balance
    manifest = manifest_of(accounts)
    counts = ("accounts", "customers", "supply_points", "readings", "documents")
    assert [manifest[name] for name in counts] == [3, 3, 6, 18, 3]
    assert manifest["sums"]["balances"] == manifest["by_ledger"]["ENERGY"]["balance_sum"] == "-1000000000000000.0000"


def test_a_sum_is_shown_if_it_has_a_value_and_the_next_command_is_reconcile(tmp_path: Path) -> None:
    """A book with `transfer_balance` alone has that sum, and no sum of ledgers' balances that reads 0."""
    book = tmp_path / "book.ndjson"
    book.write_text(
        '{"external_account_number": "K1", "transfer_balance": "12.50"}\n'
        '{"external_account_number": "K2", "transfer_balance": "-2.5"}\n'
    )
    made = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "sum of transfer balances 10.00 · in m.json" in made.stdout
    assert "next:  importbook reconcile book --manifest m.json" in made.stdout
    manifest = msgspec.json.decode((tmp_path / "m.json").read_bytes())
    page = pdf_of({"run": "go"}, manifest)
    assert b"sum of transfer balances" in page
    assert b"sum of balances" not in page
    book.write_text('{"external_account_number": "K1"}\n[]\n')
    ended = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (ended.returncode, "next:" in ended.stdout) == (1, False)


def test_accounts_of_one_supplier_are_never_compared_with_the_run_of_another(tmp_path: Path) -> None:
    """All would be missing, and the next command would create them under the other supplier."""
    accounts = [msgspec.json.encode(one_account(name, 1)) for name in ("NORDWIND", "SUED")]
    access = {"IMPORTLEDGER_URL": "http://127.0.0.1:9", "IMPORTLEDGER_KEY": "ilk_x"}
    (tmp_path / "book.ndjson").write_bytes(b"\n".join(accounts))
    made = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    assert (made.returncode, (tmp_path / "m.json").exists()) == (2, False)
    assert "must have accounts of one supplier, and these are of NORDWIND, SUED" in made.stderr
    (tmp_path / "book.ndjson").write_bytes(accounts[0])
    assert importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path).returncode == 0
    words = ("reconcile", "go", "--manifest", "m.json", "--supplier", "SUED")
    compared = importbook(*words, at=tmp_path, access=access)
    assert compared.returncode == 2
    assert "The manifest has accounts of NORDWIND, not of SUED." in compared.stderr


def test_a_killed_process_leaves_no_processes_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "importledger_client", "manifest", "-", "-o", "m.json"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdin=subprocess.PIPE) as counting:
        assert counting.stdin is not None
        counting.stdin.write(b'{"external_account_number": "K1"}\n' * 600)
        counting.stdin.flush()
        parent = psutil.Process(counting.pid)
        wait_for(lambda: len(parent.children()) > 1, "lines are counted in other processes")
        helpers = parent.children()
        counting.kill()
    wait_for(lambda: not any(map(is_alive, helpers)), "they have ended")


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_neither_the_order_of_accounts_nor_the_spelling_of_a_value_matters(accounts: list[dict[str, Any]]) -> None:
    assert manifest_of(accounts) == manifest_of(accounts[::-1])
    other = copy.deepcopy(accounts)
    other[0]["transfer_balance"] += "00"
    other[0]["notes"][0]["created_at"] = "2022-11-05T07:30:00Z"
    other[0]["billing_address3"] = ""
    other[1]["import_supplier"] = "OTHER"
    assert manifest_of(accounts)["buckets"] == manifest_of(other)["buckets"]


def test_every_loss_and_change_is_found(accounts: list[dict[str, Any]]) -> None:
    def after(change: Any) -> tuple[set[str], int]:
        other = copy.deepcopy(accounts)
        point = other[0]["supply_addresses"][0]["supply_points"][0]
        change(other, point["melos"][0]["meters"][0]["registers"][0]["readings"])
        found = compared(manifest_of(accounts), manifest_of(other))
        return {difference.name for difference in found.differences}, len(found.buckets)

    assert after(lambda _, readings: readings[1].pop("qualifier")) == (set(), 1)
    assert after(lambda _, readings: readings[1].update(qualifier="OTHER")) == (set(), 1)
    assert after(lambda _, readings: readings[1].update(value="1")) == ({"sums.readings"}, 1)
    assert after(lambda _, readings: readings.reverse()) == (set(), 1)
    lost, buckets = after(lambda other, _: other.pop())
    assert {"accounts", "customers", "documents", "sums.readings"} <= lost
    assert buckets == 1


def test_a_field_that_is_not_of_the_contract_is_unaccounted_unless_a_rule_drops_it(
    accounts: list[dict[str, Any]],
) -> None:
    platform = manifest_of(accounts)
    accounts[0]["customers"][0]["shoe_size"] = 43
    accounts[1]["customers"][0]["shoe_size"] = None
    manifest = manifest_of(accounts)
    (found,) = compared(manifest, platform).differences
    assert (found.name, found.source, found.note[:11]) == ("customers.shoe_size", "1", "unaccounted")
    ignoring = compared(manifest, platform | {"unknown_fields": "ignore"})
    assert (ignoring.is_balanced, ignoring.dropped) == (True, ["customers.shoe_size"])


def test_a_large_book_is_counted_in_other_processes_with_the_same_result() -> None:
    lines = [msgspec.json.encode(one_account("NORDWIND", number)) for number in range(600)]
    lines[550:552] = b"[]", lines[0]
    counter = Counter(2)
    for number, line in enumerate(lines):
        counter.add(("book.ndjson", number), line)
    counting, bad = counter.finish()
    here, bad_here = count([(("book.ndjson", number), line) for number, line in enumerate(lines)])
    assert (counting.manifest(), bad) == (here.manifest(), bad_here)
    assert (counting.accounts, counting.repeated) == (here.accounts, here.repeated) == (599, 1)
    assert bad == [(("book.ndjson", 550), "it is not an object")]


def test_the_certificate_for_people_is_one_page(accounts: list[dict[str, Any]]) -> None:
    page = pdf_of({"run": "go (1)", "signature": "s" * 400, "checkpoint": "a\nb"}, manifest_of(accounts))
    assert page.startswith(b"%PDF-1.4")
    assert page.count(b"/Type /Page ") == 1
    assert b"BALANCED" in page
    start = int(page.rsplit(b"startxref\n", 1)[1].split()[0])
    assert page[start:].startswith(b"xref")


@pytest.mark.parametrize(
    "line", [b"", b"[1]", b"{", b'{"a":"\xff"}', b"[" * 5_000, b'{"a":1e1000000000000000000}'], ids=range(6)
)
def test_a_line_that_is_no_account_is_refused(line: bytes) -> None:
    with pytest.raises(NoAccount):
        decoded(line)


@pytest.mark.parametrize(
    "odd",
    [
        *(b"1e1000000", b"1e50000000", b"-1e-999999999", b"1e300", b"true", b"[]", b"{}"),
        *(b'"1e999999999999999"', b'"sNaN"', b'"NaN"', b'"Infinity"', b'"5,00"'),
    ],
)
def test_an_amount_that_is_no_number_spoils_no_sum(accounts: list[dict[str, Any]], odd: bytes) -> None:
    """The service refuses such an account; a manifest counts the content of the file."""
    accounts[1]["ledgers"][0]["ledger_balance"] = accounts[1]["transfer_balance"] = "ODD"
    counting = Counting()
    for account in accounts:
        counting.add(msgspec.json.encode(account).replace(b'"ODD"', odd))
    content = msgspec.json.encode(counting.manifest("NORDWIND"))
    accounts[1]["ledgers"][0]["ledger_balance"] = accounts[1]["transfer_balance"] = "0"
    expected, found = manifest_of(accounts), msgspec.json.decode(content)
    assert (found["accounts"], found["sums"]) == (3, expected["sums"])
    sums = [[ledger["balance_sum"] for ledger in side["by_ledger"].values()] for side in (found, expected)]
    assert sums[0] == sums[1]
    assert len(content) - len(msgspec.json.encode(found["buckets"])) < 30_000


def test_a_manifest_never_replaces_the_book(tmp_path: Path) -> None:
    book = tmp_path / "book.ndjson"
    book.write_text('{"external_account_number": "K1", "import_supplier": "NORDWIND"}\n')
    before = book.read_bytes()
    refused = importbook("manifest", "book.ndjson", "-o", "book.ndjson", at=tmp_path)
    assert (refused.returncode, book.read_bytes()) == (2, before)
    assert "must be a new file or an earlier manifest" in refused.stderr
    for _ in range(2):
        assert importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path).returncode == 0
