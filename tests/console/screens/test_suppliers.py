"""Pages of suppliers, keys, users and the system, for operators."""

import re
from typing import Any

import pytest

from api.endpoints.supplier_settings import SUPPLIER_SETTINGS
from console.settings import ConsoleSettings
from embedded.postgres import PostgresUrls
from eventstore.aggregates import organisation, supplier
from eventstore.aggregates.organisation import CreateKey
from eventstore.aggregates.user import UserErased, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.console import (
    carrying_out,
    console_app,
    new_user,
    send,
    signed_in,
    visitor,
    words_of,
)

CANARY = '"><script>alert(1)</script>'


def test_an_operator_sets_up_a_supplier_a_key_and_a_user(database: PostgresUrls, ledger: Ledger, owner: Ledger) -> None:
    home = "/console/suppliers/"

    with console_app(database) as app, visitor(app, signed_in(ledger, role="operator")) as browser:
        done = send(browser, home, {"code": "NW"})
        assert done.headers["location"] == "/console/suppliers/NW/"
        assert send(browser, home, {"code": CANARY}).status_code == 400
        fields = {"status": "complete", "reason": CANARY}
        assert send(browser, f"{home}NW/status/", fields, at=f"{home}NW/").status_code == 400
        send(browser, f"{home}NW/status/", fields | {"confirm": "NW"}, at=f"{home}NW/")
        for path in (f"{home}NW/", "/console/"):
            words = words_of(browser.get(path).text)
            assert ("complete" in words, CANARY in words) == (True, True)  # what was typed, and not its id
        key = {"organisation": CANARY.replace("/", ""), "suppliers": "NW", "role": "importer", "rate": "5"}
        shown = send(browser, "/console/keys/", key, at=home)
        assert re.search(r"ilk_[a-z0-9]{8}_[\w-]{43}", shown.text)
        assert "waiting for the relay" in browser.get(home).text
        user = {
            "email": "eve@example.org",
            "name": CANARY,
            "organisation": "X",
            "suppliers": "NW",
            "role": "support",
        }
        with carrying_out(database):
            link = send(browser, "/console/users/", user, at=home)
            assert "/console/sign-in/" in link.text
            page = browser.get(home).text
            assert "<script>alert" not in page
            [user_id] = re.findall(r"/console/users/(u_[0-9a-f]{12})/\">&#34;&gt;", page)
            for change in ("sign-out", "disable", "enable", "link"):
                answer = send(browser, f"/console/users/{user_id}/{change}/", at=f"/console/users/{user_id}/")
                assert answer.status_code in (200, 303)
            erase = f"/console/users/{user_id}/erase/"
            assert send(browser, erase, {"confirm": "x"}, at=home).status_code == 400
            send(browser, erase, {"confirm": "eve@example.org"}, at=home)
            assert isinstance(ledger.history(stream_of(user_id))[-1].event, UserErased)
            assert "System Queue 0" in words_of(browser.get("/console/system/").text)
    [event] = [
        recorded.event
        for recorded in ledger.history("supplier/NW")
        if isinstance(recorded.event, supplier.SupplierStatusChanged)
    ]
    assert re.fullmatch(r"r_[0-9a-f]{16}", event.reason)


@pytest.mark.promise("documents-fetched-only-places")
@pytest.mark.asvs("V1.3.6", "V13.2.4", "V13.2.5")
@pytest.mark.api_top_10("API7")
def test_an_operator_of_one_organisation_sets_a_documents_root_only_at_an_allowed_place(
    database: PostgresUrls, ledger: Ledger
) -> None:
    ledger.execute(supplier.stream_of("NW"), supplier.CreateSupplier(), at=now(), by="t")
    at, form = "/console/suppliers/NW/", "/console/suppliers/NW/settings/"
    fields = {setting.field: str(setting.shown(setting.default)) for setting in SUPPLIER_SETTINGS.values()}
    mine, foreign = "file:///srv/nord/documents", ("file:///etc", "file:///srv/nord/../sued", "s3://sued/documents")

    def state() -> Any:
        return ledger.load([supplier.stream_of("NW")])[supplier.stream_of("NW")].state

    own, everywhere = (signed_in(ledger, role="operator", suppliers=(code,)) for code in ("NW", "*"))
    with console_app(database) as app, visitor(app, own) as browser:
        refused = send(browser, form, fields | {"documents_root": mine}, at=at)
        assert (refused.status_code, "operator must first allow" in words_of(refused.text)) == (400, True)
    places = ConsoleSettings(places={"Nordwind Energie": ("file:///srv/nord", "s3://nord"), "X": ("s3://sued",)})
    with console_app(database, settings=places) as app, visitor(app, own) as browser:
        for root in foreign:
            refused = send(browser, form, fields | {"documents_root": root}, at=at)
            words = words_of(refused.text)
            assert refused.status_code == 400
            assert "below one: file:///srv/nord, s3://nord" in words, words
            assert "sued" not in words
        assert send(browser, form, fields | {"documents_root": mine}, at=at).status_code == 303
        assert (state().documents_root, state().documents_organisation) == (mine, "Nordwind Energie")
    with console_app(database, settings=places) as app, visitor(app, everywhere) as browser:
        assert send(browser, form, fields | {"documents_root": foreign[0]}, at=at).status_code == 303
        assert (state().documents_root, state().documents_organisation) == (foreign[0], "")
    with console_app(database, settings=places) as app, visitor(app, own) as browser:
        strict = fields | {"documents_root": foreign[0], "strictness": "strict"}
        assert send(browser, form, strict, at=at).status_code == 303, "the platform's root stays"
        assert (state().strictness, state().documents_organisation) == ("strict", "")


