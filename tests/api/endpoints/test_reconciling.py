"""Totals and certificates of a run: requested until a worker's result is ready, and cancelled."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventstore.log.ledger import Ledger
from importledger_client.manifest import account_digest
from projections import INLINE
from projections.platform.totals import BUCKETS, bucket_of
from projections.retention.reverting import Selection, revert
from tests.support.bulk import bulk, ndjson, wait_until_processed
from tests.support.importing import Answer
from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService, wait_for
from tests.support.whole import admin_url

Asked = tuple[Answer, Mapping[str, str]]
RUNS = "/v2/data-import/runs"
PROGRESS = {"accounts", "accounts_done", "eta_s", "why"}


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """With three accounts in the run `book`."""
    importer = service.importer()
    accounts = [an_account(importer.supplier, number) for number in range(1, 4)]
    bulk(importer, ndjson(*accounts), "?run=book")
    wait_until_processed(importer, *accounts)

    def is_counted() -> bool:
        answer, _ = ask(importer, "GET", "")
        return (answer.status, answer.body.get("by_status")) == (200, {"PROCESSED": 3})

    wait_for(is_counted, "the run has its accounts")
    return importer


def ask(importer: Importer, method: str, path: str, body: Any = None) -> Asked:
    return importer.request(method, f"{RUNS}/{importer.supplier}/book/{path}", body)


def asked_again(importer: Importer, method: str, path: str, body: Any = None) -> Answer:
    """The first answer that is no 202; each of those says how far it is, and when to ask again."""
    answers: list[Answer] = []

    def is_answered() -> bool:
        answer, headers = ask(importer, method, path, body)
        if answer.status == 202:
            assert set(answer.body) == PROGRESS
            assert headers["retry-after"] == "1"
            return False
        answers.append(answer)
        return True

    wait_for(is_answered, "a worker has added it up")
    return answers[0]


@pytest.mark.promise("get-run-totals-post", "get-run-totals-post-run")
def test_a_certificate_is_signed_or_refused_and_its_totals_are_those_of_the_tables(importer: Importer) -> None:
    totals = asked_again(importer, "GET", "totals/").body
    assert totals["accounts"] == 3
    certified = asked_again(importer, "POST", "certificate/", totals | {"source": {"name": "b"}})
    assert certified.status == 200
    assert certified.body["totals"] == {name: value for name, value in totals.items() if name != "buckets"}
    assert certified.body["signature"]
    refused = asked_again(importer, "POST", "certificate/", totals | {"customers": 0})
    assert (refused.status, refused.body["code"]) == (409, "not_balanced")
    assert [error["attr"] for error in refused.body["errors"]] == ["customers"]


@pytest.mark.promise("certificate-rests-nothing-old")
def test_no_certificate_is_signed_for_totals_from_before_a_revert(service: RunningService, importer: Importer) -> None:
    account, path = an_account(importer.supplier, 9), f"{RUNS}/{importer.supplier}/undone"
    bulk(importer, ndjson(account), "?run=undone")
    wait_until_processed(importer, account)

    def certificate() -> Answer:
        answers: list[Answer] = []

        def is_answered() -> bool:
            answers.append(importer.request("POST", f"{path}/certificate/", manifest)[0])
            return answers[-1].status != 202

        wait_for(is_answered, "a worker has added it up")
        return answers[-1]

    manifest = {"accounts": 1}
    wait_for(lambda: importer.request("GET", f"{path}/totals/")[0].body.get("accounts") == 1, "it is counted")
    manifest = importer.request("GET", f"{path}/totals/")[0].body
    assert certificate().status == 200
    with psycopg.connect(admin_url(service), autocommit=True) as connection:
        # as if the job had ended and nobody had asked for its result yet
        connection.execute("UPDATE reconciliations SET delivered_at = NULL, ended_at = clock_timestamp()")
    with closing(Ledger(admin_url(service), views=INLINE)) as owner:
        revert(owner, Selection(supplier=importer.supplier, run="undone"), "sent by mistake", by="operator:test")

    assert certificate().status == 409


@pytest.mark.promise("get-run-totals-post-run", "post-run-totals-cancel")
def test_a_job_that_takes_longer_than_a_request_waits_says_how_far_it_is_and_can_be_cancelled(
    service: RunningService, importer: Importer
) -> None:
    """A job that seems to be another worker's, which lives: nobody works on it."""
    run = "held"
    account = an_account(importer.supplier, 4)
    bulk(importer, ndjson(account), f"?run={run}")
    wait_until_processed(importer, account)
    path = f"{RUNS}/{importer.supplier}/{run}"
    with psycopg.connect(admin_url(service), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(7015, 77)")
        began = time.monotonic()
        connection.execute(
            "INSERT INTO reconciliations (supplier, run, job, reached, accounts, accounts_done, worker, lease_until,"
            " asked_at, worked_at) VALUES (%s, %s, 'held', 0, 100, 25, 77, 'infinity',"
            " clock_timestamp() - interval '30 s', clock_timestamp() - interval '20 s')",
            (importer.supplier, run),
        )
        answer, response_headers = importer.request("GET", f"{path}/totals/")
        assert (answer.status, response_headers["retry-after"]) == (202, "1")
        assert (answer.body["accounts"], answer.body["accounts_done"]) == (100, 25)
        assert 90 <= answer.body["eta_s"] <= 90 + 3 * (time.monotonic() - began) + 1
        cancelled, _ = importer.request("POST", f"{path}/totals/cancel/")
        assert (cancelled.status, cancelled.body["accounts_done"]) == (200, 25)
        assert connection.execute("SELECT FROM reconciliations WHERE job = 'held'").fetchall() == []
        assert importer.request("POST", f"{path}/totals/cancel/")[0].status == 404


@pytest.mark.promise("run-cannot-added-up")
def test_a_job_that_has_failed_is_said_once_and_the_next_request_tries_again(
    service: RunningService, importer: Importer
) -> None:
    path = f"{RUNS}/{importer.supplier}/book/totals/"
    with psycopg.connect(admin_url(service), autocommit=True) as connection:
        connection.execute("DELETE FROM reconciliations")
        connection.execute(
            "INSERT INTO reconciliations (supplier, run, job, reached, accounts, ended_at, error)"
            " VALUES (%s, 'book', 'failed', 0, 3, clock_timestamp(), 'a secret of the database')",
            (importer.supplier,),
        )
    answer, response_headers = importer.request("GET", path)
    assert (answer.status, response_headers["retry-after"]) == (503, "60")
    assert "secret" not in str(answer.body)
    assert asked_again(importer, "GET", "totals/").status == 200


def disclosures(auditor: Importer, number: str) -> list[dict[str, Any]]:
    answer, _ = auditor.request("GET", f"/v2/data-import/accounts/{auditor.supplier}/{number}/history/")
    return [event["data"] for event in answer.body if event["event"] == "PersonalDataShown"]


@pytest.mark.promise("post-run-differences", "shown-differences-are-disclosures")
def test_accounts_are_compared_by_digests(service: RunningService, importer: Importer) -> None:
    run = "compared"
    accounts = [an_account(importer.supplier, number) for number in (5, 6)]
    bulk(importer, ndjson(*accounts), f"?run={run}")
    wait_until_processed(importer, *accounts)
    numbers = [account["external_account_number"] for account in accounts]
    sent = [{"external_account_number": numbers[0], "digest": "0" * 16, "paths": [{"path": "notes", "digest": "0"}]}]
    sent.append({"external_account_number": "unknown", "digest": "0" * 16})
    path = f"{RUNS}/{importer.supplier}/{run}/differences/"
    answer, _ = importer.request("POST", path, {"buckets": [bucket_of(numbers[1])], "accounts": sent})
    assert answer.status == 200
    found = {difference["external_account_number"]: difference for difference in answer.body}
    assert {number: difference["kind"] for number, difference in found.items()} == {
        numbers[0]: "different",
        numbers[1]: "additional",
        "unknown": "missing",
    }
    assert found[numbers[0]]["is_as_logged"] is True
    paths = {difference["path"]: difference for difference in found[numbers[0]]["paths"]}
    assert paths["customers.family_name"]["values"][0]["value"] != accounts[0]["customers"][0]["family_name"]
    for difference in paths.values():  # a digest of a name or birth date would disclose the value
        digests = [value["digest"] for value in difference["values"] if value["value"]]
        assert any(digests) is not difference["is_personal"] or not digests, difference
    assert float(paths["transfer_balance"]["values"][0]["value"]) == float(accounts[0]["transfer_balance"])
    assert {difference["digest"] for difference in found.values()} == {""}
    digest = f"{account_digest(encoded(accounts[0])):016x}"
    same, _ = importer.request("POST", path, {"accounts": [{**sent[0], "digest": digest}]})
    assert (same.status, same.body) == (200, [])
    refused, _ = importer.request("POST", f"{path}?show=true", {"accounts": sent})
    assert refused.status == 403
    auditor = service.importer(supplier=importer.supplier, role="auditor")
    shown, _ = auditor.request("POST", f"{path}?show=true", {"accounts": sent})
    assert all(value["digest"] for difference in shown.body[0]["paths"] for value in difference["values"])
    shown_to = {number: disclosures(auditor, number) for number in numbers}
    assert [event["reason"] for event in shown_to[numbers[0]]] == ["differences"]
    assert shown_to[numbers[1]] == []
    for unread in ({"accounts": [{"digest": 1}]}, {"accounts": [sent[0]] * 11}):
        assert importer.request("POST", path, unread)[0].status == 400


@pytest.mark.promise("one-organisation-cannot-take")
def test_an_organisation_compares_accounts_in_one_request_at_a_time(
    service: RunningService, importer: Importer
) -> None:
    def compare(_: int = 0) -> Answer:
        return ask(importer, "POST", "differences/", {"accounts": [], "buckets": list(BUCKETS)})[0]

    with psycopg.connect(admin_url(service)) as connection, ThreadPoolExecutor(2) as threads:
        connection.execute("LOCK TABLE platform.reading")
        answers = list(threads.map(compare, range(2)))
    assert [answer.status for answer in answers] == [503, 503]
    full = [answer for answer in answers if "compare accounts" in answer.body["detail"]]
    assert len(full) == 1
    wait_for(lambda: compare().status == 200, "the slot is free again")
