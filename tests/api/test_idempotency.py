"""The same request under the same key gets its first answer again, whatever has happened since."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest

from tests.support.importing import Answer
from tests.support.make import an_account, changed
from tests.support.post_account import PATHS, RECORDS
from tests.support.pre_account import a_participant, a_sheet
from tests.support.running import Importer, RunningService, processed, wait_for
from tests.support.whole import admin_url

T = TypeVar("T")
ACCOUNTS = "/v2/data-import/accounts/"
PARTICIPANTS = "/v1/data-import/market-participant/import/"
FEES = "/v1/data-import/market-participant-fees/import/"


def post(importer: Importer, path: str, body: Any, key: str) -> Answer:
    return importer.request("POST", path, body, {"Idempotency-Key": key})[0]


def history(importer: Importer, external: str) -> list[str]:
    return importer.service.cli("history", importer.supplier, external, "--json").stdout.splitlines()


def test_a_create_is_answered_the_same_after_the_account_exists(importer: Importer) -> None:
    account = an_account(importer.supplier, 1)
    assert post(importer, ACCOUNTS, account, "create-1") == Answer(201, {})
    wait_for(lambda: processed(importer) == 1, "the account exists")
    assert post(importer, ACCOUNTS, account, '"create-1"') == Answer(201, {})
    assert post(importer, ACCOUNTS.rstrip("/"), account, "create-1") == Answer(201, {})
    answer = post(importer, ACCOUNTS, account, "create-2")
    assert answer.body["non_field_errors"]["code"] == "account_import_process_already_imported"


def test_a_refused_request_is_judged_anew(importer: Importer) -> None:
    account = an_account(importer.supplier, 4)
    assert post(importer, ACCOUNTS, changed(account, "x", "loyalty_tier"), "create-4").status == 400
    assert post(importer, ACCOUNTS, account, "create-4").status == 201


def test_the_key_counts_within_its_path(importer: Importer) -> None:
    account = an_account(importer.supplier, 5)
    assert post(importer, ACCOUNTS + "validate/", account, "one") == Answer(200, {})
    assert post(importer, ACCOUNTS, account, "one") == Answer(201, {})


def test_the_key_counts_within_its_run(importer: Importer) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()  # so that the import waits
    waiting = {"payload": an_account(importer.supplier, 6), "task_params": {"schedule_window_start": later}}
    for run in ("first", "second", "second"):
        assert post(importer, f"{ACCOUNTS}?run={run}", waiting, "one") == Answer(201, {})

    def total(run: str) -> int:
        answer, _ = importer.request("GET", f"/v2/data-import/runs/{importer.supplier}/{run}/")
        return int(answer.body["total"]) if answer.status == 200 else 0

    wait_for(lambda: total("first") == total("second") == 1, "the account belongs to both runs")


def test_market_data_and_records_are_answered_the_same(importer: Importer) -> None:
    participant = a_participant()
    for _ in range(2):
        assert post(importer, PARTICIPANTS, participant, "p-3") == Answer(201, participant)
    assert post(importer, PARTICIPANTS, participant, "p-4") == Answer(200, participant)
    sheets = {"price_sheets": [a_sheet(participant["code"], f"D-{number}") for number in range(3)]}
    for _ in range(2):
        assert post(importer, FEES, sheets, "f-1") == Answer(201, {"price_sheets_imported": 3})
    account = an_account(importer.supplier, 8)
    external = account["external_account_number"]
    assert post(importer, ACCOUNTS, account, "create-8").status == 201
    wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "PROCESSED", "it exists")
    for kind, record in RECORDS.items():
        body = {"import_supplier": importer.supplier, "external_account_number": external, kind: record}
        for _ in range(2):
            assert post(importer, PATHS[kind], body, "r-1") == Answer(201, body)


def test_a_decision_is_answered_with_the_record_as_it_was_then(importer: Importer) -> None:
    waiting = {"payload": an_account(importer.supplier, 6), "task_params": {"schedule_window_start": in_an_hour()}}
    external = waiting["payload"]["external_account_number"]
    assert post(importer, ACCOUNTS, waiting, "create-6").status == 201
    path = f"{ACCOUNTS}{importer.supplier}/{external}/cancel/"
    first = post(importer, path, {"reason": "duplicate"}, "cancel-6")
    assert (first.status, first.body["status"]) == (200, "CANCELLED")
    assert post(importer, ACCOUNTS, waiting, "create-6b").status == 201
    assert post(importer, path, {"reason": "duplicate"}, "cancel-6") == first
    assert importer.client.status(importer.supplier, external).body["status"] == "PENDING"


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def together(*sends: Callable[[], T]) -> list[T]:
    with ThreadPoolExecutor(len(sends)) as pool:
        return [sent.result() for sent in [pool.submit(send) for send in sends]]


def test_twins_in_flight_get_one_answer_and_make_one_event(importer: Importer) -> None:
    waiting = {"payload": an_account(importer.supplier, 7), "task_params": {"schedule_window_start": in_an_hour()}}
    twin = partial(post, importer, ACCOUNTS, waiting, "twin")
    assert together(*[twin] * 12) == [Answer(201, {})] * 12
    assert len(history(importer, waiting["payload"]["external_account_number"])) == 1


def test_twins_with_different_bodies_make_one_import(importer: Importer) -> None:
    accounts = [an_account(importer.supplier, number) for number in range(20, 32)]
    sends = [partial(post, importer, ACCOUNTS, account, "contested") for account in accounts]
    answers = together(*sends)
    statuses = [answer.status for answer in answers]
    assert sorted(statuses) == [201] + [422] * 11
    assert {answer.body.get("code", "") for answer in answers} == {"", "idempotency_key_reused"}
    for account, status in zip(accounts, statuses, strict=True):
        found = importer.client.status(importer.supplier, account["external_account_number"]).status
        assert found == (200 if status == 201 else 404)


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "ä"])
def test_a_key_that_cannot_be_is_refused(importer: Importer, key: str) -> None:
    answer = post(importer, ACCOUNTS, an_account(importer.supplier, 40), key)
    assert (answer.status, answer.body["code"]) == (400, "invalid_idempotency_key")


@pytest.mark.promise("importers-named-undocumented-fields")
def test_the_log_keeps_no_key_of_importers(service: RunningService, importer: Importer) -> None:
    account, key = an_account(importer.supplier, 60), "canary-key-of-vogelsang"
    assert post(importer, ACCOUNTS, account, key).status == 201
    with psycopg.connect(admin_url(service)) as connection:
        stored = str(connection.execute("SELECT command_id FROM events WHERE command_id IS NOT NULL").fetchall())
        stored += str(connection.execute("SELECT command_id FROM remembered_answers").fetchall())
    assert key not in stored
