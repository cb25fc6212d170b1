"""Support sees how far a supplier is, what goes wrong, and finds accounts by what people know of them."""

import json
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from projections.account_search import folded
from tests.make import an_account, changed, encoded
from tests.running import Importer, RunningService, wait_for


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """A supplier with three accounts, one of them failed in a dry run, and a refused request."""
    importer = service.importer()
    for number, name in ((1, "Müller-Lüdenscheidt"), (2, "Dvořák"), (3, "O'Neill 100%")):
        account = changed(an_account(importer.supplier, number), name, "customers", 0, "family_name")
        assert importer.client.create(encoded(account)).status == 201
    wait_for(lambda: get(service, importer, "progress").get("by_status") == {"PROCESSED": 3}, "all are processed")
    return importer


def get(service: RunningService, importer: Importer, what: str, **query: str) -> Any:
    return ask(service, importer.api_key, f"/v2/data-import/suppliers/{importer.supplier}/{what}/", **query)[1]


def ask(service: RunningService, api_key: str, path: str, **query: str) -> tuple[int, Any]:
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    answer, _ = service.request("GET", f"{path}?{asked}", headers={"Authorization": f"Token {api_key}"})
    return answer.status, answer.body


def supporter(service: RunningService, supplier: str) -> str:
    made = service.cli("key", "create", "Support", "--supplier", supplier, "--role", "support", "--json")
    return str(json.loads(made.stdout)["api_key"])


def test_progress_is_what_the_status_of_each_says(service: RunningService, importer: Importer) -> None:
    found = get(service, importer, "progress")
    assert found == {"import_supplier": importer.supplier, "total": 3, "by_status": {"PROCESSED": 3}}


def test_errors_are_counted_by_day_code_and_path(service: RunningService, importer: Importer) -> None:
    assert get(service, importer, "errors") == []
    assert get(service, importer, "errors", from_day="2026-01-01", to_day="2026-01-02") == []
    assert get(service, importer, "errors", form_day="2026-01-01")["errors"][0]["code"] == "unknown_field"
    assert get(service, importer, "errors", from_day="yesterday")["errors"][0]["attr"] == "from_day"


@pytest.mark.parametrize(
    "text", ["müller", "MUELLER", "ller-lued", "dvorak", "Dvořá", "o'neill", "100%", "mueller-luedenscheidt"]
)
def test_accounts_are_found_by_part_of_a_name(service: RunningService, importer: Importer, text: str) -> None:
    key = supporter(service, importer.supplier)
    _, found = ask(service, key, "/v2/data-import/search/", q=text)
    assert len(found) == 1
    assert found[0]["import_supplier"] == importer.supplier
    assert found[0]["status"] == "PROCESSED"
    assert found[0]["service_account_number"].startswith("A-")


@pytest.mark.parametrize("text", ["xyzzy", "ab", "%%%", "___", "m_ller", "\\\\\\"])
def test_what_is_in_no_name_finds_nothing(service: RunningService, importer: Importer, text: str) -> None:
    key = supporter(service, importer.supplier)
    assert ask(service, key, "/v2/data-import/search/", q=text) == (200, [])


def test_accounts_are_found_by_the_other_things_that_people_know(service: RunningService, importer: Importer) -> None:
    key = supporter(service, importer.supplier)
    account = an_account(importer.supplier, 1)
    point = account["supply_addresses"][0]["supply_points"][0]
    search = partial(ask, service, key, "/v2/data-import/search/")
    for text in (
        account["customers"][0]["email"].upper(),
        account["supply_addresses"][0]["supply_postcode"],
        point["identifier"],
        point["melos"][0]["meters"][0]["meter_number"],
        account["external_account_number"],
    ):
        _, found = search(q=text, supplier=importer.supplier)
        assert account["external_account_number"] in [one["external_account_number"] for one in found], text


def test_nobody_searches_beyond_their_suppliers_or_their_role(service: RunningService, importer: Importer) -> None:
    other = service.importer()
    key = supporter(service, other.supplier)
    assert ask(service, key, "/v2/data-import/search/", q="dvorak") == (200, [])
    assert ask(service, key, "/v2/data-import/search/", q="dvorak", supplier=importer.supplier) == (200, [])
    assert ask(service, importer.api_key, "/v2/data-import/search/", q="dvorak")[0] == 403
    assert ask(service, key, "/v2/data-import/search/")[0] == 400
    assert ask(service, key, "/v2/data-import/search/", q="\0")[0] == 400
    assert ask(service, key, f"/v2/data-import/suppliers/{importer.supplier}/progress/")[0] == 404
    everywhere = supporter(service, "*")
    assert ask(service, everywhere, "/v2/data-import/suppliers/NOBODY/progress/")[0] == 404
    assert len(ask(service, everywhere, "/v2/data-import/search/", q="luedenscheidt")[1]) >= 1


def test_texts_are_compared_without_case_accents_and_umlauts() -> None:
    assert folded("  Ærøskøbing  GROẞE   Straße ") == "ærøskøbing grosse strasse"
    assert folded("Müller") == folded("Mu\u0308ller") == folded("MUELLER")
