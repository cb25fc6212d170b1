"""Sign-in by a link or a password, sign-out, and the choice of language and keyboard shortcuts."""

import asyncio
import re
from collections.abc import Mapping

from starlette.responses import Response

from api.http.networks import host_of
from console.access import cookies, entry
from console.access.passwords import (
    MIN_LENGTH,
    HostLimit,
    has_wrong_length,
    hashed_password,
    is_guessable,
    is_outdated,
    is_password,
)
from console.access.people import EVERYBODY, Person
from console.access.throttling import ThrottleKeys, delay_s, wait_s
from console.access.visit import ROOT, Visit, action, page
from console.presentation.texts import LANGUAGES
from eventstore.aggregates.user import UserSignedIn, stream_of
from eventstore.clock import now
from projections.auxiliary.sessions import Failures, count_try, link_user, undo_try
from projections.auxiliary.user_details import UserDetails, details_by_email, details_of, renew_password_hash

MAX_EMAIL = 254
admissions = HostLimit(2)
"""Limit for counting tries, so that one host uses few database connections."""


@page("/sign-in/", roles=None)
async def sign_in_page(visit: Visit) -> Response:
    """Show the sign-in page."""
    if visit.opened is not None:
        return visit.redirect(f"{ROOT}/")
    return _form(visit, next_page=visit.query("next"))


@action("/sign-in/", roles=None)
async def sign_in(visit: Visit) -> Response:
    """Sign in by password. Answer and duration are the same for an unknown address and a wrong password."""
    if not visit.transport.is_safe_to_sign_in:
        return _form(visit, status=403)
    email, next_page = visit.form.text("email")[:MAX_EMAIL], visit.form.text("next")
    user, waits = await _authenticate(visit, email, visit.form.secret("password"))
    if waits:
        return _form(visit, email=email, next_page=next_page, waits_s=waits, status=429)
    if user is None:
        return _form(visit, email=email, next_page=next_page, is_wrong=True, status=403)
    keys = ThrottleKeys.of(user.user_id, visit.transport.address)
    await entry.begin(visit, user.user_id, "password", password_of=user, throttle_keys=[keys.account, keys.pair])
    return visit.redirect(next_page)


@page("/sign-in/{token}/", roles=None)
async def link_page(visit: Visit) -> Response:
    """Show the page of a sign-in link.

    The link stays valid after its page was opened, since mail programs open links, too.
    """
    if not visit.transport.is_safe_to_sign_in:
        return _form(visit, status=403)
    token = visit.path("token")
    user_id = await visit.read(link_user, token, now())
    if user_id is None:
        raise visit.refusal(403, entry.LINK_VOID)
    details = (await visit.read(details_of, [user_id])).get(user_id)
    return visit.render("sign_in_link.html", token=token, email=details.email if details else "")


@action("/sign-in/{token}/", roles=None)
async def enter_by_link(visit: Visit) -> Response:
    """Sign in by a link, which works once. Users without a password are redirected to the page that sets a password."""
    if not visit.transport.is_safe_to_sign_in:
        return _form(visit, status=403)
    token = visit.path("token")
    user_id = await visit.read(link_user, token, now())
    if user_id is None:
        raise visit.refusal(403, entry.LINK_VOID)
    has_password = await _has_password(visit, user_id)
    await entry.begin(visit, user_id, "link", link=token)
    return visit.redirect(f"{ROOT}/" if has_password else f"{ROOT}/password/")


@page("/password/", roles=EVERYBODY)
async def password_page(visit: Visit) -> Response:
    """Show the page that sets a password."""
    return await _password_form(visit, "")


@action("/password/", roles=EVERYBODY)
async def choose_password(visit: Visit) -> Response:
    """Set the password. Users with a password must enter it, unless they have signed in by a link."""
    password, again = visit.form.secret("password"), visit.form.secret("again")
    host = host_of(visit.transport.address)
    password_error, waits = "", 0
    if await _needs_current_password(visit):
        current = visit.form.secret("former")
        user, waits = await _authenticate(visit, visit.person.email, current, only_user=visit.person.user_id)
        if waits:
            password_error = visit._("Too many failed attempts. Try again in %(seconds)s seconds.", seconds=waits)
        elif user is None:
            password_error = visit._("The current password is wrong.")
    if password_error:
        return await _password_form(visit, password_error, 429 if waits else 403)
    if has_wrong_length(password):
        password_error = visit._("The password must have %(least)s to 256 characters.", least=MIN_LENGTH)
    elif await is_guessable(password, _known_of(visit.person), host):
        password_error = visit._("The password must not be easy to guess. Choose another one.")
    elif password != again:
        password_error = visit._("The two passwords must be the same.")
    if password_error:
        return await _password_form(visit, password_error, 400)
    await entry.set_password(visit, await hashed_password(password, host), now())
    return visit.redirect(f"{ROOT}/", notice=visit._("The password is set. Your other sessions have ended."))


