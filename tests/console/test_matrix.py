"""Every page and form for every role and tenant: other tenants answer 404, other roles 403, and nothing is changed.

`PAGE_ROLES` and `FORM_ROLES` name the roles of each page and form. A page or form without a row fails these tests.
`tests/api/test_tenants.py` does the same for the operations of the API.
"""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import groupby
from typing import Any

import msgspec
import psycopg
import pytest

from api.endpoints.supplier_settings import SUPPLIER_SETTINGS
from console.access.visit import ROOT, Screen
from console.books.writing import Books
from console.screens import SCREENS, runs
from embedded.postgres import PostgresUrls
from eventstore.aggregates import organisation
from eventstore.aggregates.import_process import FailImport
from eventstore.aggregates.user import UserRole
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.auxiliary.books import Reach
from tests.support.console import (
    AUTHORITY,
    App,
    Browser,
    carrying_out,
    create_supplier,
    csrf_in,
    new_user,
    signed_in,
    stage_account,
    visitor,
)
from tests.support.following import follow
from tests.support.make import start
from tests.support.owner_tasks import propose

PAGES = [screen for screen in SCREENS if screen.method == "GET" and screen.roles is not None]
FORMS = [screen for screen in SCREENS if screen.method == "POST" and screen.roles is not None]
PIECES = [screen for screen in SCREENS if screen.method not in ("GET", "POST")]
"""Addresses to which a script sends pieces of files."""
ROLES: tuple[UserRole, ...] = ("importer", "auditor", "support", "operator")
OWN, FOREIGN, WAITING, FAILED = "NW", "FREMD", "P", "E"
PAGE_ROLES = {
    "iaso": (
        *("/imports/", "/imports/export/", "/imports/{supplier}/{external}/", "/errors/", "/errors/{code}/"),
        *("/password/", "/shortcuts/", "/runs/", "/runs/{supplier}/{run}/"),
    ),
    "aso": (
        *("/", "/imports/{supplier}/{external}/proof.zip", "/projections/", "/projections/{name}/", "/proof/"),
        *("/tasks/", "/suppliers/", "/suppliers/{supplier}/", "/proof/checkpoint.note"),
    ),
    "ao": ("/personal-data/",),
    "io": (
        *("/books/", "/books/{book}/", "/books/{book}/files/{name}/", "/books/{book}/edit/", "/books/{book}/rows/"),
        "/books/{book}/steps/{step}/",
    ),
    "so": ("/imports/decide/", "/proposals/"),
    "o": (
        *("/suppliers/{supplier}/decide/", "/keys/", "/keys/{key_id}/", "/users/", "/users/{user_id}/"),
        "/system/",
    ),
}
FORM_ROLES = {
    "iaso": ("/imports/find/", "/password/", "/sign-out/", "/shortcuts/", "/filters/", "/filters/remove/"),
    "aso": (
        *("/projections/{name}/verify/", "/proof/compare/"),
        *("/proof/verify/", "/personal-data/{supplier}/{external}/"),
    ),
    "io": (
        *("/books/", "/books/{book}/files/", "/books/{book}/files/{name}/delete/", "/books/{book}/edit/"),
        *("/books/{book}/steps/", "/books/{book}/steps/{step}/{change}/", "/books/{book}/erase/"),
    ),
    "so": (
        *("/imports/decide/", "/imports/decided/", "/imports/{supplier}/{external}/retry/"),
        "/proposals/{task}/{decision}/",
        *("/imports/{supplier}/{external}/cancel/", "/runs/{supplier}/{run}/compare/"),
    ),
    "o": (
        *("/imports/{supplier}/{external}/heal/", "/imports/{supplier}/{external}/erase/"),
        *("/projections/{name}/rebuild/", "/projections/{name}/switch/", "/keys/", "/keys/{key_id}/revoke/"),
        *("/suppliers/", "/suppliers/{supplier}/status/", "/suppliers/{supplier}/settings/"),
        *("/suppliers/{supplier}/decided/", "/suppliers/{supplier}/test-mail/"),
        *("/users/", "/users/{user_id}/{change}/"),
    ),
}


class Tenant(msgspec.Struct, frozen=True):
    """A supplier with its organisation, a key and a user."""

    code: str
    organisation: str
    key_id: str
    user_id: str
    email: str
    book: str
    step: str

    @property
    def secrets(self) -> set[str]:
        """Texts that no other tenant may see."""
        return {self.code, self.organisation, self.key_id, self.user_id, self.email, self.book, self.step}

    def place(self, path: str, external: str = WAITING) -> str:
        """The address of a page or form for this tenant."""
        names = {
            "code": "invalid_iban",
            "supplier": self.code,
            "external": external,
            "key_id": self.key_id,
            "user_id": self.user_id,
            "run": "monday",
            "book": self.book,
            "step": self.step,
            "change": "pause",
        } | ({"name": "mapping.yaml"} if path.startswith("/books/") else {})
        path += "?file=book.ndjson&line=1" if path.endswith("/rows/") else ""
        return ROOT + re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], "import_status"), path)


