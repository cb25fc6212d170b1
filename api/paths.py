"""Routing on the raw path, so that an identifier may contain anything, a slash included, when percent-encoded."""

from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import not_found
from api.responses import release

ANSWER_HEADERS = "importledger.answer_headers"
"""The key in the ASGI scope of header fields that the answer is to carry."""


class RawPath:
    """ASGI middleware: the router sees the path as it was sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("raw_path"):
            scope["path"] = scope["raw_path"].decode("latin-1")
        await self._app(scope, receive, send)


def identifier(request: Request, name: str) -> str:
    """A path parameter as the text that it encodes. Raises ApiError 404 for what cannot be an identifier."""
    try:
        text = unquote_to_bytes(request.path_params[name]).decode()
    except UnicodeDecodeError:
        raise not_found() from None
    if "\0" in text:
        raise not_found()
    return text


class Endpoint:
    """A handler as an ASGI application: the framework's error handling stands around the whole app already."""

    def __init__(self, handler: Callable[[Request], Awaitable[Response]], path: str | None = None) -> None:
        self.path = path
        """The route's path, with names for what differs; the log shows it."""
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._handler(Request(scope, receive, send))
        finally:
            release(scope)
        if ANSWER_HEADERS in scope:
            response.headers.update(scope[ANSWER_HEADERS])
        await response(scope, receive, send)


def both_forms(path: str, handler: Callable[[Request], Awaitable[Response]], *methods: str) -> Iterator[Route]:
    """The route with and without its trailing slash: a POST cannot be redirected."""
    endpoint = Endpoint(handler, path)
    yield Route(path, endpoint, methods=list(methods))
    yield Route(path.rstrip("/"), endpoint, methods=list(methods))


def only_form(path: str, handler: Callable[[Request], Awaitable[Response]], *methods: str) -> Iterator[Route]:
    """The route of a file, which has no other form."""
    yield Route(path, Endpoint(handler, path), methods=list(methods))
