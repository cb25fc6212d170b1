"""Totals and certificates that workers add up: asked for until they are there, and then what one process says."""

from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from tests.support.bulk import bulk, ndjson, wait_until_processed
from tests.support.importing import Answer
from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService, wait_for
from tests.support.whole import admin_url

Asked = tuple[Answer, Mapping[str, str]]
RUNS = "/v2/data-import/runs"
PROGRESS = {"job", "parts", "parts_done", "parts_taken", "events", "events_done", "workers", "eta_s", "why"}


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """With three accounts in the run `book`."""
    importer = service.importer()
    accounts = [an_account(importer.supplier, number) for number in range(1, 4)]
    bulk(service, importer, ndjson(*accounts), "?run=book")
    wait_until_processed(importer, *accounts)

    def is_counted() -> bool:
        answer, _ = ask(service, importer, "GET", "")
        return (answer.status, answer.body.get("by_status")) == (200, {"PROCESSED": 3})

    wait_for(is_counted, "the run has its accounts")
    return importer


def ask(service: RunningService, importer: Importer, method: str, path: str, body: Any = None) -> Asked:
    headers = {"Authorization": f"Token {importer.api_key}", "Content-Type": "application/json"}
    content = None if body is None else encoded(body)
    return service.request(method, f"{RUNS}/{importer.supplier}/book/{path}", content, headers)


def asked_again(service: RunningService, importer: Importer, method: str, path: str, body: Any = None) -> Answer:
    """The first answer that is no 202; each of those says how far it is, and when to ask again."""
    answers: list[Answer] = []

    def is_answered() -> bool:
        answer, headers = ask(service, importer, method, path, body)
        if answer.status == 202:
            assert set(answer.body) == PROGRESS
            assert headers["retry-after"] == "1"
            return False
        answers.append(answer)
        return True

    wait_for(is_answered, "workers have added it up")
    return answers[0]


def test_the_first_answer_says_how_far_it_is_and_the_last_is_what_one_process_says(
    service: RunningService, importer: Importer
) -> None:
    first, headers = ask(service, importer, "GET", "totals/?spread=true")
    assert (first.status, headers["retry-after"]) == (202, "1")
    assert (first.body["parts"], first.body["events"]) == (1, 3)
    assert first.body["workers"] > 0
    spread = asked_again(service, importer, "GET", "totals/?spread=true")
    alone, _ = ask(service, importer, "GET", "totals/?spread=false")
    assert (spread.status, spread.body) == (200, alone.body)
    assert alone.body == ask(service, importer, "GET", "totals/")[0].body


def test_a_certificate_of_workers_is_signed_or_refused_as_any_other(
    service: RunningService, importer: Importer
) -> None:
    totals = ask(service, importer, "GET", "totals/")[0].body
    certified = asked_again(service, importer, "POST", "certificate/?spread=true", totals | {"source": {"name": "b"}})
    assert certified.status == 200
    assert certified.body["totals"] == totals
    assert certified.body["signature"]
    refused = asked_again(service, importer, "POST", "certificate/?spread=true", totals | {"customers": 0})
    assert (refused.status, refused.body["code"]) == (409, "not_balanced")
    assert [error["attr"] for error in refused.body["errors"]] == ["customers"]


def test_an_account_that_was_deleted_by_hand_is_missed_by_workers_too(
    service: RunningService, importer: Importer
) -> None:
    totals = ask(service, importer, "GET", "totals/")[0].body
    with psycopg.connect(admin_url(service)) as connection:
        connection.execute(
            "DELETE FROM platform.service_account WHERE account_number = (SELECT min(account_number)"
            " FROM platform.service_account WHERE import_supplier = %s)",
            (importer.supplier,),
        )
    refused = asked_again(service, importer, "POST", "certificate/?spread=true", totals)
    assert refused.status == 409
    assert {"accounts", "paths.external_account_number"} <= {error["attr"] for error in refused.body["errors"]}


@pytest.mark.parametrize("query", ["spread=1", "spread=", "spread=TRUE", "spread=true&spread=false", "part=1"])
def test_any_other_parameter_or_value_is_refused(service: RunningService, importer: Importer, query: str) -> None:
    for method, path, body in (("GET", "totals/", None), ("POST", "certificate/", {})):
        answer, _ = ask(service, importer, method, f"{path}?{query}", body)
        assert answer.status == 400
        assert answer.body["errors"][0]["attr"] == query.split("=")[0]


def test_what_is_no_manifest_asks_nobody_for_anything(service: RunningService, importer: Importer) -> None:
    assert ask(service, importer, "POST", "certificate/?spread=true", [])[0].status == 400
    unknown = f"{RUNS}/{importer.supplier}/none/totals/?spread=true"
    assert service.request("GET", unknown, None, {"Authorization": f"Token {importer.api_key}"})[0].status == 404
