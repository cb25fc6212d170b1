"""Checks before every screen (session, role, supplier, form token), error pages, and the headers of every answer."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match
from starlette.types import Message

from api.http.errors import HANDLERS, answer_of, not_found
from api.http.request_log import ORGANISATION
from api.http.responses import ANONYMOUS, CALLERS, HELD, read_body
from api.http.status_codes import ApiError
from console.access import cookies
from console.access.visit import ROOT, STALE, Console, Screen, Visit, is_local
from console.presentation.forms import Form
from console.presentation.names import HEADLINES
from console.presentation.refill import UNKEPT, refilled
from console.presentation.rendering import HEADERS, OVER_TLS
from console.presentation.texts import N_

_NOT_SAVED = N_("Your session had ended: nothing was saved. Sign in, and send the form again.")
_TYPED = N_("Your session had ended. Check what you typed, and send the form again.")


def handler(console: Console, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that checks each request for the screen, and answers it with a page or an error page."""

    async def answer(request: Request) -> Response:
        visit = Visit(console, request, screen)
        try:
            response = await _answer(visit)
        except Exception as error:
            response = await _refused(visit, error)
        return _finished(visit, response)

    return answer


async def _answer(visit: Visit) -> Response:
    """Check the request and return the screen's response. Raises ApiError if a check fails."""
    if visit.screen.method != "GET" and visit.transport.is_from_elsewhere:
        raise visit.refusal(403, STALE)
    response = await _enter(visit)
    if response is None and visit.screen.method == "PUT" and not visit.is_own_form():
        raise visit.refusal(403, STALE)
    if visit.screen.method == "POST" and not visit.screen.is_streamed:
        budget = CALLERS if visit.opened else ANONYMOUS
        try:
            body = await read_body(visit.request, budget, address=visit.transport.address, is_form=True)
        except ApiError as error:
            if response is None or error.status != 413:
                raise
            raise visit.refusal(403, _NOT_SAVED) from error  # the limit is that of strangers
        visit.form = Form.of(body, visit.request.headers.get("content-type", ""))
        if response is None and not visit.is_own_form():
            raise visit.refusal(403, STALE)
        # check after the body has arrived, which may take long, and keep the form for the time after the sign-in
        response = await _enter(visit)
    if response is not None:
        return response
    response = await visit.screen.function(visit)
    if visit.screen.method == "GET" and (typed := visit.typed()) is not None:
        page = refilled(bytes(response.body).decode(), *typed, {}, visit._(_TYPED))
        return response if page is None else HTMLResponse(page)
    return response


async def _enter(visit: Visit) -> Response | None:
    """Open the session and check the user's rights. Return a redirect if the user must sign in first, else None.

    Users who may not see the overview are redirected to the first page that they may see. Raises ApiError if the user
    may not use the screen.
    """
    screen = visit.screen
    if visit.token:
        visit.opened = await visit.open()
    if visit.opened is not None:
        visit.request.scope[ORGANISATION] = visit.opened.organisation
    if screen.roles is None:
        return None
    if visit.opened is None:
        return _to_sign_in(visit)
    if "{supplier}" in screen.path and not visit.opened.may_touch(visit.path("supplier")):
        raise not_found()
    if not visit.opened.may(screen.roles) and screen.path == "/":
        home = next(entry for entry in visit.console.navigation if visit.opened.may_see(entry))
        return visit.redirect(ROOT + home.path)
    if not visit.opened.may(screen.roles):
        raise visit.refusal(403, N_("Your role does not allow this action."))
    return None


def _to_sign_in(visit: Visit) -> Response:
    """Return a redirect to the sign-in page, which leads back to the requested page.

    A form that is too large to be kept until then is shown, so that its author can copy the text.
    """
    url = visit.request.url
    is_get = visit.screen.method == "GET"
    return_to = url.path + (f"?{url.query}" if url.query else "") if is_get else visit.keep_typed()
    if not return_to:
        typed = [(name, "\n".join(values)) for name, values in visit.form.fields.items() if name not in UNKEPT]
        return visit.render("session_ended.html", 403, page=visit.form.secret("here"), typed=typed)
    to = f"{ROOT}/sign-in/" + (f"?next={quote(return_to, safe='')}" if return_to != f"{ROOT}/" else "")
    if visit.is_partial:
        return Response(status_code=401, headers={"HX-Redirect": to})
    return RedirectResponse(to, status_code=303)


async def _refused(visit: Visit, error: Exception) -> Response:
    """Return the API's answer to the exception as a page.

    If the user can correct the form, return the page of the form. An unexpected exception is logged, as in the API.
    """
    handle = answer_of(error) or HANDLERS[Exception]
    answer = handle(visit.request, error)
    body = msgspec.json.decode(answer.body)
    if answer.status_code == 400 and (page := await _form_again(visit, body)) is not None:
        return HTMLResponse(page, 400)
    return visit.render(
        "error.html",
        answer.status_code,
        headline=visit._(HEADLINES.get(answer.status_code, HEADLINES[500])),
        detail=body.get("non_field_errors", body).get("detail", ""),
        request_id=body.get("request_id", ""),
        problems=body.get("errors", []),
    )


async def _form_again(visit: Visit, refusal: dict[str, Any]) -> str | None:
    """Return the page of the refused form, with the typed values and the errors; None if the form has no page."""
    path, _, query = visit.form.secret("here").partition("?")
    if visit.opened is None or not is_local(path):
        return None
    target = {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode()}
    scope = {name: value for name, value in visit.request.scope.items() if name != HELD} | target
    parts: list[bytes] = []

    async def collect(message: Message) -> None:
        parts.append(message.get("body", b""))

    for route in visit.request.app.routes:
        match, child = route.matches(scope)
        if match is Match.FULL:
            await child["endpoint"](scope | child, visit.request.receive, collect)
            break
    errors = {problem["attr"]: problem["detail"] for problem in refusal.get("errors", [])}
    message = "" if errors else refusal.get("non_field_errors", refusal).get("detail", "")
    page = b"".join(parts).decode()
    return refilled(page, visit.request.url.path, visit.form.fields, errors, message)


def _finished(visit: Visit, response: Response) -> Response:
    """Add the headers and cookies of the console to a response, and return it."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if visit.transport.is_secure:
        response.headers.update(OVER_TLS)
    response.headers["Content-Language"] = visit.language
    for name, value, lasts in visit.cookies:
        cookies.write_cookie(response, name, value, is_secure=visit.transport.is_secure, lasts=lasts)
    return response
