"""Queries of support: progress and errors of a supplier, and the search for accounts."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, wait_for

SEARCH = "/v2/data-import/search/"


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """A supplier with three accounts, one of them failed in a dry run, and a refused request."""
    importer = service.importer()
    for number, name in ((1, "Müller-Lüdenscheidt"), (2, "Dvořák"), (3, "O'Neill 100%")):
        account = changed(an_account(importer.supplier, number), name, "customers", 0, "family_name")
        assert importer.client.create(encoded(account)).status == 201
    wait_for(lambda: get(importer, "progress").get("by_status") == {"PROCESSED": 3}, "all are processed")
    return importer


def get(importer: Importer, what: str, **query: str) -> Any:
    return ask(importer.service, importer.api_key, f"/v2/data-import/suppliers/{importer.supplier}/{what}/", **query)[1]


def ask(service: RunningService, api_key: str, path: str, **query: str) -> tuple[int, Any]:
    query_text = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    answer, _ = service.request("GET", f"{path}?{query_text}", headers={"Authorization": f"Token {api_key}"})
    return answer.status, answer.body


def search(service: RunningService, api_key: str, **query_text: str) -> tuple[int, Any]:
    status, body, _ = page(service, api_key, SEARCH, query_text)
    return status, body


def supporter(service: RunningService, supplier: str) -> str:
    made = service.cli("key", "create", "Support", "--supplier", supplier, "--role", "support", "--json")
    return str(json.loads(made.stdout)["api_key"])


def test_progress_and_errors_of_a_supplier_are_counted(importer: Importer) -> None:
    found = get(importer, "progress")
    assert found == {"import_supplier": importer.supplier, "total": 3, "by_status": {"PROCESSED": 3}}
    assert get(importer, "errors") == []
    assert get(importer, "errors", from_day="2026-01-01", to_day="2026-01-02") == []
    assert get(importer, "errors", form_day="2026-01-01")["errors"][0]["code"] == "unknown_field"
    assert get(importer, "errors", from_day="yesterday")["errors"][0]["attr"] == "from_day"


def test_accounts_are_found_by_the_other_things_that_people_know(service: RunningService, importer: Importer) -> None:
    key = supporter(service, importer.supplier)
    account = an_account(importer.supplier, 1)
    point = account["supply_addresses"][0]["supply_points"][0]
    for text in (
        account["customers"][0]["email"].upper(),
        account["supply_addresses"][0]["supply_postcode"],
        point["identifier"],
        point["melos"][0]["meters"][0]["meter_number"],
        account["external_account_number"],
    ):
        _, found = search(service, key, q=text, supplier=importer.supplier)
        assert account["external_account_number"] in [record["external_account_number"] for record in found], text


def test_a_search_needs_a_text(service: RunningService, importer: Importer) -> None:
    key = supporter(service, importer.supplier)
    assert search(service, key)[0] == 400
    assert search(service, key, q="\0")[0] == 400


def page(
    service: RunningService, key: str, path: str, query_text: dict[str, str] | None = None
) -> tuple[int, Any, str | None]:
    """Status, body, and the path of the next page; of a search where something is asked for."""
    sent = {"Authorization": f"Token {key}", "Content-Type": "application/json"}
    body = None if query_text is None else encoded(query_text)
    answer, headers = service.request("GET" if query_text is None else "POST", path, body, sent)
    link = {name.lower(): value for name, value in headers.items()}.get("link")
    assert link is None or link.endswith('>; rel="next"')
    return answer.status, answer.body, link and link[1:].removesuffix('>; rel="next"')


@pytest.mark.promise("suppliers-supplier-imports-lists")
def test_a_suppliers_imports_are_listed_in_pages(service: RunningService, importer: Importer) -> None:
    path: str | None = f"/v2/data-import/suppliers/{importer.supplier}/imports/?status=PROCESSED&limit=2"
    listed = []
    sizes = []
    while path is not None:
        status, body, path = page(service, importer.api_key, path)
        assert status == 200
        listed += body
        sizes.append(len(body))
    assert sizes == [2, 1]
    assert [record["external_account_number"] for record in listed] == [
        an_account(importer.supplier, number)["external_account_number"] for number in (1, 2, 3)
    ]
    for record in listed:
        status_record = importer.client.status(importer.supplier, record["external_account_number"]).body
        assert record == status_record | {"external_account_number": record["external_account_number"]}
    everything = page(service, importer.api_key, f"/v2/data-import/suppliers/{importer.supplier}/imports")
    assert everything == (200, listed, None)


@pytest.mark.promise("suppliers-supplier-imports-lists")
@pytest.mark.parametrize(
    "query",
    ["statuss=ERRORED", "status=errored", "after=x", "after=-1", "limit=0", "limit=1001", "limit=%C2%B2", "code="],
)
def test_a_list_refuses_what_it_does_not_understand(service: RunningService, importer: Importer, query: str) -> None:
    path = f"/v2/data-import/suppliers/{importer.supplier}/imports/?{query}"
    status, body, _ = page(service, importer.api_key, path)
    assert status == 400
    assert [error["attr"] for error in body["errors"]] == [query.split("=")[0]]


@pytest.mark.promise("search-full-names-either")
def test_a_search_has_pages_and_a_sign_that_there_are_more(service: RunningService, importer: Importer) -> None:
    key = supporter(service, importer.supplier)
    postcode = an_account(importer.supplier, 1)["supply_addresses"][0]["supply_postcode"]
    for number in range(1, 4):
        if an_account(importer.supplier, number)["supply_addresses"][0]["supply_postcode"] != postcode:
            extra = changed(an_account(importer.supplier, number + 10), postcode, "billing_postcode")
            assert importer.client.create(encoded(extra)).status == 201
    query_text = {"q": postcode}

    def are_processed() -> bool:
        return [record["status"] for record in search(service, key, **query_text)[1]] == ["PROCESSED"] * 3

    wait_for(are_processed, "all are found, and nothing about them changes any more")
    path: str | None = f"{SEARCH}?limit=1"
    found = []
    while path is not None:
        status, body, path = page(service, key, path, query_text)
        assert (status, len(body)) == (200, 1)
        assert path is None or postcode not in path
        found += body
    assert found == search(service, key, **query_text)[1]
    assert page(service, key, f"{SEARCH}?after=nonsense", query_text)[0] == 400
    assert page(service, key, f"{SEARCH}?limit=51", query_text)[0] == 400


@pytest.mark.promise("somebody-looks-stands-address")
@pytest.mark.asvs("V14.2.1")
def test_what_somebody_looks_for_is_taken_from_no_address(service: RunningService, importer: Importer) -> None:
    key = supporter(service, importer.supplier)
    assert page(service, key, f"{SEARCH}?q=dvorak")[0] == 405
    assert page(service, key, f"{SEARCH}?q=dvorak", {"q": "dvorak"})[1]["errors"][0]["code"] == "unknown_field"
    assert page(service, key, SEARCH, {"q": " "})[1]["errors"][0]["code"] == "blank"


@pytest.mark.promise("importledger-search-text-needs")
def test_the_command_finds_accounts_and_refused_attempts(service: RunningService, importer: Importer) -> None:
    external = an_account(importer.supplier, 1)["external_account_number"]
    refused = changed(an_account(importer.supplier, 90), "x", "customers", 0, "landline")
    assert importer.client.create(encoded(refused)).status == 400
    number = importer.client.status(importer.supplier, external).body["service_identifier"]
    assert external in service.cli("search", number).stdout
    assert external in service.cli("search", "Müller-Lüdenscheidt", "--supplier", importer.supplier).stdout
    wait_for(lambda: "refused" in service.cli("search", refused["external_account_number"]).stdout, "it is stored")
    output = service.cli("search", refused["external_account_number"]).stdout
    assert "account_failed_validation  invalid_phone_number@customers.0.landline" in output
    assert service.cli("search", "nobody-has-this").stdout.strip() == "Nothing was found."
