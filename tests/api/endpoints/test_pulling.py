"""The accounts and records of a supplier, read again in the format of imports."""

from typing import Any

import pytest

from schemas.reading.meaning import meaning
from schemas.submission import stored_submission
from tests.support.bulk import wait_until_processed
from tests.support.importing import Answer
from tests.support.make import an_account, encoded
from tests.support.post_account import PATHS, RECORDS
from tests.support.running import Importer, RunningService, wait_for


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """An importer with accounts 1 to 4: 1 has a record of each kind, 2 was erased, 3 reverted; 5 was a rehearsal."""
    made = service.importer()
    accounts = [an_account(made.supplier, number) for number in range(1, 5)]
    for account in accounts:
        assert made.client.create(encoded(account)).status == 201
    wait_until_processed(made, *accounts)
    for kind, path in PATHS.items():
        assert made.request("POST", path, envelope(made, kind))[0].status == 201
    rehearsal = {"payload": an_account(made.supplier, 5), "task_params": {"is_dry_run": True}}
    assert made.client.create(encoded(rehearsal)).status == 201
    wait_for(lambda: state_of(made, 5) == "DRY_RUN_SUCCEEDED", "the rehearsal has ended")
    service.cli("erase", made.supplier, external(made, 2), "--reason", "request", "--yes")
    service.cli("revert", made.supplier, external(made, 3), "--reason", "wrong", "--yes")
    return made


def external(importer: Importer, number: int) -> str:
    return str(an_account(importer.supplier, number)["external_account_number"])


def envelope(importer: Importer, kind: str) -> dict[str, Any]:
    return {"import_supplier": importer.supplier, "external_account_number": external(importer, 1), kind: RECORDS[kind]}


def state_of(importer: Importer, number: int) -> str:
    return str(importer.client.status(importer.supplier, external(importer, number)).body["status"])


@pytest.fixture(scope="module")
def auditor(service: RunningService, importer: Importer) -> Importer:
    return service.importer(role="auditor", organisation="Auditors", supplier=importer.supplier)


def pull(auditor: Importer, query: str = "") -> Answer:
    return auditor.request("GET", f"/v2/data-import/suppliers/{auditor.supplier}/content/{query}")[0]


@pytest.mark.promise("pull-reads-book", "pull-names-left-out")
def test_accounts_and_records_are_read_in_the_order_of_their_imports(importer: Importer, auditor: Importer) -> None:
    lines = pull(auditor).body
    numbers = [line["payload"]["external_account_number"] for line in lines]
    assert numbers == [external(importer, number) for number in (1, 1, 1, 1, 2, 3, 4, 5)]
    assert [line["kind"] for line in lines] == ["account", *PATHS, "left_out", "left_out", "account", "left_out"]
    assert [line["payload"]["status"] for line in lines if line["kind"] == "left_out"] == [
        *("ERASED", "CANCELLED", "DRY_RUN_SUCCEEDED")
    ]
    for line, number in ((lines[0], 1), (lines[6], 4)):
        account, again = an_account(importer.supplier, number), line["payload"]
        assert meaning(stored_submission(encoded(again)).account) == meaning(
            stored_submission(encoded(account)).account
        )


@pytest.mark.promise("pull-reads-book")
def test_a_record_that_was_pulled_is_one_that_the_service_has(importer: Importer, auditor: Importer) -> None:
    for line in pull(auditor).body[1:4]:
        [path] = [path for kind, path in PATHS.items() if kind == line["kind"]]
        again, _ = importer.request("POST", path, line["payload"])
        assert again.status == 201, again.body
    assert [line["kind"] for line in pull(auditor).body].count("delivery_note") == 1


@pytest.mark.promise("pull-reads-book")
def test_a_request_continues_after_an_import(auditor: Importer) -> None:
    lines = pull(auditor).body
    for number, line in enumerate(lines):
        of_later = [later for later in lines[number:] if later["position"] > line["position"]]
        assert pull(auditor, f"?continue_after={line['position']}").body == of_later
    assert pull(auditor, "?continue_after=x").status == 400


@pytest.mark.promise("pull-is-disclosure")
def test_each_account_that_is_read_is_a_disclosure_to_the_key(importer: Importer, auditor: Importer) -> None:
    before = {number: disclosures(importer, auditor, number) for number in (1, 4, 5)}
    pull(auditor)
    after = {number: disclosures(importer, auditor, number) for number in (1, 4, 5)}
    assert [len(after[number]) - len(before[number]) for number in after] == [1, 1, 0]
    assert {(event["user"].split(":")[0], event["reason"]) for event in after[1]} == {("Auditors", "pull")}


def disclosures(importer: Importer, auditor: Importer, number: int) -> list[dict[str, Any]]:
    path = f"/v2/data-import/accounts/{importer.supplier}/{external(importer, number)}/history/"
    events = auditor.request("GET", path)[0].body
    return [event["data"] for event in events if event["event"] == "PersonalDataShown"]
