"""Market participants and fee price sheets, over HTTP."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.support.make import changed, encoded
from tests.support.pre_account import _codes, a_participant, a_sheet
from tests.support.running import Importer, RunningService
from tests.support.whole import admin_url


def post(importer: Importer, path: str, body: Any) -> tuple[int, Any]:
    answer, _ = importer.request("POST", f"/v1/data-import/{path}/import/", body)
    return answer.status, answer.body


def import_participant(importer: Importer) -> int:
    participant = a_participant()
    assert post(importer, "market-participant", participant)[0] == 201
    return int(participant["code"])


def fees(importer: Importer, *sheets: Any) -> tuple[int, Any]:
    return post(importer, "market-participant-fees", {"price_sheets": list(sheets)})


def sheets_stored(service: RunningService, participant: int) -> int:
    with psycopg.connect(admin_url(service)) as connection:
        row = connection.execute(
            "SELECT count(*) FROM events WHERE stream LIKE %s", (f"price-sheet/%/{participant}/%",)
        ).fetchone()
        assert row
        return int(row[0])


@pytest.mark.promise("post-v1-data-import")
def test_a_participant_is_imported_once_and_never_changed_by_a_repeat(importer: Importer) -> None:
    participant = a_participant()
    assert post(importer, "market-participant", participant) == (201, participant)
    other = changed(participant, "Other", "name")
    assert post(importer, "market-participant", other) == (200, participant)
    assert post(importer, "market-participant", participant) == (200, participant)


@pytest.mark.promise("post-v1-data-import")
def test_a_wrong_participant_or_sheet_is_refused_with_a_list_alone(importer: Importer) -> None:
    participant = changed(changed(a_participant(), "x", "contact_details", 0, "phone"), ..., "code")
    sheet = changed(a_sheet(1), True, "is_price_sheet_unused")
    found: dict[str, str] = {}
    for path, sent in (("market-participant", participant), ("market-participant-fees", {"price_sheets": [sheet]})):
        status, body = post(importer, path, sent)
        assert (status, set(body), body["code"]) == (400, {"detail", "code", "errors"}, "validation_error")
        found |= {error["attr"]: error["code"] for error in body["errors"]}
    assert found == {
        "code": "required",
        "contact_details.0.phone": "invalid_phone_number",
        "price_sheets.0.article_prices": "unused_price_sheet_with_prices",
    }


def test_the_same_document_with_other_content_is_refused_and_nothing_is_imported(
    service: RunningService, importer: Importer
) -> None:
    participant = import_participant(importer)
    fees(importer, a_sheet(participant))
    differing = changed(a_sheet(participant), "99", "article_prices", 0, "price_cents")
    status, body = fees(importer, a_sheet(participant, "D-2"), differing)
    assert status == 400
    assert [(e["attr"], e["code"]) for e in body["errors"]] == [("price_sheets.1.document_number", "unique")]
    assert sheets_stored(service, participant) == 1


@pytest.mark.promise("post-v1-data-import-market", "400-unknown-referenced-market")
def test_an_unknown_participant_is_named_by_index_and_nothing_is_imported(
    service: RunningService, importer: Importer
) -> None:
    participant = import_participant(importer)
    status, body = fees(importer, a_sheet(participant), a_sheet(next(_codes)))
    assert status == 400
    assert [(e["attr"], e["code"]) for e in body["errors"]] == [
        ("price_sheets.1.market_participant_code", "market_participant_not_found")
    ]
    assert sheets_stored(service, participant) == 0


def test_a_document_that_one_request_names_twice_is_refused(importer: Importer) -> None:
    participant = import_participant(importer)
    status, body = fees(importer, a_sheet(participant), a_sheet(participant))
    assert (status, body["errors"][0]["attr"]) == (400, "price_sheets.1.document_number")


def test_ten_thousand_sheets_are_one_request(service: RunningService, importer: Importer) -> None:
    participant = import_participant(importer)
    prices = [{"article_id": "2-01-7-001", "price_cents": "12.5"}]
    sheets = [changed(a_sheet(participant, f"D-{n}"), prices, "article_prices") for n in range(10_000)]
    assert fees(importer, *sheets) == (201, {"price_sheets_imported": 10_000})
    assert sheets_stored(service, participant) == 10_000


def rows(service: RunningService, query: str, *parameters: Any) -> list[Any]:
    with psycopg.connect(admin_url(service)) as connection:
        return connection.execute(query.encode(), parameters).fetchall()


@pytest.mark.promise("accounts-market-data-become", "accounts-market-data-become-platform")
def test_a_participant_and_its_sheets_become_platform_records(service: RunningService, importer: Importer) -> None:
    code = import_participant(importer)
    assert fees(importer, a_sheet(code), a_sheet(code, "D-2"))[0] == 201
    query = """
        SELECT p.name, p.role, c.category, c.email, c.valid_from = '2023-12-31T23:00:00Z'
        FROM platform.market_participant AS p
        JOIN platform.market_participant_contact AS c USING (organisation, code)
        WHERE code = %s
    """
    contact = ("Stadtwerke Musterstadt", "NETWORK_OPERATOR", "Z10", "leitstelle@example.com", True)
    assert rows(service, query, code) == [contact]
    query = """
        SELECT document_number, a.ordinal, a.price_cents::text, a.interval_zone_upper_bound::text
        FROM platform.price_sheet AS s
        JOIN platform.price_sheet_article_price AS a USING (organisation, market_participant_code, document_number)
        JOIN platform.market_participant AS p ON (p.organisation, p.code) = (s.organisation, market_participant_code)
        WHERE p.code = %s
        ORDER BY document_number, a.ordinal
    """
    prices = [(1, "12.500", "10.5"), (2, "11.0", None), (3, "3", None)]
    assert rows(service, query, code) == [(document, *price) for document in ("D-1", "D-2") for price in prices]


@pytest.mark.promise("pre-account-data-too")
def test_a_participant_sent_at_once_is_imported_once(service: RunningService, importer: Importer) -> None:
    for _ in range(5):
        body = a_participant()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda sent: post(importer, "market-participant", sent), [body] * 8))
        assert sorted(status for status, _ in answers) == [200] * 7 + [201]
        assert all(stored == body for _, stored in answers)
        assert rows(service, "SELECT count(*) FROM platform.market_participant WHERE code = %s", body["code"]) == [(1,)]


@pytest.mark.promise("pre-account-data-too", "post-v1-data-import-market")
def test_sheets_sent_at_once_are_imported_once_in_any_order(service: RunningService, importer: Importer) -> None:
    code = import_participant(importer)
    for turn in range(3):
        sheets = [a_sheet(code, f"{turn}-{number}") for number in range(20)]
        orders = [sheets, sheets[::-1]] * 4
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda sent: fees(importer, *sent), orders))
        assert answers == [(201, {"price_sheets_imported": 20})] * 8
        assert sheets_stored(service, code) == 20 * (turn + 1)
    assert rows(service, "SELECT count(*) FROM platform.price_sheet WHERE market_participant_code = %s", code) == [
        (60,)
    ]


@pytest.mark.promise("same-record-another-spelling")
def test_a_sheet_in_another_spelling_is_the_same(service: RunningService, importer: Importer) -> None:
    code = import_participant(importer)
    assert fees(importer, a_sheet(code))[0] == 201
    other = changed(a_sheet(code), "2023-12-31T23:00:00Z", "active_from")
    other = changed(other, "12.50", "article_prices", 0, "price_cents")
    assert fees(importer, other) == (201, {"price_sheets_imported": 1})
    assert sheets_stored(service, code) == 1
    later = changed(other, "2024-01-01T00:00:00Z", "active_from")
    assert fees(importer, later)[1]["errors"][0]["code"] == "unique"


@pytest.mark.promise("accounts-market-data-become-platform")
def test_the_history_of_a_market_record_can_be_read_and_it_can_be_healed(
    service: RunningService, importer: Importer
) -> None:
    code = import_participant(importer)
    assert fees(importer, a_sheet(code))[0] == 201
    for stream, event in (
        (f"participant/Testers/{code}", "ParticipantImported"),
        (f"price-sheet/Testers/{code}/D-1", "PriceSheetImported"),
    ):
        [line] = service.cli("history", stream, "--json").stdout.splitlines()
        assert json.loads(line)["event"] == event
        assert "market: rebuilt" in service.cli("projections", "heal", stream).stdout
    shown = service.cli("history", f"participant/Testers/{code}", "--payloads").stdout
    assert "Leitstelle" in shown
    assert service.cli("history", f"participant/Testers/{code}0", check=False).returncode == 1
    assert service.cli("history", importer.supplier, check=False).returncode == 1
    assert rows(service, "SELECT count(*) FROM platform.market_participant WHERE code = %s", code) == [(1,)]


@pytest.fixture(scope="module")
def other(service: RunningService) -> Importer:
    """A key of another organisation."""
    return service.importer(organisation="Others")


@pytest.fixture(scope="module")
def operator(service: RunningService) -> Importer:
    """A key of the service's operator."""
    return service.importer(role="operator", organisation="Platform", supplier="*")


