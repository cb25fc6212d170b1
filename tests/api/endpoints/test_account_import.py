"""Validate, create and status over HTTP, against a running service."""

import itertools
import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, wait_for


@pytest.fixture
def account(importer: Importer, request: pytest.FixtureRequest) -> dict[str, Any]:
    """A fresh account of the importer's supplier."""
    return an_account(importer.supplier, zlib.crc32(request.node.name.encode()) % 10**6 + 1000)


def status_of(importer: Importer, account: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = importer.client.status(importer.supplier, account["external_account_number"]).body
    return body


def wait_until(importer: Importer, account: dict[str, Any], status: str) -> dict[str, Any]:
    wait_for(lambda: status_of(importer, account)["status"] == status, f"the import is {status}")
    return status_of(importer, account)


@pytest.mark.promise("post-v2-data-import")
def test_validating_has_no_side_effects(importer: Importer, account: dict[str, Any]) -> None:
    answer = importer.client.validate(encoded(account))
    assert (answer.status, answer.body) == (200, {})
    assert importer.client.status(importer.supplier, account["external_account_number"]).status == 404


@pytest.mark.promise("post-v2-data-import-accounts", "get-v2-data-import", "create-asynchronous-outcome-read")
def test_an_account_is_created_and_its_status_can_be_read_at_once(importer: Importer, account: dict[str, Any]) -> None:
    answer = importer.client.create(encoded(account))
    assert (answer.status, answer.body) == (201, {})
    first = status_of(importer, account)
    assert set(first) == {"status", "service_identifier", "created_at", "modified_at", "latest_error"}
    assert first["status"] in ("PENDING", "IN_PROGRESS", "PROCESSED")
    done = wait_until(importer, account, "PROCESSED")
    assert done["service_identifier"].startswith("A-")
    assert done["latest_error"] is None
    assert done["created_at"] == first["created_at"]
    assert done["modified_at"] > done["created_at"]
    assert datetime.fromisoformat(done["created_at"]).utcoffset() == timedelta(0)


@pytest.mark.promise("post-v2-data-import", "post-v2-data-import-accounts", "create-validates-same-rules")
@pytest.mark.promise("failure-field-also-nested", "400-detail-code-errors", "400-account-failed-validation")
@pytest.mark.asvs("V2.3.3", "V16.5.3")
def test_all_problems_come_at_once_as_list_and_as_tree(importer: Importer, account: dict[str, Any]) -> None:
    """Rules of the market and of the shape are checked together, and nothing of a refused request is stored."""
    spoilt = changed(account, "+49 12", "customers", 0, "landline")
    spoilt = changed(spoilt, ..., "supply_addresses", 0, "supply_postcode")
    for send in (importer.client.validate, importer.client.create):
        answer = send(encoded(spoilt))
        assert answer.status == 400
        assert answer.body["code"] == "account_failed_validation"
        assert {(error["attr"], error["code"]) for error in answer.body["errors"]} == {
            ("customers.0.landline", "invalid_phone_number"),
            ("supply_addresses.0.supply_postcode", "required"),
        }
        assert answer.body["customers"]["0"]["landline"] == ["The landline number must be a valid phone number."]
        [sentence] = answer.body["supply_addresses"]["0"]["supply_postcode"]
        assert sentence == "Supply addresses → supply postcode must be given."
    assert importer.client.status(importer.supplier, account["external_account_number"]).status == 404


@pytest.mark.promise("post-v2-data-import-accounts-when", "400-account-import-process")
def test_an_imported_account_is_refused_with_its_number(importer: Importer, account: dict[str, Any]) -> None:
    importer.client.create(encoded(account))
    number = wait_until(importer, account, "PROCESSED")["service_identifier"]
    expected = {
        "non_field_errors": {
            "detail": "This account has already been imported.",
            "code": "account_import_process_already_imported",
        },
        "account_id": number,
    }
    for again in (account, changed(account, "Else", "billing_address1"), changed(account, 5, "billing_address1")):
        answer = importer.client.create(encoded(again))
        assert (answer.status, answer.body) == (400, expected)


def test_a_schedule_window_is_waited_for(importer: Importer, account: dict[str, Any]) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=2)
    window = {"schedule_window_start": soon.isoformat(), "schedule_window_end": (soon + timedelta(days=1)).isoformat()}
    importer.client.create(encoded({"payload": account, "task_params": window}))
    assert status_of(importer, account)["status"] == "PENDING"
    done = wait_until(importer, account, "PROCESSED")
    assert datetime.fromisoformat(done["modified_at"]) >= soon


@pytest.mark.promise("description-s-patterns-say")
def test_an_external_number_may_contain_anything(importer: Importer, account: dict[str, Any]) -> None:
    externals = ("A/B", "ä ö/ü?#%", "...", "%2F", "a+b", "日本")
    accounts = [changed(account, external, "external_account_number") for external in externals]
    assert [importer.client.create(encoded(each)).status for each in accounts] == [201] * len(accounts)
    for each in accounts:
        assert wait_until(importer, each, "PROCESSED")["service_identifier"]


