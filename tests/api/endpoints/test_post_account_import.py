"""Delivery notes, energy amounts and invoices of imported accounts, over HTTP."""

import copy
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.support.importing import Answer
from tests.support.make import an_account, changed, encoded
from tests.support.post_account import PATHS, RECORDS
from tests.support.running import Importer, RunningService, processed, wait_for
from tests.support.whole import admin_url

KINDS = list(PATHS)


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """An importer whose account 1 exists."""
    return with_account(service)


def with_account(service: RunningService) -> Importer:
    made = service.importer()
    assert made.client.create(encoded(an_account(made.supplier, 1))).status == 201
    wait_for(lambda: processed(made) == 1, "the account exists")
    return made


def envelope(importer: Importer, kind: str, **fields: Any) -> dict[str, Any]:
    external = an_account(importer.supplier, 1)["external_account_number"]
    record = copy.deepcopy(RECORDS[kind]) | fields
    return {"import_supplier": importer.supplier, "external_account_number": external, kind: record}


def post(importer: Importer, kind: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
    return importer.request("POST", PATHS[kind], body, headers)[0]


def codes(answer: Answer) -> list[tuple[str, str]]:
    return [(error["attr"], error["code"]) for error in answer.body["errors"]]


def rows(service: RunningService, query: str, *parameters: str) -> list[Any]:
    with psycopg.connect(admin_url(service)) as connection:
        return connection.execute(query.encode(), parameters).fetchall()


@pytest.mark.promise(
    "post-v1-data-import-delivery", "post-v1-data-import-energy", "post-v1-data-import-market-participant"
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_answered_with_its_validated_data(importer: Importer, kind: str) -> None:
    body = envelope(importer, kind)
    for _ in range(2):
        answer = post(importer, kind, body)
        assert (answer.status, answer.body) == (201, body)


@pytest.mark.promise("post-v1-data-import-energy")
def test_numbers_come_back_as_text_in_their_scale_and_datetimes_as_they_were_sent(importer: Importer) -> None:
    body = envelope(
        importer, "energy_amount", edifact_reference_number="NUMBERS", period_start_at="2023-01-01T00:00:00"
    )
    raw = encoded(body).replace(b'"123.456789000"', b"123.4500")
    answer = post(importer, "energy_amount", raw)
    assert answer.status == 201
    assert answer.body == changed(body, "123.4500", "energy_amount", "quantity")


@pytest.mark.promise("post-account-data-idempotent", "post-account-posts-idempotent")
@pytest.mark.asvs("V2.3.4")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_request_twice_at_once_is_answered_twice_alike(
    service: RunningService, importer: Importer, kind: str
) -> None:
    name = "external_id" if kind == KINDS[2] else "edifact_reference_number"
    for number in range(5):
        body = envelope(importer, kind, **{name: f"AT-ONCE-{number}"})
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda sent: post(importer, kind, sent), [body] * 8))
        assert [answer.status for answer in answers] == [201] * 8
        assert all(answer.body == body for answer in answers)
        query = f"SELECT count(*) FROM platform.{kind} WHERE {name} = %s"
        assert rows(service, query, f"AT-ONCE-{number}") == [(1,)]


@pytest.mark.promise("post-account-posts-idempotent")
@pytest.mark.asvs("V2.3.4")
@pytest.mark.parametrize("kind", KINDS)
def test_two_contents_at_once_leave_one_and_refuse_the_other(importer: Importer, kind: str) -> None:
    name = "external_id" if kind == KINDS[2] else "edifact_reference_number"
    places: dict[str, tuple[str | int, ...]] = {KINDS[0]: ("amounts", 0, "quantity_unit"), KINDS[1]: ("qualifier",)}
    place = places.get(kind, ("invoice_type",))
    body = envelope(importer, kind, **{name: "TWO-AT-ONCE"})
    bodies = [body, changed(body, "other", kind, *place)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda sent: post(importer, kind, sent), bodies * 4))
    assert sorted(answer.status for answer in answers) == [201] * 4 + [400] * 4
    refused = [codes(answer) for answer in answers if answer.status == 400]
    assert refused == [[(f"{kind}.non_field_errors", "unique")]] * 4


@pytest.mark.promise("post-account-data-idempotent", "same-record-another-spelling")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_record_in_another_spelling_is_the_same(
    service: RunningService, importer: Importer, kind: str
) -> None:
    name = "external_id" if kind == KINDS[2] else "edifact_reference_number"
    body = envelope(importer, kind, **{name: "SPELT"})
    assert post(importer, kind, body).status == 201
    text = encoded(body)
    other = text.replace(b"2023-01-01T00:00:00+01:00", b"2022-12-31T23:00:00Z")
    other = other.replace(b'"123.456789000"', b"123.456789").replace(b'"0.1000"', b'"0.1"')
    other = re.sub(rb'":(\d+)([,}])', rb'":\1.0\2', other)  # an integer, as JSON Schema has it
    assert other != text
    answer = post(importer, kind, other)
    assert (answer.status, answer.body.get("code")) == (201, None)
    assert post(importer, kind, body).status == 201
    query = "SELECT count(*) FROM account_record WHERE supplier = %s AND kind = %s"
    before = rows(service, query, importer.supplier, kind.replace("_", "-").replace("market-participant-", ""))
    assert post(importer, kind, other).status == 201
    assert rows(service, query, importer.supplier, kind.replace("_", "-").replace("market-participant-", "")) == before


