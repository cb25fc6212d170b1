"""Users with the role importer: their navigation, the page that they arrive at, and masked accounts."""

import re

import pytest

from eventstore.log.ledger import Ledger
from tests.support.console import App, Visit, create_supplier, send, signed_in, stage_account, visitor, words_of

ACCOUNT = "/console/imports/NW/A1/"
PROOF_LINK = re.compile(r"""href="[^"]*tab=proof""")
PERSON = {"customers": [{"given_name": "Frieda", "family_name": "Nebelhorn"}]}


@pytest.fixture
def account(ledger: Ledger) -> Ledger:
    create_supplier(ledger, "NW")
    stage_account(ledger, "NW", "A1", run="monday", **PERSON)
    return ledger


@pytest.mark.promise("importer-role")
def test_an_importer_sees_pages_of_imports_only_and_arrives_at_the_first(account: Ledger, visit: Visit) -> None:
    browser = visit("importer", suppliers=["NW"])
    arrived = browser.get("/console/")
    assert arrived.status_code == 303
    page = browser.get(arrived.headers["location"])
    assert page.status_code == 200
    navigation = re.findall(r'<li><a href="(/console/[^"]+)"[^>]*>', page.text.partition("main-nav")[2])
    shown = [address for address in navigation if address.count("/") == 3]
    assert shown[0] == arrived.headers["location"]
    assert {"/console/imports/", "/console/runs/", "/console/errors/"} <= set(shown)
    assert not {"/console/proof/", "/console/suppliers/", "/console/projections/"} & set(shown)


@pytest.mark.promise("importer-role")
def test_an_importer_cannot_see_personal_data_or_download_a_proof(account: Ledger, app: App) -> None:
    with visitor(app, signed_in(account, role="support", suppliers=["NW"])) as support:
        page = support.get(ACCOUNT).text
        assert "/console/personal-data/NW/A1/" in page
        assert PROOF_LINK.search(page)
    with visitor(app, signed_in(account, role="importer", suppliers=["NW"])) as browser:
        for tab in ("history", "received", "platform", "attached", "proof"):
            page = browser.get(f"{ACCOUNT}?tab={tab}").text
            assert "Nebelhorn" not in page
            assert "personal-data" not in page
            assert PROOF_LINK.search(page) is None
            assert "proof.zip" not in page
            assert "importledger " not in words_of(page)
        assert "F•••" in browser.get(f"{ACCOUNT}?tab=received").text
        answer = send(browser, "/console/personal-data/NW/A1/", {"reason": "because"}, at="/console/password/")
        assert answer.status_code == 403
