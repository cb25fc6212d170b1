"""Sign-in at a real OpenID provider on loopback."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from console.settings import ConsoleSettings, OpenIdGrant, OpenIdSettings
from embedded.postgres import PostgresUrls
from eventstore.aggregates.user import DisableUser, UserCreated, UserRoleChanged, UserSignedIn, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.auxiliary.user_details import find_user_details
from tests.support.console import BASE, Browser, carrying_out, console_app, new_user, visitor
from tests.support.databases import owner_of
from tests.support.running import free_port, wait_for

NORDWIND = OpenIdGrant(role="support", organisation="Nordwind Energie", suppliers=("NW",))
PLATFORM = OpenIdGrant(role="operator", organisation="Platform", suppliers=("*",))


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The provider, in a process of its own, since it prints deprecation warnings."""
    port = free_port()
    issuer = f"http://localhost:{port}"
    command = [
        sys.executable,
        "-m",
        "oidc_provider_mock",
        "--host",
        "localhost",
        "--port",
        str(port),
        "--require-nonce",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        assert process.poll() is None, "the provider has ended"
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{issuer}/.well-known/openid-configuration", trust_env=False).status_code == 200
        return False

    try:
        wait_for(answers, "the provider answers")
        yield issuer
    finally:
        process.terminate()
        process.wait(30)


def settings(issuer: str) -> ConsoleSettings:
    grants = (("ops", PLATFORM), ("support", NORDWIND))
    openid = OpenIdSettings(issuer=issuer, client_id="ledger", client_secret="s", claim="groups", grants=grants)
    return ConsoleSettings(openid=openid)


def known_there(provider: str, sub: str, **claims: Any) -> None:
    httpx.put(f"{provider}/users/{sub}", json=claims, trust_env=False).raise_for_status()


def sign_in(browser: Browser, sub: str, *, spoils: str = "") -> httpx.Response:
    """Follow the redirects to the provider and back. `spoils` names a parameter that is altered on the way back."""
    answer = browser.get("/console/openid/?next=/console/password/")
    address = answer.headers["location"]
    query = parse_qs(urlsplit(address).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [f"{BASE}/console/openid/answer/"]
    back = httpx.post(address, data={"sub": sub}, trust_env=False).headers["location"]
    path = back.removeprefix(BASE)
    return browser.get(path.replace(f"{spoils}=", f"{spoils}=x") if spoils else path)


@pytest.mark.asvs("V7.6.1", "V10.3.3", "V10.5.2")
def test_a_claim_gives_the_role_and_its_change_is_an_event(
    database: PostgresUrls, ledger: Ledger, provider: str
) -> None:
    known_there(provider, "anna", email="anna@example.org", name="Anna A", groups=["staff", "support"])

    with carrying_out(database), console_app(database, settings=settings(provider)) as app, visitor(app) as browser:
        assert "your organisation" in browser.get("/console/sign-in/").text
        answer = sign_in(browser, "anna")
        assert answer.headers["location"] == "/console/password/"
        assert "Anna A" in browser.get("/console/").text
        known_there(provider, "anna", email="anna@example.org", groups=["ops", "support"])
        sign_in(browser, "anna")
    with ledger.connection() as connection:
        [details] = find_user_details(connection, "anna@example.org")
    events = [recorded.event for recorded in ledger.history(stream_of(details.user_id))]
    assert [type(event) for event in events] == [UserCreated, UserSignedIn, UserRoleChanged, UserSignedIn]
    assert events[0] == UserCreated(organisation="Nordwind Energie", role="support", suppliers=("NW",))
    assert events[2] == UserRoleChanged(role="operator", suppliers=("*",))


def test_who_has_no_role_there_or_is_disabled_here_is_not_let_in(
    database: PostgresUrls, ledger: Ledger, provider: str
) -> None:
    known_there(provider, "bernd", email="bernd@example.org", groups=["staff"])
    known_there(provider, "clara", email="clara@example.org", email_verified=True, groups=["support"])
    known_there(provider, "dora", email="clara@example.org", email_verified=False, groups=["ops"])
    clara = new_user(ledger, email="clara@example.org", organisation=NORDWIND.organisation)

    with carrying_out(database), console_app(database, settings=settings(provider)) as app:
        with visitor(app) as browser:
            assert sign_in(browser, "bernd").status_code == 403
            assert sign_in(browser, "dora").status_code == 403
            assert sign_in(browser, "clara").status_code == 303
        with closing(owner_of(ledger)) as owner:
            owner.execute(stream_of(clara), DisableUser(), at=now(), by="operator:test")
        with visitor(app) as browser:
            assert sign_in(browser, "clara").status_code == 403
    assert UserSignedIn in [type(recorded.event) for recorded in ledger.history(stream_of(clara))]


@pytest.mark.asvs("V7.6.2", "V10.1.1", "V10.1.2", "V10.2.1")
@pytest.mark.api_top_10("API10")
@pytest.mark.parametrize("spoilt", ["state", "code"])
def test_an_answer_that_was_not_asked_for_is_refused(
    database: PostgresUrls, ledger: Ledger, provider: str, spoilt: str
) -> None:
    known_there(provider, "anna", email="anna@example.org", groups=["support"])

    with console_app(database, settings=settings(provider)) as app, visitor(app) as browser:
        assert sign_in(browser, "anna", spoils=spoilt).status_code == 403
        assert browser.get("/console/openid/answer/?code=x&state=").status_code == 403


@pytest.mark.asvs("V16.5.2")
def test_a_provider_that_is_away_is_a_page(database: PostgresUrls) -> None:
    with console_app(database, settings=settings("http://127.0.0.1:9")) as app, visitor(app) as browser:
        assert browser.get("/console/openid/").status_code == 403
    with console_app(database) as app, visitor(app) as browser:
        assert browser.get("/console/openid/").status_code == 404