def test_a_cancellation_in_another_spelling_is_recorded_once(service: RunningService) -> None:
    importer = with_account(service)
    body = envelope(importer, "energy_amount", edifact_reference_number="CANCEL-SPELT")
    assert post(importer, "energy_amount", body).status == 201
    cancelled = changed(body, True, "energy_amount", "cancelled")
    cancelled = changed(cancelled, "2023-03-01T00:00:00Z", "energy_amount", "cancelled_at")
    other = changed(cancelled, "2023-03-01T01:00:00+01:00", "energy_amount", "cancelled_at")
    other = changed(other, "123.456789", "energy_amount", "quantity")
    for sent in (other, cancelled, other):
        answer = post(importer, "energy_amount", sent)
        assert (answer.status, answer.body) == (201, sent)
    later = changed(cancelled, "2023-03-02T00:00:00Z", "energy_amount", "cancelled_at")
    assert codes(post(importer, "energy_amount", later)) == [("energy_amount.non_field_errors", "unique")]
    query = "SELECT cancelled, cancelled_at::text FROM platform.energy_amount WHERE edifact_reference_number = %s"
    [(is_cancelled, at)] = rows(service, query, "CANCEL-SPELT")
    assert (is_cancelled, at[:10]) == (True, "2023-03-01")
    query = "SELECT count(*) FROM events WHERE supplier = %s AND topic = 'record_cancellation_changed.v1'"
    assert rows(service, query, importer.supplier) == [(1,)]


@pytest.mark.promise("unknown-fields-ignore-holds")
@pytest.mark.parametrize("kind", KINDS)
def test_undocumented_fields_of_records_are_dropped_where_the_supplier_says_so(
    service: RunningService, kind: str
) -> None:
    importer = with_account(service)
    account = an_account(importer.supplier, 1)
    body = envelope(importer, kind)
    sent = changed(changed(body, "red", kind, "colour"), 5, "size")
    assert sorted(codes(post(importer, kind, sent))) == [
        (f"{kind}.colour", "unknown_field"),
        ("size", "unknown_field"),
    ]
    service.cli("supplier", "set", importer.supplier, "unknown-fields=ignore")
    wait_for(lambda: post(importer, kind, sent).status == 201, "the setting is in force")
    assert post(importer, kind, sent).body == body
    shown = service.cli("history", importer.supplier, account["external_account_number"], "--json").stdout.splitlines()
    [dropped] = [
        entry["data"]["dropped_fields"] for entry in map(json.loads, shown) if entry["event"] == "RecordImported"
    ]
    assert sorted(dropped) == [f"{kind}.colour", "size"]
    query = "SELECT count(*) FROM events WHERE supplier = %s AND encode(state, 'escape') LIKE '%%colour%%'"
    assert rows(service, query, importer.supplier) == [(0,)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_an_account_is_refused(importer: Importer, kind: str) -> None:
    unknown = changed(envelope(importer, kind), "nowhere", "external_account_number")
    answer = post(importer, kind, unknown)
    assert codes(answer) == [("external_account_number", "import_process_does_not_exist")]
    dry_run = {"payload": an_account(importer.supplier, 3), "task_params": {"is_dry_run": True}}
    importer.client.create(encoded(dry_run))
    external = an_account(importer.supplier, 3)["external_account_number"]
    answer = post(importer, kind, changed(envelope(importer, kind), external, "external_account_number"))
    assert codes(answer) == [("external_account_number", "account_not_found")]


@pytest.mark.promise("post-v1-data-import-delivery")
@pytest.mark.parametrize(
    ("kind", "name"),
    [(KINDS[0], "last_validation_at"), (KINDS[1], "cancelled"), (KINDS[2], "amount_total")],
)
def test_bad_records_are_refused_with_a_code_at_their_place(importer: Importer, kind: str, name: str) -> None:
    wrong = changed(changed(envelope(importer, kind), "123", kind, "malo_number"), "x", kind, name)
    answer = post(importer, kind, wrong)
    assert (answer.status, answer.body["code"]) == (400, "validation_error")
    assert sorted(codes(answer)) == sorted(
        [(f"{kind}.{name}", "invalid"), (f"{kind}.malo_number", "invalid_supply_point_identifier")]
    )
