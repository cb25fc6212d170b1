"""A service in sandbox mode, and one without it."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.folders import temporary_folder
from tests.support.make import an_account, changed, encoded
from tests.support.running import RunningService, start_service, wait_for


@pytest.mark.promise("sandbox-endings-numbers-ask")
def test_endings_of_numbers_ask_for_outcomes_in_a_sandbox_only(service: RunningService) -> None:
    with temporary_folder() as path, start_service(path, "--sandbox") as sandbox:
        importer = sandbox.importer()
        numbers = {name: f"NW-{name}" for name in ("1-ERRORED-some_code", "2-TRANSIENT-2", "3-SLOW-5S", "4")}
        for number, external in enumerate(reversed(numbers.values()), 1):
            account = changed(an_account(importer.supplier, number), external, "external_account_number")
            assert importer.client.create(encoded(account)).status == 201

        def read(name: str) -> dict[str, Any]:
            return dict(importer.client.status(importer.supplier, numbers[name]).body)

        def status(name: str) -> str:
            return str(read(name)["status"])

        wait_for(lambda: status("4") == "PROCESSED", "the others are not kept waiting")
        wait_for(lambda: status("1-ERRORED-some_code") == "ERRORED", "the error comes")
        assert read("1-ERRORED-some_code")["latest_error"]["code"] == "some_code"
        transient = ("history", importer.supplier, numbers["2-TRANSIENT-2"])
        wait_for(lambda: "ImportPostponed" in sandbox.cli(*transient).stdout, "it is postponed")
        wait_for(lambda: status("3-SLOW-5S") == "PROCESSED", "the slow one ends")
        began, ended = (datetime.fromisoformat(read("3-SLOW-5S")[name]) for name in ("created_at", "modified_at"))
        assert ended - began >= timedelta(seconds=5)
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
