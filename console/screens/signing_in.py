"""Signing in and out: by a link that works once, and by password."""

import asyncio

from starlette.responses import Response

from api.status_codes import ApiError
from console import entry
from console.passwords import MIN_LENGTH, hashed_password, is_password, misfits_password
from console.patience import Tries, delay_s, wait_s
from console.people import EVERYBODY
from console.screens.start import local_address
from console.visit import ROOT, Visit, action, page
from eventstore.aggregates.user import stream_of
from eventstore.clock import now
from eventstore.log.sessions import count_failures, failures_of, link_user
from eventstore.log.user_details import details_by_email, details_of

MAX_EMAIL = 254


@page("/sign-in/", roles=None)
async def sign_in_page(visit: Visit) -> Response:
    """Where strangers are led to."""
    if visit.opened is not None:
        return visit.redirect(f"{ROOT}/")
    return _form(visit, next_page=visit.query("next"))


@action("/sign-in/", roles=None)
async def sign_in(visit: Visit) -> Response:
    """Sign in by password. The answer does not tell, and takes as long, whether it is the address that is unknown."""
    if not visit.transport.is_safe_to_sign_in:
        return _form(visit, status=403)
    email, next_page = visit.form.text("email")[:MAX_EMAIL], visit.form.text("next")
    tries = Tries.of(email, visit.transport.address)
    failures = await visit.read(failures_of, tries.names, now())
    if waits := wait_s(failures, tries, now()):
        return _form(visit, email=email, next_page=next_page, waits_s=int(waits) + 1, status=429)
    await asyncio.sleep(delay_s(failures, tries))
    details = await visit.read(details_by_email, email)
    is_right = await is_password(details.password_hash if details else "", visit.form.secret("password"))
    if details is None or not is_right or not await _is_active(visit, details.user_id):
        await visit.read(count_failures, tries.names, now())
        return _form(visit, email=email, next_page=next_page, is_wrong=True, status=403)
    await entry.begin(visit, details.user_id, "password", tries=[tries.account, tries.pair])
    return visit.redirect(local_address(next_page))


@page("/sign-in/{token}/", roles=None)
async def link_page(visit: Visit) -> Response:
    """What a link leads to. Looking at it does not use it up: programs that read mail look at links too."""
    if not visit.transport.is_safe_to_sign_in:
        return _form(visit, status=403)
    token = visit.path("token")
    user_id = await visit.read(link_user, token, now())
    if user_id is None:
        raise ApiError(403, entry.LINK_VOID)
    details = (await visit.read(details_of, [user_id])).get(user_id)
    return visit.render("sign_in_link.html", token=token, email=details.email if details else "")


@action("/sign-in/{token}/", roles=None)
async def enter_by_link(visit: Visit) -> Response:
    """Sign in by a link, once. Who has no password yet is asked for one."""
    if not visit.transport.is_safe_to_sign_in:
        return _form(visit, status=403)
    token = visit.path("token")
    user_id = await visit.read(link_user, token, now())
    if user_id is None:
        raise ApiError(403, entry.LINK_VOID)
    details = (await visit.read(details_of, [user_id])).get(user_id)
    await entry.begin(visit, user_id, "link", link=token)
    has_password = details is not None and bool(details.password_hash)
    return visit.redirect(f"{ROOT}/" if has_password else f"{ROOT}/password/")


@page("/password/", roles=EVERYBODY)
async def password_page(visit: Visit) -> Response:
    """Choose a password."""
    return visit.render("password.html", least=MIN_LENGTH, misfit="")


@action("/password/", roles=EVERYBODY)
async def choose_password(visit: Visit) -> Response:
    """Keep the password that was typed twice."""
    password, again = visit.form.secret("password"), visit.form.secret("again")
    misfit = ""
    if misfits_password(password):
        misfit = visit._("Choose a password with %(least)s to 256 characters.", least=MIN_LENGTH)
    elif password != again:
        misfit = visit._("The two are not the same.")
    if misfit:
        return visit.render("password.html", 400, least=MIN_LENGTH, misfit=misfit)
    await entry.set_password(visit, await hashed_password(password), now())
    return visit.redirect(f"{ROOT}/", notice=visit._("Your password is set. Your other sessions have ended."))


@action("/sign-out/", roles=EVERYBODY)
async def sign_out(visit: Visit) -> Response:
    """End this session."""
    await entry.end(visit)
    return visit.redirect(f"{ROOT}/sign-in/")


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
    """The page for signing in; over a connection that others can read, it says what is needed instead."""
    if not visit.transport.is_safe_to_sign_in:
        return visit.render("tls_needed.html", status, host=visit.transport.host)
    return visit.render(
        "sign_in.html",
        status,
        email=email,
        next_page=next_page,
        waits_s=waits_s,
        is_wrong=is_wrong,
        has_openid=visit.console.openid is not None,
    )


SCREENS = (sign_in_page, sign_in, link_page, enter_by_link, password_page, choose_password, sign_out)
