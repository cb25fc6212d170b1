"""From a push to a certificate, and the differences that prevent one."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from importledger_client.book import one_account
from tests.support.importbook import access_to, importbook
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


def push(folder: Path, accounts: list[dict[str, Any]], access: Mapping[str, str]) -> None:
    write(folder / "sent.ndjson", accounts)
    pushed = importbook("push", "sent.ndjson", "--run", "go", "--wait", at=folder, access=access)
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr


def reconciled(
    folder: Path, source: list[dict[str, Any]], access: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    write(folder / "book.ndjson", source)
    assert importbook("manifest", "book.ndjson", "-o", "m.json", at=folder).returncode == 0
    return importbook("reconcile", "go", "--manifest", "m.json", at=folder, access=access)


def refused(folder: Path, source: list[dict[str, Any]], access: Mapping[str, str]) -> set[str]:
    """The names of all differences; nothing is certified."""
    shown = reconciled(folder, source, access)
    assert shown.returncode == 1, shown.stdout + shown.stderr
    assert "BALANCED" not in shown.stdout
    assert not [*folder.glob("go.certificate.*")]
    return set(re.findall(r"^ +([A-Za-z_.0-9-]+): (?:source|missing|different)", shown.stdout, re.MULTILINE))


def test_a_book_that_has_arrived_is_certified_and_the_certificate_can_be_verified(
    service: RunningService, importer: Importer, access: Mapping[str, str], tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(1, ACCOUNTS)]
    book.append(an_odd_account(importer.supplier, ACCOUNTS))
    push(tmp_path, book, access)
    shown = reconciled(tmp_path, book, access)
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


def test_everything_that_was_dropped_or_altered_is_found(
    importer: Importer, access: Mapping[str, str], tmp_path: Path
) -> None:
    book, sent = ([one_account(importer.supplier, number) for number in range(6)] for _ in range(2))
    for point in sent[0]["supply_addresses"][0]["supply_points"]:
        del point["melos"][0]["meters"][0]["registers"][0]["readings"][0]["qualifier"]
    sent[3]["customers"][0]["family_name"] = "Andersson"
    sent[5]["ledgers"][0]["current_statement_transactions"][0]["amount"] = "0.01"
    push(tmp_path, sent, access)
    assert refused(tmp_path, book, access) == {
        *(book[number]["external_account_number"] for number in (0, 3, 5)),
        "supply_addresses.supply_points.melos.meters.registers.readings.qualifier",
        "customers.family_name",
        "ledgers.current_statement_transactions.amount",
        "sums.transactions",
        "by_ledger.ENERGY.transaction_sum",
    }


def test_an_account_that_was_deleted_by_hand_is_found(
    service: RunningService, importer: Importer, access: Mapping[str, str], tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(3)]
    push(tmp_path, book, access)
    with psycopg.connect(admin_url(service)) as connection:
        connection.execute(
            "DELETE FROM platform.service_account WHERE import_supplier = %s AND external_account_number = %s",
            (importer.supplier, book[0]["external_account_number"]),
        )
    external = book[0]["external_account_number"]
    assert {"accounts", external} <= refused(tmp_path, book, access)
    shown = importbook("reconcile", "go", "--manifest", "m.json", at=tmp_path, access=access)
    assert f"{external}: missing, the platform has lost or altered it" in shown.stdout
    assert f"importledger projections heal {importer.supplier} {external}" in shown.stdout
    service.cli("projections", "heal", importer.supplier, external)
    certified = importbook("reconcile", "go", "--manifest", "m.json", at=tmp_path, access=access)
    assert (certified.returncode, "BALANCED" in certified.stdout) == (0, True), certified.stdout


@pytest.mark.promise("differences-to-push")
def test_accounts_that_were_added_or_changed_after_the_push_are_written_to_a_file(
    importer: Importer, access: Mapping[str, str], tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(4)]
    push(tmp_path, book[:3], access)
    book[0]["customers"][0]["family_name"] = "Andersson"
    book[1]["transfer_balance"] = book[1]["ledgers"][0]["ledger_balance"] = "77.70"
    shown = reconciled(tmp_path, book, access)
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
    importbook("push", "go.differences.ndjson", "--run", "go", "--wait", at=tmp_path, access=access)
    again = reconciled(tmp_path, book, access)
    assert f"  {numbers[3]}" not in again.stdout
    refused_to_show = importbook("reconcile", "go", "--manifest", "m.json", "--show", at=tmp_path, access=access)
    assert refused_to_show.returncode != 0
    assert "must not see" in refused_to_show.stderr


def test_counts_are_compared_without_the_files_of_the_source(
    importer: Importer, access: Mapping[str, str], tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(3)]
    push(tmp_path, book[:2], access)
    write(tmp_path / "book.ndjson", book)
    importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    (tmp_path / "book.ndjson").unlink()
    shown = importbook("reconcile", "go", "--manifest", "m.json", at=tmp_path, access=access)
    assert shown.returncode == 1
    assert "accounts: source 3, platform 2" in shown.stdout
    assert "Accounts differ, and are not named. There is no file book.ndjson." in shown.stdout


@pytest.mark.promise("push-makes-manifest")
def test_a_push_makes_the_manifest_of_the_lines_that_it_sends(
    importer: Importer, access: Mapping[str, str], tmp_path: Path
) -> None:
    book = [one_account("OTHER", number) for number in range(150)]
    write(tmp_path / "book.ndjson", book)
    words = ("book.ndjson", "--supplier", importer.supplier)
    pushed = importbook("push", *words, "--wait", "--manifest", "book.manifest.json", at=tmp_path, access=access)
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    assert (
        f"next:  importbook reconcile book --supplier {importer.supplier} --manifest book.manifest.json"
        in pushed.stdout
    )
    assert importbook("manifest", *words, "-o", "again.json", at=tmp_path).returncode == 0
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "book.manifest.json").read_bytes()
    certified = importbook("reconcile", "book", "--manifest", "book.manifest.json", at=tmp_path, access=access)
    assert (certified.returncode, "BALANCED" in certified.stdout) == (0, True), certified.stdout


@pytest.mark.promise("push-makes-manifest")
def test_a_push_that_stops_writes_no_manifest(importer: Importer, access: Mapping[str, str], tmp_path: Path) -> None:
    book = [one_account(importer.supplier, number) for number in range(40)]
    for account in book:
        account["customers"][0]["date_of_birth"] = "gestern"
    write(tmp_path / "book.ndjson", book)
    words = ("push", "book.ndjson", "--max-errors", "1", "--manifest", "m.json")
    stopped = importbook(*words, at=tmp_path, access=access)
    assert (stopped.returncode, (tmp_path / "m.json").exists()) == (1, False)


@pytest.mark.promise("repair-is-safe")
def test_repair_heals_with_an_operators_key_and_says_so(
    service: RunningService, importer: Importer, access: Mapping[str, str], tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(3)]
    push(tmp_path, book, access)
    external = book[1]["external_account_number"]
    with psycopg.connect(admin_url(service)) as connection:
        connection.execute(
            "UPDATE platform.customer SET mobile = 'x' FROM platform.service_account AS a WHERE a.account_number ="
            " customer.account_number AND import_supplier = %s AND external_account_number = %s",
            (importer.supplier, external),
        )
    shown = reconciled(tmp_path, book, access)
    assert "Repair" not in shown.stdout
    words = ("reconcile", "go", "--manifest", "m.json", "--repair")
    refused_repair = importbook(*words, at=tmp_path, access=access)
    assert f"Repair: heal 1 account: {external}" in refused_repair.stdout
    assert f"  {external}: not repaired: " in refused_repair.stdout
    operator = access_to(service.importer(role="operator", supplier=importer.supplier))
    assert importbook(*words, at=tmp_path, access=operator).returncode == 1

    def is_balanced() -> bool:
        return importbook(*words[:-1], at=tmp_path, access=access).returncode == 0

    wait_for(is_balanced, "the account is healed")
    events = service.cli("history", importer.supplier, external, "--json").stdout.splitlines()
    assert json.loads(events[-1])["event"] == "ImportProcessed"  # nothing was reverted or sent again


def test_another_spelling_is_certified(importer: Importer, access: Mapping[str, str], tmp_path: Path) -> None:
    book = [one_account(importer.supplier, number) for number in range(3)]
    push(tmp_path, book, access)
    book[0]["supply_addresses"][0]["supply_points"][0]["melos"][0]["conversion_factors"][0]["factor"] += "00"
    shown = reconciled(tmp_path, book, access)
    assert (shown.returncode, "BALANCED" in shown.stdout) == (0, True), shown.stdout


def test_a_source_that_has_changed_since_its_manifest_is_not_compared(
    importer: Importer, access: Mapping[str, str], tmp_path: Path
) -> None:
    book = [one_account(importer.supplier, number) for number in range(2)]
    push(tmp_path, book, access)
    book[0]["customers"][0]["family_name"] = "Andersson"
    write(tmp_path / "book.ndjson", book)
    importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path)
    write(tmp_path / "book.ndjson", book[1:])
    shown = importbook("reconcile", "go", "--manifest", "m.json", at=tmp_path, access=access)
    assert (shown.returncode, "Make the manifest again" in shown.stderr) == (1, True)


def test_a_file_that_is_no_manifest_is_wrong_use(tmp_path: Path, access: Mapping[str, str]) -> None:
    (tmp_path / "m.json").write_text("{}")
    shown = importbook("reconcile", "go", "--supplier", "X", "--manifest", "m.json", at=tmp_path, access=access)
    assert (shown.returncode, "importbook manifest" in shown.stderr) == (2, True)


MAPPING = """
key: Nr
dates: DD.MM.YYYY
decimals: 1.234,56
empty: ["NULL"]
files:
  zaehler: {path: zaehler.csv, key: Nr}
  stand: {path: stand.csv, key: Nr}
