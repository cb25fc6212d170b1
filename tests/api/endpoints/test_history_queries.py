"""History of an account, and the state at a moment: over HTTP and on the command line."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.importing import Answer
from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, processed, wait_for

ACCOUNTS = "/v2/data-import/accounts"


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """An importer who has sent account 1 twice, the second time with another note, and whose account 2 waits."""
    made = service.importer()
    start = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    account = an_account(made.supplier, 1)
    for sent in (account, changed(account, "Another note.", "notes", 0, "body")):
        wrapped = {"payload": sent, "task_params": {"schedule_window_start": start}}
        assert made.client.create(encoded(wrapped)).status == 201
    wait_for(lambda: processed(made) == 1, "account 1 exists")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    waiting = {"payload": an_account(made.supplier, 2), "task_params": {"schedule_window_start": later}}
    assert made.client.create(encoded(waiting)).status == 201
    return made


@pytest.fixture(scope="module")
def auditor(service: RunningService, importer: Importer) -> dict[str, str]:
    made = service.cli("key", "create", "Auditors", "--supplier", importer.supplier, "--role", "auditor", "--json")
    return {"Authorization": f"Token {json.loads(made.stdout)['api_key']}"}


def external(importer: Importer) -> str:
    return str(an_account(importer.supplier, 1)["external_account_number"])


def get(importer: Importer, headers: dict[str, str], rest: str) -> Answer:
    return importer.request("GET", f"{ACCOUNTS}/{importer.supplier}/{external(importer)}/{rest}", None, headers)[0]


def names(events: list[Any]) -> list[str]:
    return [event["event"] for event in events]


def test_an_auditor_reads_everything_that_happened(
    service: RunningService, importer: Importer, auditor: dict[str, str]
) -> None:
    answer = get(importer, auditor, "history/")
    assert answer.status == 200
    assert names(answer.body) == ["ImportStaged", "ImportStaged", "ImportStarted", "ImportProcessed"]
    first = answer.body[0]
    assert first["by"].startswith("Testers:")
    assert first["payload_sha256"] != answer.body[1]["payload_sha256"]
    assert all(event["code_version"] and event["at"].endswith("Z") for event in answer.body)
    assert first["rules_edition"]
    lines = service.cli("history", importer.supplier, external(importer), "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == answer.body


def test_what_differs_between_two_payloads(
    service: RunningService, importer: Importer, auditor: dict[str, str]
) -> None:
    before = an_account(importer.supplier, 1)["notes"][0]["body"]
    expected = [{"path": "payload.notes.0.body", "kind": "changed", "before": before, "after": "Another note."}]
    assert get(importer, auditor, "history/difference/?from=1&to=2") == Answer(200, expected)
    shown = service.cli(
        "history", importer.supplier, external(importer), "--difference", "1", "2", "--json"
    ).stdout.splitlines()
    assert [json.loads(line) for line in shown] == expected
    for query in ("", "?from=1&to=3", "?from=x&to=1"):
        answer = get(importer, auditor, f"history/difference/{query}")
        assert (answer.status, answer.body["code"]) == (400, "validation_error")


def test_payloads_are_shown_as_they_were_received(service: RunningService, importer: Importer) -> None:
    shown = service.cli("history", importer.supplier, external(importer), "--payloads").stdout
    assert "Another note." in shown
    assert shown.count('"external_account_number"') == 2


def test_what_was_known_at_a_moment(service: RunningService, importer: Importer, auditor: dict[str, str]) -> None:
    events = get(importer, auditor, "history/").body
    expected = ["PENDING", "PENDING", "IN_PROGRESS", "PROCESSED"]
    for event, status in zip(events, expected, strict=True):
        for moment in (str(event["position"]), event["at"]):
            known = get(importer, auditor, f"?as_of={moment}").body
            assert known["status"] == status
            assert known["modified_at"] == event["at"]
            assert known["created_at"] == events[0]["at"]
    assert get(importer, auditor, f"?as_of={events[-1]['position']}") == get(importer, auditor, "")
    assert len(get(importer, auditor, f"history/?as_of={events[1]['position']}").body) == 2
    before = get(importer, auditor, f"?as_of={events[0]['position'] - 1}")
    assert (before.status, before.body["code"]) == (404, "not_found")
    shown = service.cli("status", importer.supplier, external(importer), "--as-of", events[2]["at"], "--json").stdout
    assert json.loads(shown)["status"] == "IN_PROGRESS"


def test_counts_and_lists_of_a_moment(service: RunningService, importer: Importer, auditor: dict[str, str]) -> None:
    events = get(importer, auditor, "history/").body
    then = str(events[2]["position"])
    assert json.loads(service.cli("status", importer.supplier, "--json").stdout) == {"PENDING": 1, "PROCESSED": 1}
    assert json.loads(service.cli("status", importer.supplier, "--as-of", then, "--json").stdout) == {"IN_PROGRESS": 1}
    listed = service.cli("status", importer.supplier, "--as-of", then, "--list", "--json").stdout
    assert json.loads(listed) == {external(importer): "IN_PROGRESS"}


@pytest.mark.parametrize("moment", ["yesterday", "-1", "2023-02-29", "9" * 30, "2023-01-01T00:00:00%00", "2099-01-01"])
def test_a_moment_that_cannot_be_or_is_not_over_is_refused(
    importer: Importer, auditor: dict[str, str], moment: str
) -> None:
    answer = get(importer, auditor, f"?as_of={moment}")
    assert (answer.status, answer.body["errors"][0]["attr"]) == (400, "as_of")
