"""Cancel and retry, over HTTP and by the command."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService, wait_for
from tests.support.whole import admin_url


def stage_for_later(importer: Importer, number: int) -> str:
    account = an_account(importer.supplier, number)
    later = {"schedule_window_start": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    assert importer.client.create(encoded({"payload": account, "task_params": later})).status == 201
    return str(account["external_account_number"])


def post(importer: Importer, external: str, verb: str, body: bytes = b"") -> tuple[int, Any]:
    path = f"/v2/data-import/accounts/{importer.supplier}/{external}/{verb}/"
    answer, _ = importer.request("POST", path, body)
    return answer.status, answer.body


def history(importer: Importer, external: str) -> list[dict[str, Any]]:
    lines = importer.service.cli("history", importer.supplier, external, "--json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_a_pending_import_is_cancelled_with_who_and_why(importer: Importer) -> None:
    external = stage_for_later(importer, 1)
    for _ in range(2):
        status, body = post(importer, external, "cancel", b'{"reason": "sent twice"}')
        assert (status, body["status"]) == (200, "CANCELLED")
    events = history(importer, external)
    assert [event["event"] for event in events] == ["ImportStaged", "ImportCancelled"]
    assert events[1]["data"] == {"reason": "sent twice"}
    assert events[1]["by"].startswith("Testers:")
    listed = importer.client.pending(importer.supplier).body
    assert external not in [item["external_account_number"] for item in listed]


def test_other_states_are_refused_with_their_own_code(service: RunningService, importer: Importer) -> None:
    account = an_account(importer.supplier, 2)
    external = account["external_account_number"]
    importer.client.create(encoded(account))
    wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "PROCESSED", "processed")
    for verb, code in (("cancel", "import_cannot_be_cancelled"), ("retry", "import_cannot_be_retried")):
        status, body = post(importer, external, verb)
        assert (status, body["code"]) == (400, code)
        assert "PROCESSED" in body["detail"]
    refused = service.cli("cancel", importer.supplier, external, check=False)
    assert (refused.returncode, "an import that is PROCESSED cannot be cancelled" in refused.stderr) == (1, True)


@pytest.mark.promise("key-heals-account")
def test_an_operator_heals_an_account_whose_rows_are_gone(service: RunningService, importer: Importer) -> None:
    account = an_account(importer.supplier, 6)
    external = account["external_account_number"]
    importer.client.create(encoded(account))
    wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "PROCESSED", "processed")
    number = importer.client.status(importer.supplier, external).body["service_identifier"]
    with psycopg.connect(admin_url(service), autocommit=True) as connection:
        connection.execute("DELETE FROM platform.service_account WHERE account_number = %s", (number,))
        connection.execute("UPDATE platform.customer SET family_name = 'Other' WHERE account_number = %s", (number,))
        assert post(importer, external, "heal")[0] == 403
        operator = service.importer(role="operator", supplier=importer.supplier)
        status, body = post(operator, external, "heal", b"{}")
        assert (status, body["status"]) == (202, "PROCESSED")
        query = (
            "SELECT family_name FROM platform.service_account JOIN platform.customer USING (account_number)"
            " WHERE account_number = %s"
        )
        name = account["customers"][0]["family_name"]
        wait_for(lambda: connection.execute(query, (number,)).fetchall() == [(name,)], "the account is healed")
    assert post(operator, "unknown", "heal")[0] == 404


def test_nobody_is_erased_without_a_reason(service: RunningService, importer: Importer) -> None:
    external = stage_for_later(importer, 4)
    refused = service.cli("erase", importer.supplier, external, "--reason", " ", "--yes", check=False)
    assert (refused.returncode, "A reason must be given" in refused.stderr) == (1, True)
    assert [event["event"] for event in history(importer, external)] == ["ImportStaged"]


def test_an_errored_import_is_retried(service: RunningService) -> None:
    """The platform's tables refuse a note for a while; afterwards the retry goes through."""
    importer = service.importer()
    account = an_account(importer.supplier)
    external = account["external_account_number"]
    account["notes"][0]["body"] = "poison"
    with psycopg.connect(admin_url(service), autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE platform.service_account ADD CONSTRAINT no_poison CHECK (notes #>> '{0,body}' <> 'poison')"
        )
        try:
            importer.client.create(encoded(account))
            wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "ERRORED", "errored")
        finally:
            connection.execute("ALTER TABLE platform.service_account DROP CONSTRAINT no_poison")
    error = importer.client.status(importer.supplier, external).body["latest_error"]
    assert (error["code"], error["domain"]) == ("account_not_accepted_by_platform", "account_import")
    assert "0 of 0" in service.cli("retry", importer.supplier, "--code", "something_else").stdout
    status, body = post(importer, external, "retry", b'{"reason": "fixed"}')
    assert status == 200
    assert body["latest_error"] is None
    wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "PROCESSED", "processed")
    events = [event["event"] for event in history(importer, external)]
    assert events[3:] == ["ImportRetried", "ImportStarted", "ImportProcessed"]


def test_all_of_a_supplier_are_cancelled_by_one_command(service: RunningService) -> None:
    importer = service.importer()
    externals = [stage_for_later(importer, number) for number in range(1, 4)]
    assert "1 of 1 import cancelled" in service.cli("cancel", importer.supplier, externals[0]).stdout
    assert (
        "2 of 2 imports cancelled"
        in service.cli("cancel", importer.supplier, "--all", "--reason", "wave stopped").stdout
    )
    assert importer.client.pending(importer.supplier).body == []
    assert "0 of 0" in service.cli("retry", importer.supplier, "--all").stdout