account:
  external_account_number: Nr
  transfer_balance: Saldo
  customers:
  - {family_name: Name, given_name: {column: Vorname, first: by Ort}}
  supply_addresses:
  - each: [Ort]
    supply_address1: Straße
    supply_address4: Ort
    supply_postcode: PLZ
    customer_at_supply_address_from_date: Einzug
    supply_points:
    - from: zaehler
      on: {LS: Ort}
      each: [MaLo]
      identifier: MaLo
      supply_type: {constant: ELECTRICITY}
      supply_start_date: Beginn
      melos:
      - melo_number: MeLo
        meters:
        - each: [Zähler]
          meter_number: Zähler
          meter_type: {constant: DREHSTROMZAEHLER}
          active_from: Beginn
          registers:
          - obis_code: {constant: "1-1:1.8.0"}
            readings:
            - {from: stand, value: Stand, read_at: Tag, origin: {constant: LEGACY_SYSTEM},
               type_of_read: {constant: BILLING}, status: {constant: SAVED}, qualifier: {constant: READ}}
"""
POINTS = ("54279873384", "50263881870", "52705411058", "55268095799")


def tables(folder: Path, *, balance: str = "1.234,50") -> None:
    """Two accounts of two places each, in three files of different encodings."""
    customers = "Nr;Name;Vorname;Ort;Straße;PLZ;Einzug;Saldo\r\n"
    meters, readings = "Nr|LS|MaLo|MeLo|Zähler|Beginn\n", "Nr,Zähler,Stand,Tag\n"
    for number, point in enumerate(POINTS):
        key, place = f"T-{number // 2}", "Köln" if number % 2 else "Bonn"
        customers += f"{key};Groß;NULL;{place};Ring {number};5066{number};31.12.2021;{balance}\r\n"
        meters += f"{key}|{place}|{point}|DE{number:031d}|Z{number}|2021-12-31T23:00:00Z\n"
        readings += (
            f'{key},Z{number},"{number + 1}.100,5",01.02.2023\n{key},Z{number},"{number + 1}.200,5",01.02.2024\n'
        )
    (folder / "kunden.csv").write_bytes(customers.encode("cp1252"))
    (folder / "zaehler.csv").write_bytes(meters.encode("utf-16"))
    (folder / "stand.csv").write_bytes(readings.encode("utf-8-sig"))
    (folder / "m.yaml").write_text(MAPPING, encoding="utf-8")


def test_a_book_of_three_tables_is_certified(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    tables(tmp_path)
    words = ("kunden.csv", "--mapping", "m.yaml", "--supplier", importer.supplier)
    pushed = importbook("push", *words, "--run", "go", "--wait", at=tmp_path, access=access)
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    for sentence in ("kunden.csv: CSV · cp1252 · delimiter ;", "zaehler.csv: CSV · utf-16 · delimiter |"):
        assert sentence in pushed.stdout
    counted = importbook("manifest", *words, "-o", "m.json", at=tmp_path, access=access)
    assert counted.returncode == 0, counted.stdout
    manifest = json.loads((tmp_path / "m.json").read_bytes())
    counts = ("accounts", "supply_addresses", "meters", "readings")
    assert [manifest[name] for name in counts] == [2, 4, 4, 8]
    certified = importbook("reconcile", "go", "--manifest", "m.json", at=tmp_path, access=access)
    assert (certified.returncode, "BALANCED" in certified.stdout) == (0, True), certified.stdout


def test_a_misread_number_is_never_certified(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    tables(tmp_path, balance="12.50")
    words = ("kunden.csv", "--mapping", "m.yaml", "--supplier", importer.supplier)
    pushed = importbook("push", *words, "--run", "go", at=tmp_path, access=access)
    assert (pushed.returncode, "refused 2" in pushed.stdout) == (1, True)
    again = importbook("push", "go.failures.ndjson", at=tmp_path, access=access)  # as it is, with nothing corrected
    assert (again.returncode, "accepted 0 · replayed 0 · refused 2" in again.stdout) == (1, True)
    assert importbook("manifest", *words, "-o", "m.json", at=tmp_path, access=access).returncode != 0