@pytest.mark.asvs("V8.4.1")
def test_an_operator_of_one_supplier_reaches_no_further(database: PostgresUrls, ledger: Ledger, owner: Ledger) -> None:
    for code, key_id in (("NW", "narr1111"), ("SW", "wide1111")):
        ledger.execute(supplier.stream_of(code), supplier.CreateSupplier(), at=now(), by="operator:test")
        making = CreateKey(key_id=key_id, secret_sha256="0" * 64, role="importer", suppliers=(code,))
        owner.execute(organisation.stream_of("Nordwind Energie"), making, at=now(), by="operator:test")
    stranger = new_user(ledger, organisation="Südwind")
    colleague = new_user(ledger, role="operator")

    cookies = signed_in(ledger, role="operator", suppliers=["NW"])
    with console_app(database) as app, visitor(app, cookies) as browser:
        home = "/console/suppliers/"
        page = browser.get(home).text
        assert ("/suppliers/NW/" in page, "/suppliers/SW/" in page, stranger in page) == (True, False, False)
        assert "/console/system/" not in page
        for path in (f"{home}SW/", f"/console/users/{stranger}/", "/console/system/"):
            assert browser.get(path).status_code == 404
        assert browser.get(f"/console/users/{colleague}/").status_code == 403
        assert browser.get("/console/keys/wide1111/").status_code == 403
        assert ("narr1111" in page, "wide1111" in page, colleague in page) == (True, False, False)
        refused: list[tuple[str, dict[str, Any]]] = [
            (home, {"code": "NEW"}),
            ("/console/keys/", {"organisation": "Südwind", "suppliers": "NW", "role": "importer"}),
            ("/console/keys/", {"organisation": "Nordwind Energie", "suppliers": "*", "role": "importer"}),
            (
                "/console/users/",
                {"email": "a@example.org", "organisation": "X", "suppliers": "NW", "role": "auditor"},
            ),
        ]
        for path, fields in refused:
            assert send(browser, path, fields, at=home).status_code == 403


@pytest.mark.promise("nobody-learns-user-another")
def test_nobody_is_told_that_an_address_is_that_of_a_user_elsewhere(database: PostgresUrls, ledger: Ledger) -> None:
    ledger.execute("supplier/NW", supplier.CreateSupplier(), at=now(), by="operator:test")
    new_user(ledger, email="known@example.org", organisation="Südwerke")
    cookies, home = signed_in(ledger, role="operator", suppliers=["NW"]), "/console/suppliers/"

    with carrying_out(database), console_app(database) as app, visitor(app, cookies) as browser:
        answers = []
        for email in ("known@example.org", "fresh@example.org"):
            user = {"email": email, "organisation": "Nordwind Energie", "suppliers": "NW", "role": "support"}
            added = send(browser, "/console/users/", user, at=home)
            link = re.search(r"/console/sign-in/[\w-]+/", added.text)
            assert link is not None
            listed = words_of(browser.get(home).text).count(email)
            with visitor(app) as invited:
                entered = send(invited, link[0])
            words = re.sub(r"[0-9:]{8}", "", words_of(added.text.replace(link[0], "…")).replace(email, "…"))
            answers.append((added.status_code, words, listed, entered.headers["location"]))
        assert answers[0] == answers[1]
        assert (answers[0][0], answers[0][3]) == (200, "/console/password/")
        again = {"email": "FRESH@example.org", "organisation": "Nordwind Energie"}
        refused = send(browser, "/console/users/", again | {"suppliers": "NW", "role": "support"}, at=home)
        assert refused.status_code == 400