class Sent(msgspec.Struct, frozen=True):
    """A submitted form: its address and fields. `whole` is True if only users who see all suppliers may send it."""

    path: str
    fields: dict[str, str] = {}
    whole: bool = False
    files: dict[str, tuple[str, bytes]] = {}
    is_own: bool = False
    """True for a form about its sender, which has no foreign counterpart."""


def proposal_of(code: str, decision: str) -> str:
    """Return the id of the supplier's proposal on which this is decided."""
    return f"t_{code}_{decision}"


def forms_of(tenant: Tenant) -> Iterator[tuple[str, Sent]]:
    """Registered paths with a form of each kind for this tenant, in an order in which all of them work."""
    why = {"reason": "why not"}
    at = tenant.place
    many = why | {"verb": "retry", "chosen": f"{tenant.code}/{FAILED}"}
    key = {"organisation": tenant.organisation, "suppliers": tenant.code, "role": "importer", "rate": "0"}
    user = {"email": f"new@{tenant.code}.example.org", "organisation": tenant.organisation} | {
        "suppliers": tenant.code, "role": "support",
    }  # fmt: skip
    settings = {setting.field: str(setting.shown(setting.default)) for setting in SUPPLIER_SETTINGS.values()} | {
        "strictness": "strict"
    }
    account = "/imports/{supplier}/{external}"
    yield "/imports/find/", Sent(at("/imports/find/"), {"q": WAITING}, is_own=True)
    for decision in ("approve", "reject"):
        yield (
            "/proposals/{task}/{decision}/",
            Sent(f"{ROOT}/proposals/{proposal_of(tenant.code, decision)}/{decision}/", why),
        )
    yield "/imports/decide/", Sent(at("/imports/decide/"), many)
    yield "/imports/decided/", Sent(at("/imports/decided/"), many)
    yield f"{account}/retry/", Sent(at(f"{account}/retry/", "E2"), why)
    yield f"{account}/cancel/", Sent(at(f"{account}/cancel/"), why)
    yield f"{account}/heal/", Sent(at(f"{account}/heal/"), why)
    yield f"{account}/erase/", Sent(at(f"{account}/erase/"), why | {"typed": WAITING})
    yield "/personal-data/{supplier}/{external}/", Sent(at("/personal-data/{supplier}/{external}/"), why)
    yield "/runs/{supplier}/{run}/compare/", Sent(at("/runs/{supplier}/{run}/compare/"), {"file": "{}"})
    yield "/proof/compare/", Sent(at("/proof/compare/"), {"note": "x"}, is_own=True)
    yield "/proof/verify/", Sent(at("/proof/verify/"), {"all": "yes"}, whole=True)
    for verb in ("verify", "rebuild"):
        path = f"/projections/{{name}}/{verb}/"
        yield path, Sent(at(path), why, whole=True)
    yield "/projections/{name}/switch/", Sent(at("/projections/{name}/switch/"), why | {"version": "1"}, whole=True)
    yield "/suppliers/", Sent(at("/suppliers/"), {"code": f"{tenant.code}2"}, whole=True)
    yield "/suppliers/{supplier}/test-mail/", Sent(at("/suppliers/{supplier}/test-mail/"))
    yield "/suppliers/{supplier}/status/", Sent(at("/suppliers/{supplier}/status/"), why | {"status": "paused"})
    yield "/suppliers/{supplier}/settings/", Sent(at("/suppliers/{supplier}/settings/"), settings)
    confirmed = why | {"verb": "release", "confirm": tenant.code}
    yield "/suppliers/{supplier}/decided/", Sent(at("/suppliers/{supplier}/decided/"), confirmed)
    yield "/keys/", Sent(at("/keys/"), key)
    yield "/keys/{key_id}/revoke/", Sent(at("/keys/{key_id}/revoke/"), why | {"confirm": tenant.key_id})
    yield "/users/", Sent(at("/users/"), user)
    for change in ("link", "role", "sign-out", "disable", "enable", "erase"):
        fields = {"role": "auditor", "suppliers": tenant.code, "confirm": tenant.email}
        yield "/users/{user_id}/{change}/", Sent(f"{at('/users/{user_id}/')}{change}/", fields)
    book = "/books/{book}/"
    yield "/books/", Sent(at("/books/"), {"supplier": tenant.code, "run": "new"})
    yield f"{book}edit/", Sent(at(f"{book}edit/"), {"name": "values.csv", "text": "a"})
    yield f"{book}files/", Sent(at(f"{book}files/"), files={"file": ("a.csv", b"a")})
    yield f"{book}files/{{name}}/delete/", Sent(at(f"{book}files/{{name}}/delete/"))
    yield f"{book}steps/{{step}}/{{change}}/", Sent(at(f"{book}steps/{{step}}/{{change}}/"))
    yield f"{book}steps/", Sent(at(f"{book}steps/"), {"kind": "rehearse", "main": "book.ndjson"})
    yield f"{book}erase/", Sent(at(f"{book}erase/"), {"confirm": "go"})
    yield "/password/", Sent(at("/password/"), dict.fromkeys(("password", "again"), "three plain words"), is_own=True)
    yield "/shortcuts/", Sent(at("/shortcuts/"), {"shortcuts": "off"}, is_own=True)
    filters = {"here": f"{ROOT}/imports/?supplier={tenant.code}", "name": "mine"}
    yield "/filters/", Sent(at("/filters/"), filters, is_own=True)
    yield "/filters/remove/", Sent(at("/filters/remove/"), filters, is_own=True)
    yield "/sign-out/", Sent(at("/sign-out/"), is_own=True)


