"""Signing in and out, with a browser without script."""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from argon2 import PasswordHasher
from psycopg import Connection
from starlette.requests import Request

from console.access.passwords import HASHER, hashed_password, is_outdated
from console.access.throttling import ThrottleKeys
from console.access.transport import Transport
from console.access.visit import Visit
from console.screens import signing_in
from embedded.postgres import PostgresUrls
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.user import (
    DisableUser,
    EnableUser,
    EndSessions,
    PasswordSet,
    SessionsEnded,
    SetPassword,
    SignIn,
    UserCreated,
    UserSignedIn,
    UserSignedOut,
    stream_of,
)
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.ledger import Ledger
from projections.auxiliary.sessions import (
    SESSION_LASTS,
    Failures,
    count_try,
    end_sessions,
    new_token,
    token_sha256,
    undo_try,
)
from projections.auxiliary.user_details import details_by_openid, find_user_details, set_password_hash
from tests.support.console import (
    AUTHORITY,
    COOKIE,
    Browser,
    console_app,
    csrf_in,
    new_link,
    new_session,
    new_user,
    send,
    signed_in,
    visitor,
    words_of,
)
from tests.support.databases import Admin, owner_of

PASSWORD = "three plain words"


@pytest.mark.asvs("V3.3.2", "V3.3.4", "V6.2.1", "V6.4.1", "V6.4.3", "V6.5.1", "V6.5.5", "V7.4.1")
def test_a_link_signs_in_once_and_asks_for_a_password(database: PostgresUrls, ledger: Ledger) -> None:
    user_id = new_user(ledger, email="Anna@Example.org")
    token = new_link(ledger, user_id)

    with console_app(database) as app, visitor(app) as anna, visitor(app) as other:
        page = anna.get(f"/console/sign-in/{token}/")
        assert "Anna@Example.org" in page.text
        answer = send(anna, f"/console/sign-in/{token}/")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/password/")
        cookie = next(header for header in answer.headers.get_list("set-cookie") if header.startswith(f"{COOKIE}="))
        assert {"HttpOnly", "SameSite=lax", "Max-Age=28800", "Path=/"} <= set(cookie.split("; "))
        short = send(anna, "/console/password/", {"password": "short", "again": "short"})
        assert short.status_code == 400
        common = send(anna, "/console/password/", {"password": "password1234", "again": "password1234"})
        assert (common.status_code, "easy to guess" in common.text) == (400, True)
        done = send(anna, "/console/password/", {"password": PASSWORD, "again": PASSWORD})
        assert done.headers["location"] == "/console/"
        assert "The password is set." in anna.get("/console/").text
        assert "The password is set." not in anna.get("/console/").text
        again = other.get(f"/console/sign-in/{token}/")
        assert (again.status_code, "used already" in again.text) == (403, True)
        signed = send(other, "/console/sign-in/", {"email": "anna@example.ORG", "password": PASSWORD})
        assert signed.headers["location"] == "/console/"
        send(other, "/console/sign-out/", at="/console/")
        assert other.get("/console/").headers["location"] == "/console/sign-in/"
    events = [recorded.event for recorded in ledger.history(stream_of(user_id))]
    assert [type(event) for event in events] == [UserCreated, UserSignedIn, PasswordSet, UserSignedIn, UserSignedOut]
    assert [event.method for event in events if isinstance(event, UserSignedIn)] == ["link", "password"]
    assert "nna" not in "".join(recorded.state.decode() for recorded in ledger.history(stream_of(user_id)))


@pytest.mark.asvs("V6.2.2", "V6.2.3", "V7.4.3", "V7.5.1")
def test_who_has_a_password_types_it_to_choose_another(database: PostgresUrls, ledger: Ledger) -> None:
    user_id = new_user(ledger, email="anna@example.org")
    first = {"password": PASSWORD, "again": PASSWORD}
    second = {"password": PASSWORD * 2, "again": PASSWORD * 2}
    path = "/console/password/"

    with console_app(database) as app, visitor(app) as by_link, visitor(app) as anna:
        send(by_link, f"/console/sign-in/{new_link(ledger, user_id)}/")
        assert "Current password" not in by_link.get(path).text
        assert send(by_link, path, first).status_code == 303
        send(anna, "/console/sign-in/", {"email": "anna@example.org", "password": PASSWORD})
        assert "Current password" in anna.get(path).text
        for former in ({}, {"former": "wrong"}):
            answer = send(anna, path, second | former)
            assert (answer.status_code, "is wrong" in answer.text) == (403, True)
        assert send(anna, path, second | {"former": PASSWORD}).status_code == 303
        assert by_link.get("/console/").status_code == 303, "a new password ends the other sessions"
        send(by_link, f"/console/sign-in/{new_link(ledger, user_id)}/")  # a forgotten password
        assert send(by_link, path, first).status_code == 303
        send(anna, "/console/sign-in/", {"email": "anna@example.org", "password": PASSWORD})
        answers = [send(anna, path, second | {"former": "guess"}).status_code for _ in range(6)]
        assert answers == [403] * 5 + [429]
    assert [type(recorded.event) for recorded in ledger.history(stream_of(user_id))].count(PasswordSet) == 3