@pytest.mark.promise("market-participants-price-sheets")
def test_two_organisations_hold_the_same_market_partner_code_each(
    service: RunningService, importer: Importer, other: Importer
) -> None:
    mine = a_participant()
    theirs = changed(mine, "somebody.else@example.com", "contact_details", 0, "email")
    for caller, record in ((importer, mine), (other, theirs)):
        assert post(caller, "market-participant", record) == (201, record)
    for caller, record in ((importer, mine), (other, theirs)):
        assert post(caller, "market-participant", changed(mine, "x", "name")) == (200, record)
    code = mine["code"]
    for caller, price in ((importer, "1"), (other, "2")):
        sheet = changed(a_sheet(code), price, "article_prices", 2, "price_cents")
        assert fees(caller, sheet) == (201, {"price_sheets_imported": 1})
    query = """
        SELECT organisation, a.price_cents::text, c.email
        FROM platform.price_sheet_article_price AS a
        JOIN platform.market_participant_contact AS c USING (organisation)
        WHERE market_participant_code = %s AND a.ordinal = 3 AND c.code = market_participant_code
        ORDER BY organisation
    """
    assert rows(service, query, code) == [
        ("Others", "2", "somebody.else@example.com"),
        ("Testers", "1", "leitstelle@example.com"),
    ]