def set_up(ledger: Ledger, owner: Ledger, code: str, name: str, key_id: str) -> Tenant:
    create_supplier(ledger, code)
    for external in (WAITING, FAILED, "E2"):
        stage_account(ledger, code, external, run="monday")
        if external != WAITING:
            ledger.execute(f"import/{code}/{external}", start(), at=now(), by="worker:7")
            failed = FailImport(start=2, code="account_failed_validation", detail="No.")
            ledger.execute(f"import/{code}/{external}", failed, at=now(), by="worker:7")
    for decision in ("approve", "reject"):
        propose(ledger, "operator:test", "retry", proposal_of(code, decision), supplier=code)
    making = organisation.CreateKey(key_id=key_id, secret_sha256="0" * 64, role="importer", suppliers=(code,))
    owner.execute(organisation.stream_of(name), making, at=now(), by="operator:test")
    email = f"somebody@{code}.example.org"
    user_id = new_user(ledger, role="support", suppliers=[code], organisation=name, email=email)
    books, reach = Books(ledger, AUTHORITY), Reach(organisation=name, suppliers=[code], user_id=user_id)
    book = books.create(reach, code, "go")
    for file in ("book.ndjson", "mapping.yaml"):
        books.write_text(reach, book, file, "{}\n")
    step = books.start(reach, book, "push", {"files": "book.ndjson"})
    books.pause(reach, book, step)
    return Tenant(code, name, key_id, user_id, email, book, step)


@pytest.fixture
def tenants(ledger: Ledger, owner: Ledger) -> tuple[Tenant, Tenant]:
    """The tenant of the users, and another one."""
    made = (
        set_up(ledger, owner, OWN, "Nordwind Energie", "aaaa1111"),
        set_up(ledger, owner, FOREIGN, "Südwerke", "bbbb2222"),
    )
    follow(ledger)
    return made


def head(database: PostgresUrls) -> int:
    with psycopg.connect(database.admin) as connection:
        return int(connection.execute("SELECT max(position) FROM events").fetchone()[0])  # type: ignore[index]


def is_in(role: UserRole, screen: Screen) -> bool:
    table = PAGE_ROLES if screen.method == "GET" else FORM_ROLES
    return any(role[0] in roles and screen.path in paths for roles, paths in table.items())


def post(browser: Browser, csrf: str, sent: Sent) -> int:
    return browser.post(sent.path, data={"csrf": csrf} | sent.fields, files=sent.files or None).status_code


def put(browser: Browser, csrf: str, path: str) -> int:
    return browser.request("PUT", f"{path}?size=1", content=b"x", headers={"X-Form-Token": csrf}).status_code


def test_every_page_and_form_is_in_the_matrix(tenants: tuple[Tenant, Tenant]) -> None:
    assert {path for path, _ in forms_of(tenants[0])} == {screen.path for screen in FORMS}
    assert {(screen.method, screen.path) for screen in PIECES} == {("PUT", "/books/{book}/files/{name}/")}
    for screens, table in ((PAGES, PAGE_ROLES), (FORMS, FORM_ROLES)):
        assert sorted(path for paths in table.values() for path in paths) == sorted(screen.path for screen in screens)