@pytest.mark.asvs("V7.4.3")
def test_a_password_that_is_replaced_during_a_sign_in_signs_nobody_in(
    ledger: Ledger, stranger: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_id, fields = new_user(ledger, email="anna@example.org"), {"email": "anna@example.org", "password": PASSWORD}
    _set_password(ledger, user_id, PASSWORD)
    is_active = signing_in._is_active

    async def then_replaced(visit: Visit, user_id: str) -> bool:
        result = await is_active(visit, user_id)
        _set_password(ledger, user_id, "three other words")
        return result

    with monkeypatch.context() as replacing:
        replacing.setattr(signing_in, "_is_active", then_replaced)
        assert send(stranger, "/console/sign-in/", fields).status_code == 403
    assert COOKIE not in stranger.cookies
    assert send(stranger, "/console/sign-in/", fields | {"password": "three other words"}).status_code == 303


@pytest.mark.asvs("V7.4.3")
@pytest.mark.parametrize("ending", [EndSessions(), SetPassword(session="s_other")])
def test_a_session_that_ends_meanwhile_sets_no_password(
    ledger: Ledger, stranger: Browser, monkeypatch: pytest.MonkeyPatch, ending: Command
) -> None:
    user_id = new_user(ledger)
    send(stranger, f"/console/sign-in/{new_link(ledger, user_id)}/")

    async def hashed_late(password: str, host: str) -> str:
        with closing(owner_of(ledger)) as owner:
            owner.execute(
                stream_of(user_id), ending, at=now(), by="t", write_rows=lambda rows, _: end_sessions(rows, user_id)
            )
        return await hashed_password(password, host)

    monkeypatch.setattr(signing_in, "hashed_password", hashed_late)
    answer = send(stranger, "/console/password/", {"password": PASSWORD, "again": PASSWORD})

    assert answer.status_code == 401
    last = ledger.history(stream_of(user_id))[-1]
    assert isinstance(last.event, SessionsEnded | PasswordSet)
    assert last.caused_by == "t"
    with ledger.connection() as connection:
        assert find_user_details(connection, user_id)[0].password_hash == ""


def _set_password(ledger: Ledger, user_id: str, password: str) -> None:
    """Set a password in a session of its own."""

    def write_rows(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        set_password_hash(connection, AUTHORITY, user_id, HASHER.hash(password), now())
        end_sessions(connection, user_id)

    command = SetPassword(session="s_own")
    ledger.execute(stream_of(user_id), command, at=now(), by=f"user:{user_id}", write_rows=write_rows)


@pytest.mark.asvs("V3.7.2", "V7.2.1")
def test_a_page_wants_a_session_and_leads_back_to_where_one_was_going(stranger: Browser, support: Browser) -> None:
    answer = stranger.get("/console/password/?x=1")
    assert answer.headers["location"] == "/console/sign-in/?next=%2Fconsole%2Fpassword%2F%3Fx%3D1"
    live = stranger.get("/console/", headers={"HX-Request": "true"})
    assert (live.status_code, live.headers["hx-redirect"]) == (401, "/console/sign-in/")
    assert support.get("/console/password/").status_code == 200
    assert support.get("/console/sign-in/").status_code == 303


@pytest.mark.asvs("V6.3.1")
def test_unknown_and_known_addresses_are_refused_alike_and_guessing_is_slowed_down(
    ledger: Ledger, stranger: Browser
) -> None:
    new_user(ledger, email="anna@example.org")
    bodies = set()
    for email in ("anna@example.org", "nobody@example.org"):
        answers = [send(stranger, "/console/sign-in/", {"email": email, "password": "wrong"}) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [403] * 5 + [429]
        bodies.add(words_of(answers[0].text))
    assert len(bodies) == 1


def with_password(ledger: Ledger, organisation: str, password: str) -> str:
    """A user of this organisation with one and the same address."""
    user_id = new_user(ledger, email="anna@example.org", organisation=organisation)
    with ledger.connection() as connection:
        set_password_hash(connection, AUTHORITY, user_id, HASHER.hash(password), now())
    return user_id


def test_an_address_signs_in_at_each_organisation_by_its_password_there(ledger: Ledger, stranger: Browser) -> None:
    users = {name: with_password(ledger, name, f"a horse of {name}") for name in ("Nord", "Süd")}
    for organisation, user_id in users.items():
        fields = {"email": "anna@example.org", "password": f"a horse of {organisation}"}
        assert send(stranger, "/console/sign-in/", fields).status_code == 303
        assert isinstance(ledger.history(stream_of(user_id))[-1].event, UserSignedIn)
        send(stranger, "/console/sign-out/", at="/console/")


@pytest.mark.promise("nobody-learns-user-another")
def test_who_has_a_user_with_another_s_address_guesses_no_faster(ledger: Ledger, stranger: Browser) -> None:
    """Signing in by the own password forgets the own failures, and those of nobody else."""
    with_password(ledger, "Süd", "my own horse")
    victim = with_password(ledger, "Nord", PASSWORD)
    own, guess, right = (
        {"email": "anna@example.org", "password": word} for word in ("my own horse", "wrong", PASSWORD)
    )
    for _ in range(6):
        for fields, status in ((guess, 403), (own, 303)):
            assert send(stranger, "/console/sign-in/", fields).status_code == status
        send(stranger, "/console/sign-out/", at="/console/")
    assert send(stranger, "/console/sign-in/", right).status_code == 403
    assert not any(isinstance(recorded.event, UserSignedIn) for recorded in ledger.history(stream_of(victim)))


@pytest.mark.promise("passwords-guessed-same-moment")
@pytest.mark.asvs("V6.3.1")
@pytest.mark.api_top_10("API2")
def test_of_80_passwords_that_are_guessed_at_once_5_are_tried(database: PostgresUrls, ledger: Ledger) -> None:
    """Also by several processes: what is counted is counted in the database before a password is looked at."""
    user_id = new_user(ledger, email="anna@example.org")
    guess, right = ({"email": "anna@example.org", "password": word} for word in ("wrong", PASSWORD))

    with (
        console_app(database) as app,
        console_app(database, loop_of=app) as other,
        visitor(app) as browser,
        visitor(other) as second,
    ):
        send(browser, f"/console/sign-in/{new_link(ledger, user_id)}/")
        send(browser, "/console/password/", {"password": PASSWORD, "again": PASSWORD})
        send(browser, "/console/sign-out/", at="/console/")
        for _ in range(25):  # no right password is counted
            assert send(browser, "/console/sign-in/", right).status_code == 303
            send(browser, "/console/sign-out/", at="/console/")
        tokens = [(each, csrf_in(each.get("/console/sign-in/").text)) for each in (browser, second)]

        async def statuses() -> Counter[int]:
            form = "/console/sign-in/"
            guesses = [each.client.post(form, data={"csrf": csrf, **guess}) for each, csrf in tokens * 40]
            return Counter(answer.status_code for answer in await asyncio.gather(*guesses))

        assert app.runner.run(statuses()) == {403: 5, 429: 75}


def test_a_right_password_leaves_what_others_of_its_host_have_failed(database: PostgresUrls) -> None:
    names, at = ["account a", "address h", "pair a h"], now()

    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(database.service, autocommit=True) as connection:
            for second in range(3):
                await count_try(connection, ["address h"], at + timedelta(seconds=second), lambda known: True)
            later = at + timedelta(seconds=9)
            known = await count_try(connection, names, later, lambda known: True)
            assert known == {"address h": Failures(3, at + timedelta(seconds=2))}
            await undo_try(connection, names, later, known)
            assert await count_try(connection, names, later, lambda known: False) == known
            await count_try(connection, ["nobody"], later, lambda known: False)
            row = await (await connection.execute("SELECT count(*) FROM failed_sign_ins")).fetchone()
            assert row == (3,), "who is refused leaves no row"

    asyncio.run(run())


@pytest.mark.promise("passwords-guessed-same-moment")
@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix", "unix"),
    ],
)
def test_a_mapped_address_is_counted_as_its_ipv4_and_an_ipv6_host_by_its_64(address: str, host: str) -> None:
    assert ThrottleKeys.of("a@b.de", address).address == f"address {host}"


@pytest.mark.asvs("V15.3.4")
def test_a_mapped_address_of_a_trusted_proxy_is_trusted() -> None:
    """A server that listens on both protocols sees IPv4 peers like this."""
    headers = [(b"x-forwarded-proto", b"https"), (b"x-forwarded-for", b"198.51.100.7")]
    trusted = (ipaddress.ip_network("10.0.0.0/8"),)
    for peer, is_trusted in (("::ffff:10.0.0.5", True), ("::ffff:11.0.0.5", False)):
        transport = Transport(Request({"type": "http", "client": (peer, 1), "headers": headers}), trusted)
        assert (transport.is_secure, transport.address == "198.51.100.7") == (is_trusted, is_trusted)


@pytest.mark.promise("passwords-guessed-same-moment")
@pytest.mark.asvs("V11.2.2")
def test_a_hash_of_former_parameters_is_renewed_at_the_next_sign_in(ledger: Ledger, stranger: Browser) -> None:
    user_id = new_user(ledger, email="anna@example.org")
    former = PasswordHasher(time_cost=3, memory_cost=32, parallelism=1).hash(PASSWORD)
    with ledger.connection() as connection:
        set_password_hash(connection, AUTHORITY, user_id, former, now())
    for _ in range(2):
        answer = send(stranger, "/console/sign-in/", {"email": "anna@example.org", "password": PASSWORD})
        assert answer.status_code == 303
        send(stranger, "/console/sign-out/", at="/console/")
        with ledger.connection() as connection:
            [details] = find_user_details(connection, "anna@example.org")
        assert not is_outdated(details.password_hash)


@pytest.mark.asvs("V7.2.2", "V7.2.4", "V16.3.1")
def test_another_session_begins_at_each_sign_in(database: PostgresUrls, ledger: Ledger) -> None:
    user_id = new_user(ledger)
    before = signed_in(ledger)

    with console_app(database) as app, visitor(app, before) as browser:
        answer = send(browser, f"/console/sign-in/{new_link(ledger, user_id)}/")
        assert answer.status_code == 303
        assert browser.cookies[COOKIE] != before[COOKIE]
    with console_app(database) as app, visitor(app, before) as browser:
        assert browser.get("/console/").status_code == 303


FORWARDED = (
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-For": "10.1.2.3"},
    {"Forwarded": "proto=https"},
    {"Via": "1.1 p"},
)


def test_a_proxy_that_is_not_trusted_lets_nobody_sign_in_and_is_named_as_the_reason(stranger: Browser) -> None:
    """Also one on this machine that asks for 127.0.0.1: it may forward what comes from anywhere."""
    reason = "address must be in IMPORTLEDGER_TRUSTED_PROXIES"
    for headers in FORWARDED:
        page = stranger.get("/console/sign-in/", headers=headers)
        assert ("Signing in needs TLS" in page.text, reason in page.text) == (True, True)
    assert reason not in stranger.get("/console/sign-in/").text


@pytest.mark.asvs("V7.4.2")
def test_a_disabled_user_is_signed_out_at_once(ledger: Ledger, stranger: Browser) -> None:
    user_id = new_user(ledger)
    token = new_link(ledger, user_id)
    send(stranger, f"/console/sign-in/{token}/")
    assert stranger.get("/console/").status_code == 200
    with closing(owner_of(ledger)) as owner:
        owner.execute(stream_of(user_id), DisableUser(), at=now(), by="operator:test")
    assert stranger.get("/console/").status_code == 303


@pytest.mark.asvs("V12.2.1")
@pytest.mark.parametrize("client", ["10.1.2.3", "127.0.0.1"])
def test_beyond_loopback_signing_in_needs_tls(database: PostgresUrls, ledger: Ledger, client: str) -> None:
    token = new_link(ledger, new_user(ledger))

    with console_app(database, client=client) as app, visitor(app, base="http://ledger.example:8000") as browser:
        for path in ("/console/sign-in/", f"/console/sign-in/{token}/"):
            assert "Signing in needs TLS" in browser.get(path).text
        answer = send(browser, "/console/sign-in/", {"email": "a@b.de", "password": "x"})
        assert (answer.status_code, "Signing in needs TLS" in answer.text) == (403, True)


@pytest.mark.asvs("V3.5.1")
def test_a_form_of_another_site_or_session_is_refused(ledger: Ledger, support: Browser) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        answer = support.post("/console/sign-out/", headers=headers)
        assert answer.status_code == 403
    for csrf in ("0" * 64, "ü", "x", "", "é" * 64):
        assert support.post("/console/sign-out/", data={"csrf": csrf}).status_code == 403
    assert support.post("/console/sign-out/").status_code == 403
    assert support.get("/console/").status_code == 200


def test_the_language_is_that_of_the_browser_until_another_is_chosen(database: PostgresUrls) -> None:
    with console_app(database) as app, visitor(app, language="de-AT") as browser:
        page = browser.get("/console/sign-in/")
        assert ('<html lang="de">' in page.text, page.headers["content-language"]) == (True, "de")
        answer = send(browser, "/console/language/", {"language": "en", "next": "/console/x"}, at="/console/sign-in/")
        assert answer.headers["location"] == "/console/x"
        page = browser.get("/console/nothing")
        assert (page.status_code, "Page not found" in page.text) == (404, True)
        for other in ("//evil.example", "https://evil.example", "/console/\\evil"):
            fields = {"language": "de", "next": other}
            answer = send(browser, "/console/language/", fields, at="/console/sign-in/")
            assert answer.headers["location"] == "/console/"


@pytest.mark.promise("authority-outside-database")
@pytest.mark.asvs("V6.3.4")
def test_a_session_that_only_the_database_knows_opens_nothing(
    database: PostgresUrls, ledger: Ledger, admin: Admin
) -> None:
    """The service's database role can insert a session."""
    operator, support = (new_user(ledger, role=role, suppliers=["*"]) for role in ("operator", "support"))
    inserted, own = new_token(), new_session(ledger, support)
    at = now()
    with ledger.connection() as connection:
        connection.execute(
            "INSERT INTO user_sessions (token_sha256, session, user_id, began_at, expires_at)"
            " VALUES (%s, %s, %s, %s, %s)",
            (token_sha256(inserted), "s_1", operator, at, at + SESSION_LASTS),
        )

    def statuses(*tokens: str) -> list[int]:
        with console_app(database) as app:
            found = []
            for token in tokens:
                with visitor(app, {COOKIE: token}) as browser:
                    found.append(browser.get("/console/suppliers/").status_code)
            return found

    assert statuses(inserted, own) == [303, 200]
    admin.execute("UPDATE user_sessions SET user_id = %s WHERE user_id = %s", (operator, support))
    assert statuses(own) == [303]


@pytest.mark.promise("authority-outside-database")
@pytest.mark.asvs("V7.4.1")
@pytest.mark.parametrize("end", ["sign out", "end sessions", "disable and enable", "password of another session"])
def test_a_session_that_has_ended_is_not_opened_by_its_row_again(
    database: PostgresUrls, ledger: Ledger, owner: Ledger, end: str
) -> None:
    """The service's database role can insert the row again, and add another event of the sign-in."""
    user_id = new_user(ledger)
    with console_app(database) as app, visitor(app) as browser, visitor(app) as other:
        for each in (browser, other):
            send(each, f"/console/sign-in/{new_link(ledger, user_id)}/")
        with psycopg.connect(database.roles["api"], autocommit=True) as connection:
            rows = connection.execute("SELECT * FROM user_sessions ORDER BY began_at").fetchall()
            cookie = {COOKIE: browser.cookies[COOKIE]}
            signed_in = [
                recorded.event
                for recorded in ledger.history(stream_of(user_id))
                if isinstance(recorded.event, UserSignedIn)
            ]
            match end:
                case "sign out":
                    send(browser, "/console/sign-out/", at="/console/")
                case "end sessions":
                    owner.execute(stream_of(user_id), EndSessions(), at=now(), by="t")
                case "disable and enable":
                    for command in (DisableUser(), EnableUser()):
                        owner.execute(stream_of(user_id), command, at=now(), by="t")
                case _:
                    send(other, "/console/password/", {"password": PASSWORD, "again": PASSWORD})
                    assert other.get("/console/password/").status_code == 200, "its own session stays open"
            ledger.execute(stream_of(user_id), SignIn(session=signed_in[0].session, method="link"), at=now(), by="t")
            connection.execute("DELETE FROM user_sessions")
            connection.cursor().executemany("INSERT INTO user_sessions VALUES (%s, %s, %s, %s, %s, %s)", rows)
    with console_app(database) as app, visitor(app, cookie) as browser:
        assert browser.get("/console/password/").status_code == 303


@pytest.mark.promise("authority-outside-database")
@pytest.mark.asvs("V6.3.4")
def test_a_password_and_a_subject_that_only_the_database_knows_sign_nobody_in(
    database: PostgresUrls, ledger: Ledger, stranger: Browser, admin: Admin
) -> None:
    """A writer of the database can copy their own password and its MAC to an operator."""
    operator, own = new_user(ledger, email="op@example.org"), new_user(ledger, email="me@example.org")
    with ledger.connection() as connection:
        set_password_hash(connection, AUTHORITY, own, HASHER.hash(PASSWORD), now())
    admin.execute(
        "UPDATE user_details AS d SET password_hash = o.password_hash, mac = o.mac, openid = 'issuer mine'"
        " FROM user_details AS o WHERE d.user_id = %s AND o.user_id = %s",
        (operator, own),
    )

    async def of_subject() -> object:
        async with await psycopg.AsyncConnection.connect(database.service) as connection:
            return await details_by_openid(connection, AUTHORITY, "issuer mine")

    for email, status in (("op@example.org", 403), ("me@example.org", 303)):
        assert send(stranger, "/console/sign-in/", {"email": email, "password": PASSWORD}).status_code == status
    assert asyncio.run(of_subject()) is None


@pytest.mark.promise("authority-outside-database")
@pytest.mark.asvs("V6.3.4")
def test_a_former_password_whose_row_is_written_again_signs_nobody_in(database: PostgresUrls, ledger: Ledger) -> None:
    """A new password that the user sets afterwards counts again."""
    user_id = new_user(ledger, email="anna@example.org")
    select = "SELECT password_hash, password_number, mac FROM user_details WHERE user_id = %s"
    update = "UPDATE user_details SET password_hash = %s, password_number = %s, mac = %s WHERE user_id = %s"

    with (
        console_app(database) as app,
        visitor(app) as browser,
        psycopg.connect(database.roles["api"], autocommit=True) as connection,
    ):

        def set_password(password: str) -> tuple[Any, ...]:
            send(browser, f"/console/sign-in/{new_link(ledger, user_id)}/")
            send(browser, "/console/password/", {"password": password, "again": password})
            send(browser, "/console/sign-out/", at="/console/")
            [row] = connection.execute(select, (user_id,)).fetchall()
            return row

        def status(password: str) -> int:
            fields = {"email": "anna@example.org", "password": password}
            answer = send(browser, "/console/sign-in/", fields).status_code
            if answer == 303:
                send(browser, "/console/sign-out/", at="/console/")
            return answer

        former, other = set_password(PASSWORD), "three other words"
        assert status(PASSWORD) == 303
        newer = set_password(other)
        for row in (former, (former[0], newer[1], former[2]), (former[0], newer[1], newer[2])):
            connection.execute(update, (*row, user_id))
            assert (status(PASSWORD), status(other)) == (403, 403)
            connection.execute("DELETE FROM failed_sign_ins")
        set_password("three more words!")
        assert (status("three more words!"), status(PASSWORD)) == (303, 403)


@pytest.mark.promise("authority-outside-database")
def test_nobody_is_locked_out_by_failures_of_the_future(
    database: PostgresUrls, ledger: Ledger, stranger: Browser
) -> None:
    with_password(ledger, "Nord", PASSWORD)
    fields = {"email": "anna@example.org", "password": PASSWORD}
    assert send(stranger, "/console/sign-in/", fields | {"password": "wrong"}).status_code == 403
    for last_at in ("infinity", "9000-01-01"):
        with psycopg.connect(database.roles["api"], autocommit=True) as connection:
            connection.execute("UPDATE failed_sign_ins SET failures = 1000, last_at = %s", (last_at,))
        assert send(stranger, "/console/sign-in/", fields).status_code == 303
        send(stranger, "/console/sign-out/", at="/console/")
