"""From a push to a certificate, and the differences that prevent one."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from importledger_client.book import one_account
from tests.support.importbook import Verb, access_to
from tests.support.running import Importer, RunningService, wait_for
from tests.support.whole import admin_url

ACCOUNTS = 12


def an_odd_account(supplier: str, number: int) -> dict[str, Any]:
    """An account with spellings that the platform does not keep."""
    account = one_account(supplier, number)
    account["transfer_balance"] = account["ledgers"][0]["ledger_balance"] = "-0.500"
    account["notes"][0] |= {"body": "Käthe „sagte“ \\ nichts\u2028", "created_at": "2022-11-05T08:30:00.123456"}
    account["metadata"] = [
        {"key": "a", "value": {"b": [1.50, 10**20, None, "ü"], "a": True}},
        {"key": "n", "value": None},
    ]
    account["unknown_occupier"] = False
    account["customers"][0] |= {"landline": None, "title": ""}
    account["payment_schedules"][0]["amount"] = 12.5
    account["supply_addresses"][0]["supply_points"][1]["articles"] = []
    return account


def write(path: Path, accounts: list[dict[str, Any]]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(account) + b"\n" for account in accounts))


def push(folder: Path, accounts: list[dict[str, Any]], verb: Verb) -> None:
    write(folder / "sent.ndjson", accounts)
    pushed = verb("push", "sent.ndjson", "--run", "go", "--wait")
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr


def reconciled(folder: Path, source: list[dict[str, Any]], verb: Verb) -> subprocess.CompletedProcess[str]:
    write(folder / "book.ndjson", source)
    assert verb("manifest", "book.ndjson", "-o", "m.json").returncode == 0
    return verb("reconcile", "go", "--manifest", "m.json")


def test_a_book_that_has_arrived_is_certified_and_the_certificate_can_be_verified(
    service: RunningService, importer: Importer, verb: Verb, tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(1, ACCOUNTS)]
    book.append(an_odd_account(importer.supplier, ACCOUNTS))
    push(tmp_path, book, verb)
    shown = reconciled(tmp_path, book, verb)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "BALANCED" in shown.stdout
    page = tmp_path / "go.certificate.json"
    certificate = json.loads(page.read_text())
    assert certificate["signature"]
    assert certificate["checkpoint"]
    assert certificate["totals"]["accounts"] == ACCOUNTS
    assert (tmp_path / "go.certificate.pdf").read_bytes().startswith(b"%PDF-")
    assert service.cli("verify", str(page)).returncode == 0
    page.write_text(page.read_text().replace('"accounts": 12,', '"accounts": 13,'))
    assert service.cli("verify", str(page), check=False).returncode == 1
    point = book[0]["supply_addresses"][0]["supply_points"][0]
    point["melos"][0]["conversion_factors"][0]["factor"] += "00"  # the digests differ, but not the values
    shown = reconciled(tmp_path, book, verb)
    assert (shown.returncode, "BALANCED" in shown.stdout) == (0, True), shown.stdout


@pytest.mark.promise("differences-to-push")
def test_accounts_that_were_added_or_changed_after_the_push_are_written_to_a_file(
    importer: Importer, verb: Verb, tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(4)]
    push(tmp_path, book[:3], verb)
    book[0]["customers"][0]["family_name"] = "Andersson"
    book[1]["transfer_balance"] = book[1]["ledgers"][0]["ledger_balance"] = "77.70"
    shown = reconciled(tmp_path, book, verb)
    numbers = [account["external_account_number"] for account in book]
    for number, sentence in (
        (0, "different, the source has changed after the push"),
        (1, "different, the source has changed after the push"),
        (3, "missing, the run does not have it"),
    ):
        assert f"  {numbers[number]}: {sentence}" in shown.stdout
    assert numbers[2] not in shown.stdout
    assert "customers.family_name: source A•••, platform " in shown.stdout
    assert "Andersson" not in shown.stdout
    assert "    transfer_balance: source 77.7, platform " in shown.stdout
    file = tmp_path / "go.differences.ndjson"
    assert file.stat().st_mode & 0o777 == 0o600
    written = {json.loads(line)["external_account_number"]: json.loads(line) for line in file.read_bytes().splitlines()}
    assert written == {numbers[number]: book[number] for number in (0, 1, 3)}
    assert f"next:  importbook push go.differences.ndjson --run go --supplier {importer.supplier}" in shown.stdout
    verb("push", "go.differences.ndjson", "--run", "go", "--wait")
    again = reconciled(tmp_path, book, verb)
    assert f"  {numbers[3]}" not in again.stdout
    refused_to_show = verb("reconcile", "go", "--manifest", "m.json", "--show")
    assert refused_to_show.returncode != 0
    assert "must not see" in refused_to_show.stderr


def test_accounts_are_not_compared_if_the_source_has_changed_or_is_missing(
    importer: Importer, verb: Verb, tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(3)]
    push(tmp_path, book[:2], verb)
    write(tmp_path / "book.ndjson", book)
    verb("manifest", "book.ndjson", "-o", "m.json")
    write(tmp_path / "book.ndjson", book[:2])
    shown = verb("reconcile", "go", "--manifest", "m.json")
    assert (shown.returncode, "Make the manifest again" in shown.stderr) == (1, True)
    (tmp_path / "book.ndjson").unlink()
    shown = verb("reconcile", "go", "--manifest", "m.json")
    assert shown.returncode == 1
    assert "accounts: source 3, platform 2" in shown.stdout
    assert "Accounts differ, and are not named. There is no file book.ndjson." in shown.stdout


@pytest.mark.promise("push-makes-manifest")
def test_a_push_makes_the_manifest_of_the_lines_that_it_sends(importer: Importer, verb: Verb, tmp_path: Path) -> None:
    book = [one_account("OTHER", number) for number in range(150)]
    write(tmp_path / "book.ndjson", book)
    words = ("book.ndjson", "--supplier", importer.supplier)
    pushed = verb("push", *words, "--wait", "--manifest", "book.manifest.json")
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    step = f"next:  importbook reconcile book --supplier {importer.supplier} --manifest book.manifest.json"
    assert step in pushed.stdout
    assert verb("manifest", *words, "-o", "again.json").returncode == 0
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "book.manifest.json").read_bytes()
    certified = verb("reconcile", "book", "--manifest", "book.manifest.json")
    assert (certified.returncode, "BALANCED" in certified.stdout) == (0, True), certified.stdout


@pytest.mark.promise("repair-is-safe")
def test_altered_and_deleted_accounts_are_healed_with_an_operators_key(
    service: RunningService, importer: Importer, verb: Verb, tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(3)]
    push(tmp_path, book, verb)
    deleted, external = (account["external_account_number"] for account in book[:2])
    with psycopg.connect(admin_url(service)) as connection:
        connection.execute(
            "UPDATE platform.customer SET mobile = 'x' FROM platform.service_account AS a WHERE a.account_number ="
            " customer.account_number AND import_supplier = %s AND external_account_number = %s",
            (importer.supplier, external),
        )
        connection.execute(
            "DELETE FROM platform.service_account WHERE import_supplier = %s AND external_account_number = %s",
            (importer.supplier, deleted),
        )
    shown = reconciled(tmp_path, book, verb)
    assert (shown.returncode, "Repair" in shown.stdout, [*tmp_path.glob("go.certificate.*")]) == (1, False, [])
    assert f"{deleted}: missing, the platform has lost or altered it" in shown.stdout
    assert f"importledger projections heal {importer.supplier} {deleted}" in shown.stdout
    words = ("reconcile", "go", "--manifest", "m.json", "--repair")
    refused_repair = verb(*words)
    assert "Repair: heal 2 accounts: " in refused_repair.stdout
    assert f"  {external}: not repaired: " in refused_repair.stdout
    operator = access_to(service.importer(role="operator", supplier=importer.supplier))
    assert verb(*words, access=operator).returncode == 1

    def is_balanced() -> bool:
        return verb(*words[:-1]).returncode == 0

    wait_for(is_balanced, "the accounts are healed")
    events = service.cli("history", importer.supplier, external, "--json").stdout.splitlines()
    assert json.loads(events[-1])["event"] == "ImportProcessed"  # nothing was reverted or sent again


def test_a_file_that_is_no_manifest_is_wrong_use(tmp_path: Path, verb: Verb) -> None:
    (tmp_path / "m.json").write_text("{}")
    shown = verb("reconcile", "go", "--supplier", "X", "--manifest", "m.json")
    assert (shown.returncode, "importbook manifest" in shown.stderr) == (2, True)
