"""Runs over HTTP: accounts that were sent under one name, their progress, totals and certificate."""

import http.client
import json
from collections.abc import Mapping
from typing import Any

import pytest

from api.intake.run_names import MAX_NEW
from eventstore.aggregates.run import CountRun, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import INLINE
from tests.support.bulk import bulk, ndjson, number_of, wait_until_processed
from tests.support.importing import Answer
from tests.support.make import an_account, changed
from tests.support.running import Importer, RunningService, wait_for
from tests.support.whole import admin_url

RUNS = "/v2/data-import/runs"


def get(importer: Importer, path: str) -> tuple[int, Any]:
    answer, _ = importer.request("GET", f"{RUNS}/{path}")
    return answer.status, answer.body


def run_of(importer: Importer, run: str) -> dict[str, Any]:
    status, body = get(importer, f"{importer.supplier}/{run}/")
    assert status == 200
    record: dict[str, Any] = body
    return record


def wait_for_run(importer: Importer, run: str, **expected: Any) -> dict[str, Any]:
    def is_so() -> bool:
        status, record = get(importer, f"{importer.supplier}/{run}/")
        return status == 200 and all(record[name] == value for name, value in expected.items())

    wait_for(is_so, f"{run} is {expected}")
    return run_of(importer, run)


@pytest.mark.promise("get-v2-data-import-runs")
def test_a_run_groups_what_is_sent_under_it_over_several_requests(service: RunningService, importer: Importer) -> None:
    accounts = [an_account(importer.supplier, number) for number in range(1, 4)]
    spoilt = changed(an_account(importer.supplier, 9), "x", "customers", 0, "landline")
    assert bulk(importer, ndjson(accounts[0], spoilt) + b"{\n", "?run=go.live_1").status == 200
    bulk(importer, ndjson(accounts[1], spoilt), "?run=go.live_1")
    single = "/v2/data-import/accounts/?run=go.live_1"
    assert importer.request("POST", single, accounts[2])[0].status == 201
    assert importer.request("POST", single, spoilt)[0].status == 400
    for name in ("a/b", ".", ".."):
        place = f"/v2/data-import/accounts/?run={name}"
        assert importer.request("POST", place, spoilt)[0].status == 400
    wait_until_processed(importer, *accounts)
    record = wait_for_run(importer, "go.live_1", by_status={"PROCESSED": 3}, refused=4)
    assert (record["run"], record["import_supplier"], record["mode"]) == ("go.live_1", importer.supplier, "create")
    assert record["total"] == 3
    assert record["eta_s"] == 0
    assert record["processed_per_s"] > 0
    assert {"code": "invalid_phone_number", "path": "customers[].landline", "number": 3} in record["errors"]
    assert {"code": "parse_error", "path": "non_field_errors", "number": 1} in record["errors"]
    assert record in get(importer, f"{importer.supplier}/")[1]
    history = service.cli("history", importer.supplier, number_of(accounts[0]), "--json").stdout
    assert '"go.live_1"' in history


def test_a_field_that_is_left_out_is_a_warning_of_its_run(service: RunningService, importer: Importer) -> None:
    service.cli("supplier", "set", importer.supplier, "unknown-fields=ignore")
    address = "/v2/data-import/accounts/?run=left-out"
    account = changed(an_account(importer.supplier, 60), "x", "customers", 0, "colour")
    wait_for(lambda: importer.request("POST", address, account)[0].status == 201, "the setting applies")
    record = wait_for_run(importer, "left-out", total=1, warned=1)
    assert {"code": "unknown_field", "path": "*", "number": 1} in record["warnings"]


@pytest.mark.promise("get-v2-data-import-runs")
def test_a_validate_run_leaves_nothing_but_counts(importer: Importer) -> None:
    good, bad = an_account(importer.supplier, 30), {"import_supplier": importer.supplier}
    bulk(importer, ndjson(good, bad), "?mode=validate&run=rehearsal")
    record = wait_for_run(importer, "rehearsal", refused=1)
    assert (record["mode"], record["by_status"]) == ("validate", {"VALID": 1})
    assert get(importer, f"{importer.supplier}/rehearsal/imports/") == (200, [])