@pytest.mark.promise("market-participants-price-sheets")
def test_what_the_operator_has_sent_is_read_by_all_and_changed_by_none(
    service: RunningService, importer: Importer, operator: Importer
) -> None:
    shared = a_participant()
    assert post(operator, "market-participant", shared) == (201, shared)
    assert post(importer, "market-participant", changed(shared, "x", "name")) == (200, shared)
    code = shared["code"]
    assert fees(importer, a_sheet(code, "own")) == (201, {"price_sheets_imported": 1})
    assert fees(operator, a_sheet(code)) == (201, {"price_sheets_imported": 1})
    assert fees(importer, a_sheet(code)) == (201, {"price_sheets_imported": 1})
    status, body = fees(importer, changed(a_sheet(code), "99", "article_prices", 0, "price_cents"))
    assert (status, body["errors"][0]["code"]) == (400, "unique")
    query = "SELECT organisation, document_number FROM platform.price_sheet WHERE market_participant_code = %s"
    assert sorted(rows(service, query, code)) == [("", "D-1"), ("Testers", "own")]
    assert rows(service, "SELECT organisation FROM platform.market_participant WHERE code = %s", code) == [("",)]


def test_an_operator_of_one_organisation_sends_for_that_organisation(
    service: RunningService, importer: Importer
) -> None:
    some = service.importer(role="operator", organisation="Some")
    shared = a_participant()
    assert post(some, "market-participant", shared) == (201, shared)
    assert post(importer, "market-participant", shared) == (201, shared)


@pytest.mark.promise("contacts-market-participants-erased")
def test_contacts_are_erased_and_the_rest_of_the_record_stays(service: RunningService, importer: Importer) -> None:
    participant = a_participant()
    headers = {"Idempotency-Key": f"erased-{participant['code']}"}
    path = "/v1/data-import/market-participant/import/"
    assert importer.request("POST", path, participant, headers)[0].status == 201
    stream = f"participant/Testers/{participant['code']}"
    for is_new in (True, False):
        erased = service.cli("erase", stream, "--reason", "DSR-1", "--yes", "--json")
        assert json.loads(erased.stdout) == {"participant": stream, "is_erased": True, "is_new": is_new}
    left = {name: value for name, value in participant.items() if name != "contact_details"}
    assert post(importer, "market-participant", participant) == (200, left)
    shown = service.cli("history", stream, "--payloads").stdout
    assert "ContactsErased" in shown
    assert "Leitstelle" not in shown
    code = participant["code"]
    assert rows(service, "SELECT name FROM platform.market_participant WHERE code = %s", code) == [(left["name"],)]
    assert rows(service, "SELECT FROM platform.market_participant_contact WHERE code = %s", code) == []
    with psycopg.connect(admin_url(service)) as connection:
        query = "SELECT received_bytes FROM payloads WHERE stream = %s"
        assert connection.execute(query, (stream,)).fetchall() == [(len(encoded(left)),)]
        query = "SELECT FROM remembered_answers WHERE convert_from(body, 'UTF8') LIKE %s"
        assert connection.execute(query, (f"%{code}%",)).rowcount == 0
    service.cli("seal")
    assert "WARNED" not in service.cli("verify", "--all").stderr
    assert service.cli("projections", "verify", "market").returncode == 0
    assert "rebuilt" in service.cli("projections", "heal", stream).stdout
    assert service.cli("projections", "verify", "market").returncode == 0
    assert service.cli("erase", "participant/Nobody/1", "--reason", "r", "--yes", check=False).returncode == 1
    assert service.cli("erase", importer.supplier, "--reason", "r", "--yes", check=False).returncode == 1


def test_a_record_whose_key_was_not_restored_is_answered_by_its_code_and_can_be_erased(
    service: RunningService, importer: Importer, operator: Importer
) -> None:
    participant = a_participant()
    assert post(operator, "market-participant", participant)[0] == 201
    code, stream = participant["code"], f"participant//{participant['code']}"
    with psycopg.connect(admin_url(service)) as connection:
        connection.execute("UPDATE payload_keys SET key = NULL, erased_at = now() WHERE stream = %s", (stream,))
    for _ in range(2):
        assert post(importer, "market-participant", participant) == (200, {"code": code})
        service.cli("erase", stream, "--reason", "r", "--yes")
    assert rows(service, "SELECT name FROM platform.market_participant WHERE code = %s", code) == [("",)]
