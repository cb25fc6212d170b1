"""Checks before every screen (session, role, supplier, form token), error pages, and the headers of every answer."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.http.errors import HANDLERS, answer_of, not_found
from api.http.request_log import ORGANISATION
from api.http.responses import ANONYMOUS, CALLERS, read_body
from console.access import cookies
from console.access.visit import ROOT, Console, Screen, Visit
from console.presentation.forms import Form
from console.presentation.names import HEADLINES
from console.presentation.rendering import HEADERS, OVER_TLS
from console.presentation.texts import N_

_STALE = N_("The form must come from a page of this session. Reload the page and send the form again.")


def handler(console: Console, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that checks each request for the screen, and answers it with a page or an error page."""

    async def answer(request: Request) -> Response:
        visit = Visit(console, request, screen)
        try:
            response = await _answer(visit)
        except Exception as error:
            response = _refused(visit, error)
        return _finished(visit, response)

    return answer


async def _answer(visit: Visit) -> Response:
    """Check the request and return the screen's response. Raises ApiError if a check fails."""
    if visit.screen.method == "POST" and visit.transport.is_from_elsewhere:
        raise visit.refusal(403, _STALE)
    response = await _enter(visit)
    if response is None and visit.screen.method == "POST":
        budget = CALLERS if visit.opened else ANONYMOUS
        body = await read_body(visit.request, budget, address=visit.transport.address, is_form=True)
        visit.form = Form.of(body, visit.request.headers.get("content-type", ""))
        if not visit.is_own_form():
            raise visit.refusal(403, _STALE)
        response = await _enter(visit)  # the body may have taken long to arrive
    return response or await visit.screen.function(visit)


async def _enter(visit: Visit) -> Response | None:
    """Open the session and check the user's rights. Return a redirect if the user must sign in first, else None.

    Raises ApiError if the user may not use the screen.
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
    if not visit.opened.may(screen.roles):
        raise visit.refusal(403, N_("Your role does not allow this."))
    return None


def _to_sign_in(visit: Visit) -> Response:
    """Return a redirect to the sign-in page, which leads back here afterwards."""
    url = visit.request.url
    return_to = url.path + (f"?{url.query}" if url.query else "") if visit.screen.method == "GET" else f"{ROOT}/"
    to = f"{ROOT}/sign-in/" + (f"?next={quote(return_to, safe='')}" if return_to != f"{ROOT}/" else "")
    if visit.is_partial:
        return Response(status_code=401, headers={"HX-Redirect": to})
    return RedirectResponse(to, status_code=303)


def _refused(visit: Visit, error: Exception) -> Response:
    """Return the API's answer to the exception as a page. An unexpected exception is logged, as in the API."""
    handle = answer_of(error) or HANDLERS[Exception]
    answer = handle(visit.request, error)
    body = msgspec.json.decode(answer.body)
    return visit.render(
        "error.html",
        answer.status_code,
        headline=visit._(HEADLINES.get(answer.status_code, HEADLINES[500])),
        detail=body.get("non_field_errors", body).get("detail", ""),
        request_id=body.get("request_id", ""),
        problems=body.get("errors", []),
    )


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
