"""Pages of suppliers, keys, users and the system, for operators."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from api.endpoints.supplier_settings import SUPPLIER_SETTINGS
from console.settings import ConsoleSettings
from embedded.postgres import PostgresUrls
from eventstore.aggregates import organisation, supplier
from eventstore.aggregates.organisation import CreateKey
from eventstore.aggregates.owner_task import OwnerTaskRequested, StartOwnerTask
from eventstore.aggregates.user import UserErased, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.console import (
    COOKIE,
    App,
    Browser,
    Visit,
    carrying_out,
    console_app,
    create_supplier,
    csrf_in,
    new_session,
    new_user,
    seen_in,
    send,
    visitor,
    words_of,
)
from tests.support.mail_server import listening
from tests.support.running import wait_for
from workers.actors.mail_server import MailServer

CANARY = '"><script>alert(1)</script>'


def test_an_operator_sets_up_a_supplier_a_key_and_a_user(
    database: PostgresUrls, ledger: Ledger, owner: Ledger, operator: Browser
) -> None:
    home = "/console/suppliers/"

    done = send(operator, home, {"code": "NW"})
    assert done.headers["location"] == "/console/suppliers/NW/"
    assert send(operator, home, {"code": CANARY}).status_code == 400
    fields = {"status": "complete", "reason": CANARY}
    assert send(operator, f"{home}NW/status/", fields, at=f"{home}NW/").status_code == 400
    send(operator, f"{home}NW/status/", fields | {"confirm": "NW"}, at=f"{home}NW/")
    for path in (f"{home}NW/", "/console/"):
        words = words_of(operator.get(path).text)
        assert ("complete" in words, CANARY in words) == (True, True)  # what was typed, and not its id
    key = NEW_KEY | {"organisation": CANARY.replace("/", "")}
    assert send(operator, "/console/keys/", key, at="/console/keys/").status_code == 303
    assert "waiting for the relay" in operator.get("/console/keys/").text
    user = NEW_KEY | {"email": "eve@example.org", "name": CANARY, "role": "support"}
    with carrying_out(database):
        link = operator.get(send(operator, "/console/users/", user, at=home).headers["location"])
        assert "/console/sign-in/" in link.text
        assert "/console/sign-in/" not in operator.get(str(link.url)).text
        page = operator.get("/console/users/").text
        assert "<script>alert" not in page
        assert "<script>alert" not in operator.get("/console/keys/").text
        [user_id] = re.findall(r"/console/users/(u_[0-9a-f]{12})/\">&#34;&gt;", page)
        for change in ("sign-out", "disable", "enable", "link"):
            answer = send(operator, f"/console/users/{user_id}/{change}/", at=f"/console/users/{user_id}/")
            assert answer.status_code == 303
        erase = f"/console/users/{user_id}/erase/"
        assert send(operator, erase, {"confirm": "x"}, at=home).status_code == 400
        send(operator, erase, {"confirm": "eve@example.org"}, at=home)
        assert isinstance(ledger.history(stream_of(user_id))[-1].event, UserErased)
        assert "Queue 0 imports that wait" in words_of(operator.get("/console/system/").text)
    [event] = [
        recorded.event
        for recorded in ledger.history("supplier/NW")
        if isinstance(recorded.event, supplier.SupplierStatusChanged)
    ]
    assert re.fullmatch(r"r_[0-9a-f]{16}", event.reason)


DEFAULTS = {setting.field: str(setting.shown(setting.default)) for setting in SUPPLIER_SETTINGS.values()}
"""Fields of the form for the settings of a supplier."""
PLACES = {"Nordwind Energie": ("file:///srv/nord", "s3://nord"), "X": ("s3://sued",)}
NEW_KEY = {"organisation": "X", "suppliers": "NW", "role": "importer", "rate": "5"}


@pytest.fixture
def nordwind(ledger: Ledger) -> Ledger:
    create_supplier(ledger, "NW")
    return ledger


@pytest.mark.promise("secret-shown-once")
def test_a_new_key_is_shown_once_and_its_page_follows_it_until_it_is_valid(
    database: PostgresUrls, nordwind: Ledger, visit: Visit
) -> None:
    browser = visit("operator")
    at = send(browser, "/console/keys/", NEW_KEY, at="/console/suppliers/").headers["location"]
    assert "ilk_" not in at
    assert "importledger-secret" in browser.cookies
    page = browser.get(at)
    assert re.search(r'value="ilk_[a-z0-9]{8}_[\w-]{43}"', page.text)
    assert "importledger-secret" not in browser.cookies
    for _ in range(2):
        words = words_of(page.text)
        assert "Create a key" in words
        assert "requested" in words
        assert 'hx-trigger="every 2s"' in page.text
        page = browser.get(at)
        assert "ilk_" not in page.text
    with carrying_out(database):
        wait_for(lambda: "Revoke the key" in browser.get(at).text, "the key is valid")
    page = browser.get(at)
    assert "done" in words_of(page.text)
    assert 'hx-trigger="every 2s"' not in page.text
    other = visit("operator", suppliers=["NW"])
    assert other.get(at).status_code == 404


def test_a_key_that_is_not_created_says_why_in_words(nordwind: Ledger, visit: Visit) -> None:
    browser = visit("operator", language="de")
    at = send(browser, "/console/keys/", NEW_KEY, at="/console/suppliers/").headers["location"]
    task = re.search(r"owner-task/\w+", "".join(streams_of(nordwind)))
    assert task is not None
    for _ in range(4):
        nordwind.execute(task[0], StartOwnerTask(), at=now(), by="relay")
    words = words_of(browser.get(at).text)
    assert "fehlgeschlagen Das Relay, ein Prozess des Dienstes, endete in jedem von drei Versuchen." in words
    assert "given up" not in words


@pytest.mark.promise("form-twice-does-nothing")
@pytest.mark.parametrize("path", ["keys", "users"])
def test_a_form_that_is_sent_twice_does_nothing_twice(
    database: PostgresUrls, nordwind: Ledger, operator: Browser, path: str
) -> None:
    fields = NEW_KEY | {"email": "eve@example.org", "role": "support", "name": "Eve"}
    page = operator.get(f"/console/{path}/").text
    [form] = set(re.findall(r'name="form" value="([0-9a-f]{32})"', page))
    sent = fields | {"csrf": csrf_in(page), "form": form}
    with carrying_out(database):
        answers = [operator.post(f"/console/{path}/", data=sent) for _ in range(2)]
        assert {answer.status_code for answer in answers} == {303}
        [at] = {answer.headers["location"] for answer in answers}
        assert "Copy this text now" in operator.get(at).text
        kinds = [event.kind for event in requested(nordwind)]
        again = send(operator, f"/console/{path}/", fields | {"email": "adam@example.org"}, at="/console/suppliers/")
    assert kinds == (["key_create"] if path == "keys" else ["user_create", "user_link"])
    assert again.headers["location"] != at


def streams_of(ledger: Ledger) -> list[str]:
    with ledger.connection() as connection:
        return [row["stream"] for row in connection.execute("SELECT stream FROM events ORDER BY position")]


def requested(ledger: Ledger) -> list[OwnerTaskRequested]:
    """The requests of users, in their order."""
    tasks = dict.fromkeys(stream for stream in streams_of(ledger) if stream.startswith("owner-task/"))
    return [event for stream in tasks if isinstance(event := ledger.history(stream)[0].event, OwnerTaskRequested)]


def typed_in(page: str, name: str) -> str:
    """Return the value of a field on a page."""
    [field] = re.findall(rf'<input[^>]*name="{name}"[^>]*>', page)
    [value] = re.findall(r'value="([^"]*)"', field)
    return unescape(value)


@pytest.mark.promise("typed-text-is-kept")
def test_a_wrong_setting_is_shown_at_its_field_and_what_was_typed_stays(nordwind: Ledger, operator: Browser) -> None:
    at, form = "/console/suppliers/NW/", "/console/suppliers/NW/settings/"
    fields = DEFAULTS | {"documents_root": f"ftp://{CANARY}", "strictness": "strict", "here": at}
    refused = send(operator, form, fields, at=at)
    assert refused.status_code == 400
    assert typed_in(refused.text, "documents_root") == fields["documents_root"]
    assert "<option selected>strict" in refused.text
    field = refused.text.partition('name="documents_root"')[2]
    assert field.partition(">")[2].startswith('<span class="error" role="alert" id="documents_root-error">The setting')
    assert '<details open class="do"><summary>Change the settings' in refused.text
    assert refused.text.count("<script>alert") == 0
    corrected = {"csrf": csrf_in(refused.text)} | fields | {"documents_root": ""}
    assert operator.post(form, data=corrected).status_code == 303
    for elsewhere in ("https://example.org/", "/v2/", "/console/nothing/", "/console/"):
        assert f'action="{form}"' not in send(operator, form, fields | {"here": elsewhere}, at=at).text
    wrong = NEW_KEY | {"suppliers": "NONE", "here": "/console/keys/"}
    refused = send(operator, "/console/keys/", wrong, at="/console/keys/")
    assert 'role="alert">No supplier has this code.</p>' in refused.text
    assert "importledger-secret" not in operator.cookies


@pytest.mark.promise("stale-form-changes-nothing")
@pytest.mark.parametrize("kind", ["settings", "role"])
def test_a_form_changes_nothing_that_another_user_has_changed_meanwhile(
    database: PostgresUrls, nordwind: Ledger, visit: Visit, kind: str
) -> None:
    first, second, user = visit("operator"), visit("operator"), new_user(nordwind, role="support", suppliers=["*"])
    home = "/console/suppliers/NW/" if kind == "settings" else f"/console/users/{user}/"
    form = f"{home}{kind}/"
    changes = {
        "settings": (DEFAULTS | {"sends_customer_emails": "on"}, DEFAULTS | {"strictness": "strict"}),
        "role": ({"role": "support", "suppliers": "NW"}, {"role": "operator", "suppliers": "*"}),
    }[kind]

    def post(browser: Browser, page: str, fields: dict[str, str]) -> str:
        sent = fields | {"csrf": csrf_in(page), "seen": seen_in(page, form)}
        answer = browser.post(form, data=sent)
        return words_of(browser.get(answer.headers["location"]).text)

    def shown() -> str:
        return seen_in(first.get(home).text, form)

    stale = second.get(home).text
    with carrying_out(database):
        page = first.get(home).text
        assert [" was changed: another user" in post(first, page, changes[0]) for _ in range(2)] == [False, False]
        changed = shown()
        refused = post(second, stale, changes[1])
        assert "Nothing was changed: another user has changed these values" in refused
        assert shown() == changed
        assert "another user" not in post(second, second.get(home).text, changes[1])
    assert shown() not in (changed, seen_in(stale, form))


def test_a_documents_root_that_cannot_be_reached_is_named(nordwind: Ledger, folder: Path, operator: Browser) -> None:
    at, form = "/console/suppliers/NW/", "/console/suppliers/NW/settings/"
    for root, is_named in ((folder.as_uri(), False), (f"{folder.as_uri()}/none", True)):
        done = send(operator, form, DEFAULTS | {"documents_root": root}, at=at)
        words = words_of(operator.get(done.headers["location"]).text)
        assert "The settings were changed." in words
        assert ("The documents of accounts cannot be searched:" in words) == is_named
    mails = DEFAULTS | {"documents_root": "", "sends_customer_emails": "on"}
    done = send(operator, form, mails, at=at)
    assert "whether the mail server can be used" in words_of(operator.get(done.headers["location"]).text)


@pytest.mark.promise("typed-text-is-kept")
def test_a_form_whose_session_has_ended_is_filled_in_again_after_signing_in(nordwind: Ledger, visit: Visit) -> None:
    user = new_user(nordwind, role="operator")
    at = "/console/suppliers/NW/status/"
    home = "/console/suppliers/NW/"
    browser = visit(user_id=user)
    page = browser.get(home).text
    fields = {"csrf": csrf_in(page), "here": home, "status": "paused", "reason": f"a long reason {CANARY}"}
    fields["author"] = page.partition('name="author" value="')[2].partition('"')[0]
    browser.cookies.delete(COOKIE)
    answer = browser.post(at, data=fields)
    assert answer.headers["location"] == f"/console/sign-in/?next={quote(home, safe='')}"
    assert "a long reason" not in str(dict(browser.cookies))
    other = new_user(nordwind, role="operator")
    browser.cookies.set(COOKIE, new_session(nordwind, other), domain="127.0.0.1")
    assert "a long reason" not in browser.get(home).text, "another user of the same browser"
    browser.cookies.set(COOKIE, new_session(nordwind, user), domain="127.0.0.1")
    page = browser.get(home).text
    assert typed_in(page.partition("/status/")[2], "reason") == fields["reason"]
    assert '<option value="paused" selected>' in page
    assert "Your session had ended." in page
    assert "a long reason" not in browser.get(home).text
    browser.cookies.delete(COOKIE)
    for odd in ("https://example.org/", "/console/\\\\example.org"):
        assert browser.post(at, data=fields | {"here": odd}).headers["location"] == "/console/sign-in/"
    assert nordwind.load([supplier.stream_of("NW")])[supplier.stream_of("NW")].state.status == "ongoing"


@pytest.mark.promise("documents-fetched-only-places")
@pytest.mark.asvs("V1.3.6", "V13.2.4", "V13.2.5")
@pytest.mark.api_top_10("API7")
@pytest.mark.parametrize("settings", [ConsoleSettings(places=PLACES)], ids=["places"])
def test_an_operator_of_one_organisation_sets_a_documents_root_only_at_an_allowed_place(
    nordwind: Ledger, visit: Visit
) -> None:
    at, form = "/console/suppliers/NW/", "/console/suppliers/NW/settings/"
    mine, foreign = "file:///srv/nord/documents", ("file:///etc", "file:///srv/nord/../sued", "s3://sued/documents")

    def state() -> Any:
        return nordwind.load([supplier.stream_of("NW")])[supplier.stream_of("NW")].state

    own = visit("operator", suppliers=["NW"])
    other = visit(user_id=new_user(nordwind, role="operator", suppliers=["NW"], organisation="Elsewhere"))
    refused = send(other, form, DEFAULTS | {"documents_root": mine}, at=at)
    assert (refused.status_code, "must first permit a URL" in words_of(refused.text)) == (400, True)
    for root in foreign:
        refused = send(own, form, DEFAULTS | {"documents_root": root}, at=at)
        words = words_of(refused.text)
        assert refused.status_code == 400
        assert "below one of these URLs: file:///srv/nord, s3://nord" in words, words
        assert "sued" not in words
    assert send(own, form, DEFAULTS | {"documents_root": mine}, at=at).status_code == 303
    assert (state().documents_root, state().documents_organisation) == (mine, "Nordwind Energie")
    assert send(visit("operator"), form, DEFAULTS | {"documents_root": foreign[0]}, at=at).status_code == 303
    assert (state().documents_root, state().documents_organisation) == (foreign[0], "")
    strict = DEFAULTS | {"documents_root": foreign[0], "strictness": "strict"}
    assert send(own, form, strict, at=at).status_code == 303, "the platform's root stays"
    assert (state().strictness, state().documents_organisation) == ("strict", "")


@pytest.mark.asvs("V8.4.1")
def test_an_operator_of_one_supplier_reaches_no_further(ledger: Ledger, owner: Ledger, visit: Visit) -> None:
    for code, key_id in (("NW", "narr1111"), ("SW", "wide1111")):
        create_supplier(ledger, code)
        making = CreateKey(key_id=key_id, secret_sha256="0" * 64, role="importer", suppliers=(code,))
        owner.execute(organisation.stream_of("Nordwind Energie"), making, at=now(), by="operator:test")
    stranger = new_user(ledger, organisation="Südwind")
    colleague = new_user(ledger, role="operator")
    browser = visit("operator", suppliers=["NW"])
    home = "/console/suppliers/"
    page = "".join(browser.get(f"/console/{kind}/").text for kind in ("suppliers", "users", "keys"))
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
        ("/console/users/", NEW_KEY | {"email": "a@example.org", "role": "auditor"}),
    ]
    for path, fields in refused:
        assert send(browser, path, fields, at=home).status_code == 403
    revoke = {"reason": "lost", "confirm": "wide1111"}
    assert send(visit(user_id=colleague), "/console/keys/wide1111/revoke/", revoke, at=home).status_code == 303
    requested = {}
    for code in ("NW", "SW"):
        key = NEW_KEY | {"organisation": "Nordwind Energie", "suppliers": code}
        location = send(visit(user_id=colleague), "/console/keys/", key, at=home).headers["location"]
        requested[code] = location.split("/")[-2]
    page = browser.get("/console/keys/").text
    assert [key in page for key in (requested["NW"], requested["SW"], "wide1111")] == [True, False, False]


@pytest.mark.promise("nobody-learns-user-another")
def test_nobody_is_told_that_an_address_is_that_of_a_user_elsewhere(
    database: PostgresUrls, app: App, nordwind: Ledger, visit: Visit
) -> None:
    new_user(nordwind, email="known@example.org", organisation="Südwerke")
    browser, home = visit("operator", suppliers=["NW"]), "/console/suppliers/"
    with carrying_out(database):
        answers = []
        for email in ("known@example.org", "fresh@example.org"):
            user = {"email": email, "organisation": "Nordwind Energie", "suppliers": "NW", "role": "support"}
            added = send(browser, "/console/users/", user, at=home)
            added = browser.get(added.headers["location"])
            link = re.search(r"/console/sign-in/[\w-]+/", added.text)
            assert link is not None
            listed = words_of(browser.get("/console/users/").text).count(email)
            with visitor(app) as invited:
                entered = send(invited, link[0])
            words = words_of(added.text.replace(link[0], "…")).replace(email, "…")
            words = re.sub(r"[0-9:]{8}|u_[0-9a-f]{12}", "", words)
            answers.append((added.status_code, words, listed, entered.headers["location"]))
        assert answers[0] == answers[1]
        assert (answers[0][0], answers[0][3]) == (200, "/console/password/")
        again = {"email": "FRESH@example.org", "organisation": "Nordwind Energie"}
        refused = send(browser, "/console/users/", again | {"suppliers": "NW", "role": "support"}, at=home)
        assert refused.status_code == 400


def test_a_test_mail_goes_to_its_sender_or_says_why_not(database: PostgresUrls, nordwind: Ledger) -> None:
    user = new_user(nordwind, role="operator", email="eve@example.org")
    cookies, at = {COOKIE: new_session(nordwind, user)}, "/console/suppliers/NW/"
    with listening(None) as (heard, port):
        for is_plain, words in ((True, "has accepted a test e-mail"), (False, "The test e-mail was not sent.")):
            server = MailServer(f"smtp://127.0.0.1:{port}", "service@example.com", is_plain=is_plain)
            settings = ConsoleSettings(mail_server=server)
            with console_app(database, settings=settings) as app, visitor(app, cookies) as browser:
                sent = send(browser, f"{at}test-mail/", at=at)
                assert sent.status_code == (303 if is_plain else 400)
                page = browser.get(at) if is_plain else sent
                assert words in words_of(page.text)
    [letter] = heard.letters
    assert b"To: eve@example.org" in letter
    with console_app(database) as app, visitor(app, cookies) as browser:
        assert "IMPORTLEDGER_SMTP_URL is not set" in words_of(send(browser, f"{at}test-mail/", at=at).text)
