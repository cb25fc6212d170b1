"""A service in sandbox mode, and one without it."""

import json
import time

import pytest

from tests.support.folders import temporary_folder
from tests.support.make import an_account, changed, encoded
from tests.support.running import RunningService, start_service, wait_for


@pytest.mark.promise("sandbox-endings-numbers-ask")
def test_endings_of_numbers_ask_for_outcomes_in_a_sandbox_only(service: RunningService) -> None:
    with temporary_folder() as path, start_service(path, "--sandbox") as sandbox:
        importer = sandbox.importer()
        numbers = {name: f"NW-{name}" for name in ("1-ERRORED-some_code", "2-TRANSIENT-2", "3-SLOW-8S", "4")}
        began = time.monotonic()
        for number, external in enumerate(reversed(numbers.values()), 1):
            account = changed(an_account(importer.supplier, number), external, "external_account_number")
            assert importer.client.create(encoded(account)).status == 201

        def status(name: str) -> str:
            return str(importer.client.status(importer.supplier, numbers[name]).body["status"])

        wait_for(lambda: status("4") == "PROCESSED", "the others are not kept waiting")
        wait_for(lambda: status("1-ERRORED-some_code") == "ERRORED", "the error comes")
        body = importer.client.status(importer.supplier, numbers["1-ERRORED-some_code"]).body
        assert body["latest_error"]["code"] == "some_code"
        wait_for(lambda: status("2-TRANSIENT-2") == "PROCESSED", "it goes the third time", 75)
        history = sandbox.cli("history", importer.supplier, numbers["2-TRANSIENT-2"], "--json").stdout
        assert [json.loads(line)["event"] for line in history.splitlines()].count("ImportStarted") == 3
        slow = status("3-SLOW-8S")
        if time.monotonic() - began < 8:
            assert slow == "IN_PROGRESS"
        wait_for(lambda: status("3-SLOW-8S") == "PROCESSED", "the slow one ends", 60)
        assert time.monotonic() - began >= 8
        for request in ("/readyz", "/none", "/v2/data-import/accounts/"):
            _, headers = sandbox.raw("GET", request)
            assert headers["importledger-sandbox"] == "true"
        assert sandbox.request("GET", "/readyz")[0].body["sandbox"] is True
    importer = service.importer()
    account = changed(an_account(importer.supplier), "NW-1-ERRORED-x", "external_account_number")
    importer.client.create(encoded(account))
    wait_for(
        lambda: importer.client.status(importer.supplier, "NW-1-ERRORED-x").body["status"] == "PROCESSED",
        "endings mean nothing",
    )
    answer, headers = service.request("GET", "/readyz")
    assert "sandbox" not in json.dumps([answer.body, dict(headers)]).lower()
    for page in ("/openapi.json", "/errors/"):
        assert "sandbox" not in json.dumps(service.request("GET", page)[0].body).lower()