@pytest.mark.promise("every-operation-role-own")
@pytest.mark.asvs("V8.2.1")
@pytest.mark.api_top_10("API1", "API5")
def test_every_page_is_there_for_its_roles_and_absent_for_others(
    ledger: Ledger, tenants: tuple[Tenant, Tenant], app: App
) -> None:
    mine, other = tenants
    with visitor(app) as stranger:
        for screen in PAGES:
            assert stranger.get(mine.place(screen.path)).status_code == 303
    for role in ROLES:
        with visitor(app, signed_in(ledger, role=role, suppliers=[OWN])) as browser:
            for screen in PAGES:
                answer = browser.get(mine.place(screen.path))
                status = answer.status_code
                assert {secret for secret in other.secrets if secret in answer.text} == set(), screen.path
                is_whole = screen.path == "/system/" or screen.path.endswith((".zip", ".note"))  # nothing is sealed
                expected = (200, 404) if is_whole else (200,)
                refused = 303 if screen.path == "/" else 403  # the overview leads to the first page of their own
                assert status in (expected if is_in(role, screen) else (refused,)), (role, screen.path)
                if re.search(r"\{(supplier|key_id|user_id|book)\}", screen.path):
                    address = other.place(screen.path)
                    answer = browser.get(address)
                    status = answer.status_code
                    named = {secret for secret in other.secrets if secret in answer.text}
                    assert {secret for secret in named if secret not in address} == set(), screen.path
                    assert status == (404 if is_in(role, screen) or "{supplier}" in screen.path else 403)


@pytest.mark.asvs("V3.5.3", "V8.3.1")
def test_a_form_of_a_role_that_may_not_or_about_what_is_foreign_does_nothing(
    database: PostgresUrls, ledger: Ledger, tenants: tuple[Tenant, Tenant], app: App
) -> None:
    mine, other = tenants
    screens = {screen.path: screen for screen in FORMS}
    sessions = {role: signed_in(ledger, role=role, suppliers=[OWN]) for role in ROLES}
    before = head(database)
    with visitor(app) as stranger:
        csrf = csrf_in(stranger.get("/console/sign-in/").text)
        for path, sent in forms_of(mine):
            assert post(stranger, csrf, sent) == 303, path  # to the page for signing in
        assert all(put(stranger, csrf, mine.place(screen.path)) == 303 for screen in PIECES)
    for role in ROLES:
        with visitor(app, sessions[role]) as browser:
            csrf = csrf_in(browser.get("/console/password/").text)
            for screen in PIECES:
                is_importer = role in ("importer", "operator")
                assert put(browser, csrf, other.place(screen.path)) == (404 if is_importer else 403)
                assert put(browser, "", mine.place(screen.path)) == 403
                assert put(browser, csrf, mine.place(screen.path)) == (200 if is_importer else 403)
            for path, sent in forms_of(mine):
                if not is_in(role, screens[path]) or sent.whole:
                    assert post(browser, csrf, sent) == 403, (role, sent.path)
            for path, sent in forms_of(other):
                if sent.is_own:
                    continue
                status = post(browser, csrf, sent)
                is_list = path.startswith("/imports/dec") and is_in(role, screens[path])
                assert status in ((303,) if is_list else (403, 404)), (role, sent.path, status)
                if "{supplier}" in path:
                    assert status == 404, (role, sent.path)
    assert head(database) == before


def test_the_same_forms_do_something_for_those_who_may(
    database: PostgresUrls, tenants: tuple[Tenant, Tenant], operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, the test above could pass for forms that never work."""
    changing = {path for path, _ in forms_of(tenants[0])}
    changing -= {"/imports/find/", "/imports/decide/", "/proof/compare/", "/shortcuts/"}
    changing -= {"/filters/", "/filters/remove/"}
    changing.discard("/runs/{supplier}/{run}/compare/")
    changing = {path for path in changing if not path.startswith("/books/")}
    csrf = csrf_in(operator.get("/console/password/").text)
    monkeypatch.setattr(runs, "WAIT_S", 0.0)  # nobody adds the run up
    for is_users, forms in groupby(forms_of(tenants[0]), lambda form: form[0].startswith("/users/")):
        with carrying_out(database) if is_users else nullcontext():
            for path, sent in forms:
                before = head(database)
                status = post(operator, csrf, sent)
                expected = (400,) if path.endswith(("switch/", "test-mail/")) else (303,)  # no version, no mail server
                assert status in expected, (sent.path, status)
                assert (head(database) > before) == (path in changing and status != 400), sent.path


@pytest.mark.asvs("V2.2.2", "V4.1.3", "V15.3.3")
@pytest.mark.api_top_10("API3")
def test_what_anybody_sends_is_not_believed(database: PostgresUrls, ledger: Ledger, tenants: Any, app: App) -> None:
    """A form without a token, or with the token of another session."""
    before_all = signed_in(ledger, role="operator"), signed_in(ledger, role="operator")
    before = head(database)
    with visitor(app, before_all[1]) as other:
        csrf = csrf_in(other.get("/console/password/").text)
    with visitor(app, before_all[0]) as browser:
        for _, sent in forms_of(tenants[0]):
            assert post(browser, csrf, sent) == 403
            assert post(browser, "", sent) == 403
    assert head(database) == before