@pytest.mark.promise("get-run-events-run")
def test_the_imports_of_a_run_are_lines_and_can_be_filtered(importer: Importer) -> None:
    good = an_account(importer.supplier, 40)
    missing = changed(an_account(importer.supplier, 41), "none.pdf", "statements", 0, "statement_path")
    bulk(importer, ndjson(good, missing), "?run=mixed")
    wait_until_processed(importer, good)
    status, records = get(importer, f"{importer.supplier}/mixed/imports/")
    assert status == 200
    assert [record["external_account_number"] for record in records] == [number_of(good), number_of(missing)]
    _, found = get(importer, f"{importer.supplier}/mixed/imports/?status=PROCESSED")
    assert number_of(good) in [record["external_account_number"] for record in found]
    assert get(importer, f"{importer.supplier}/mixed/imports/?status=ERRORED")[0] == 200
    assert get(importer, f"{importer.supplier}/mixed/imports/?status=NONE")[0] == 400


def events_of(importer: Importer, run: str, **headers: str) -> list[dict[str, str]]:
    """All events until the stream ends."""
    host, port = importer.service.base_url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    path = f"{RUNS}/{importer.supplier}/{run}/events/"
    connection.request("GET", path, None, importer.fields | named)
    response = connection.getresponse()
    assert (response.status, response.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
    text = response.read().decode()
    connection.close()
    blocks = [block.splitlines() for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block) for block in blocks]


@pytest.mark.promise("get-run-events-run")
def test_events_tell_progress_at_once_and_the_end(importer: Importer) -> None:
    account = an_account(importer.supplier, 50)
    bulk(importer, ndjson(account), "?run=told")
    events = events_of(importer, "told")
    assert events[0]["event"] == "progress"
    assert events[-1]["event"] == "finished"
    assert all(event["id"] for event in events)
    assert json.loads(events[-1]["data"])["by_status"] == {"PROCESSED": 1}
    again = events_of(importer, "told", Last_Event_ID=events[-1]["id"])
    assert [event["event"] for event in again] == ["finished"]


@pytest.mark.promise("supplier-most-1-000")
def test_a_supplier_has_at_most_a_thousand_new_runs_in_a_day(service: RunningService) -> None:
    """Runs that there are, and other suppliers, go on."""
    full, other = service.importer(), service.importer()
    counts = {stream_of(full.supplier, f"r{number}", "b"): CountRun(since=now(), mode="validate", valid=1)
              for number in range(MAX_NEW)}  # fmt: skip
    ledger = Ledger(admin_url(service), views=INLINE)
    ledger.execute_many(counts, at=now(), by="t")
    ledger.close()
    wait_for_run(full, f"r{MAX_NEW - 1}", total=1)

    def post(importer: Importer, path: str, run: str, number: int) -> tuple[Answer, Mapping[str, str]]:
        body = an_account(importer.supplier, number)
        return importer.request("POST", f"/v2/data-import/accounts/{path}?run={run}", body)

    for path in ("", "validate/"):
        answer, headers = post(full, path, "new", 1)
        assert (answer.status, answer.body["code"]) == (429, "too_many_runs")
        assert 0 < int(headers["retry-after"]) <= 86_401
        assert "1,000 new runs" in answer.body["detail"]
    refused = bulk(full, ndjson(an_account(full.supplier, 1), {}), "?run=new")
    assert [receipt.get("code") for receipt in refused.receipts] == ["too_many_runs", "account_failed_validation"]
    assert (post(full, "", "r7", 1)[0].status, post(other, "", "new", 1)[0].status) == (201, 201)
    assert bulk(full, ndjson(an_account(full.supplier, 2)), "?run=r7").statuses == ["PENDING"]
    wait_for_run(full, "r7", total=3)
    assert get(full, f"{full.supplier}/new/")[0] == 404


def test_a_suppliers_runs_are_listed_in_pages(service: RunningService) -> None:
    importer = service.importer()
    for run in ("a", "b", "c"):
        bulk(importer, b"{}\n", f"?mode=validate&run={run}")
        wait_for_run(importer, run, refused=1)
    path, listed = f"{RUNS}/{importer.supplier}/?limit=2", []
    while path:
        answer, headers = importer.request("GET", path)
        listed.append([record["run"] for record in answer.body])
        path = headers.get("link", "<>").partition("<")[2].partition(">")[0]
    assert listed == [["a", "b"], ["c"]]
    for query in ("after=a/b", "limit=0", "limit=1001"):
        assert get(importer, f"{importer.supplier}/?{query}")[0] == 400