@pytest.mark.promise("every-error-once-also", "every-error-once-object")
def test_all_that_can_be_judged_is_told_also_where_the_supplier_is_unknown(importer: Importer) -> None:
    missing = {"external_account_number", "customers", "non_field_errors"}
    for supplier, more in ((importer.supplier, set()), ("X", {"import_supplier"})):
        answer = importer.client.validate(encoded({"import_supplier": supplier}))
        assert answer.status == 400
        assert {error["attr"] for error in answer.body["errors"]} == missing | more


@pytest.mark.promise("supplier-ongoing", "supplier-paused")
def test_a_paused_supplier_takes_no_accounts_until_it_is_open_again(
    service: RunningService, importer: Importer, account: dict[str, Any]
) -> None:
    paused = service.importer()
    account = changed(account, paused.supplier, "import_supplier")
    imported = changed(account, "BEFORE", "external_account_number")
    paused.client.create(encoded(imported))
    wait_until(paused, imported, "PROCESSED")
    service.cli("supplier", "status", paused.supplier, "paused", "--reason", "audit")
    fresh = (changed(account, f"WHILE {n}", "external_account_number") for n in itertools.count())
    wait_for(lambda: paused.client.create(encoded(next(fresh))).status == 400, "the pause is in force")
    assert paused.client.create(encoded(account)).codes == ("import_supplier_migration_not_ongoing",)
    assert paused.client.create(encoded(imported)).codes == ("account_import_process_already_imported",)
    assert paused.client.validate(encoded(account)).status == 200
    service.cli("supplier", "status", paused.supplier, "ongoing")
    wait_for(lambda: paused.client.create(encoded(account)).status == 201, "it is open again")


@pytest.mark.promise(
    "get-v1-data-import", "get-v1-data-import-all", "get-v1-data-import-pending", "get-v1-data-import-imported"
)
def test_the_lists_and_the_transfer_status_agree_with_the_v2_status(service: RunningService) -> None:
    lister = service.importer()
    accounts = [an_account(lister.supplier, number) for number in range(1, 6)]
    for account in accounts[:3]:
        lister.client.create(encoded(account))
    dry, waiting = accounts[3:]
    lister.client.create(encoded({"payload": dry, "task_params": {"is_dry_run": True}}))
    later = {"schedule_window_start": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    lister.client.create(encoded({"payload": waiting, "task_params": later}))
    wait_for(lambda: len(lister.client.imported(lister.supplier).body) == 3, "three are imported")
    wait_until(lister, dry, "DRY_RUN_SUCCEEDED")
    numbers = [account["external_account_number"] for account in accounts]

    def listed(kind: str) -> list[dict[str, Any]]:
        path = f"/v1/data-import/{kind}-account-import-processes/{lister.supplier}"
        bare, slashed = (lister.request("GET", path + end)[0] for end in ("", "/"))
        assert bare == slashed
        body: list[dict[str, Any]] = bare.body
        return body

    assert [item["external_account_number"] for item in listed("all")] == numbers
    assert [item["external_account_number"] for item in listed("imported")] == numbers[:3]
    assert [item["external_account_number"] for item in listed("pending")] == numbers[3:]
    assert all(item["service_account_number"] is item["account_created_at"] is None for item in listed("pending"))
    for item in listed("imported"):
        external = item["external_account_number"]
        assert (
            item["service_account_number"] == lister.client.status(lister.supplier, external).body["service_identifier"]
        )
        transfer = transfer_status(lister, external)
        assert transfer == (200, {"status": "COMPLETED", "service_account_number": item["service_account_number"]})
    for external in numbers[3:]:
        assert transfer_status(lister, external) == (200, {"status": "UNKNOWN", "service_account_number": ""})
    assert transfer_status(lister, "none")[0] == 404


def test_two_equal_submissions_at_the_same_moment_are_one_process(
    service: RunningService, importer: Importer, account: dict[str, Any]
) -> None:
    body = encoded({"payload": account, "task_params": {"is_dry_run": False}})
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(importer.client.create, [body] * 16))
    codes = {answer.codes for answer in answers if answer.status != 201}
    assert codes <= {("account_import_process_already_imported",)}
    wait_until(importer, account, "PROCESSED")
    history = service.cli("history", importer.supplier, account["external_account_number"], "--json").stdout
    assert [json.loads(line)["event"] for line in history.splitlines()].count("ImportStaged") == 1


def transfer_status(importer: Importer, external: str) -> tuple[int, Any]:
    answer, _ = importer.request("GET", f"/v1/data-import/account-transfer-status/{importer.supplier}/{external}/")
    return answer.status, answer.body