@action("/sign-out/", roles=EVERYBODY)
async def sign_out(visit: Visit) -> Response:
    """End this session."""
    await entry.end(visit)
    return visit.redirect(f"{ROOT}/sign-in/")


async def _authenticate(
    visit: Visit, email: str, password: str, *, only_user: str = ""
) -> tuple[UserDetails | None, int]:
    """Return the user with this address and password, None for none, and the seconds until the next try.

    Users of several organisations may have the same address; `only_user` is the id of one of these users. Failures are
    counted for each user separately, so that no answer shows whether other users exist.
    """
    at, address = now(), visit.transport.address
    host = ThrottleKeys.of("", address).address

    def remaining_s(failures: Mapping[str, Failures]) -> float:
        return min(wait_s(failures, keys, at) for keys in keys_by_user.values())

    async with admissions.slot(host):
        users = await visit.read(details_by_email, visit.services.authority, email)
        by_id = {user.user_id: user for user in users if only_user in ("", user.user_id)}
        keys_by_user = {user_id: ThrottleKeys.of(user_id, address) for user_id in by_id} or {
            "": ThrottleKeys.of(email, address)
        }
        names = sorted({name for keys in keys_by_user.values() for name in keys.names})
        failures = await visit.read(count_try, names, at, lambda failures: not remaining_s(failures))
    if waits := remaining_s(failures):
        return None, int(waits) + 1
    await asyncio.sleep(min(delay_s(failures, keys) for keys in keys_by_user.values()))
    allowed = [user_id for user_id, keys in keys_by_user.items() if not wait_s(failures, keys, at)]
    hashes = [by_id[user_id].password_hash if user_id else "" for user_id in allowed]
    matches = await asyncio.gather(*(is_password(password_hash, password, host) for password_hash in hashes))
    for details in (by_id[user_id] for user_id, is_right in zip(allowed, matches, strict=True) if is_right):
        if await _is_active(visit, details.user_id):
            await visit.read(undo_try, names, at, failures)
            if is_outdated(details.password_hash):
                password_hash = await hashed_password(password, host)
                await visit.read(renew_password_hash, visit.services.authority, details, password_hash)
            return details, 0
    return None, 0


def _known_of(person: Person) -> list[str]:
    """Return words about the user that an attacker would try first."""
    words = f"{person.email} {person.name} {person.organisation} importledger"
    return [person.email, *re.findall(r"\w{3,}", words)]


async def _needs_current_password(visit: Visit) -> bool:
    """Return True if the current password must be entered: the user has one and has not signed in by a link."""
    user_id, session = visit.person.user_id, visit.person.session
    if not await _has_password(visit, user_id):
        return False
    history = await visit.written(visit.services.ledger.history, stream_of(user_id))
    began = [
        recorded.event
        for recorded in history
        if isinstance(recorded.event, UserSignedIn) and recorded.event.session == session
    ]
    return not any(event.method == "link" for event in began)


async def _has_password(visit: Visit, user_id: str) -> bool:
    details = (await visit.read(details_of, [user_id])).get(user_id)
    return details is not None and bool(details.authentic(visit.services.authority).password_hash)


async def _password_form(visit: Visit, password_error: str, status: int = 200) -> Response:
    asks = await _needs_current_password(visit)
    return visit.render("password.html", status, least=MIN_LENGTH, password_error=password_error, asks_for_former=asks)


async def _is_active(visit: Visit, user_id: str) -> bool:
    stream = stream_of(user_id)
    loaded = await visit.written(visit.services.ledger.load, [stream])
    return bool(loaded[stream].state.status == "active")


def _form(
    visit: Visit,
    *,
    email: str = "",
    next_page: str = "",
    waits_s: int = 0,
    is_wrong: bool = False,
    status: int = 200,
) -> Response:
    """Return the sign-in page, or, over a connection that others can read, a page that requires TLS."""
    if not visit.transport.is_safe_to_sign_in:
        return visit.render("tls_needed.html", status, transport=visit.transport)
    return visit.render(
        "sign_in.html",
        status,
        email=email,
        next_page=next_page,
        waits_s=waits_s,
        is_wrong=is_wrong,
        has_openid=visit.console.openid is not None,
    )


@action("/language/", roles=None)
async def choose_language(visit: Visit) -> Response:
    """Show all pages in another language from now on."""
    language = visit.form.text("language")
    if language in LANGUAGES:
        visit.set_cookie(cookies.LANGUAGE, language, cookies.YEAR)
    return visit.redirect(visit.form.text("next"))


@page("/shortcuts/", roles=EVERYBODY)
async def shortcuts(visit: Visit) -> Response:
    """List the keyboard shortcuts."""
    return visit.render("shortcuts.html")


@action("/shortcuts/", roles=EVERYBODY)
async def choose_shortcuts(visit: Visit) -> Response:
    """Turn the keyboard shortcuts on or off in this browser, since speech input can press keys by mistake."""
    visit.set_cookie(cookies.SHORTCUTS, "off" if visit.form.text("shortcuts") == "off" else "on", cookies.YEAR)
    return visit.redirect(f"{ROOT}/shortcuts/")
