"""Routing on the raw path, so that an identifier may contain anything, a slash included, when percent-encoded.

A path without identifiers is looked up instead of searched for, and is answered without the framework's layers.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from urllib.parse import unquote_to_bytes

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import answer_of, not_found
from api.responses import release

ANSWER_HEADERS = "importledger.answer_headers"
"""The key in the ASGI scope of header fields that the answer is to carry."""


class RawPath:
    """ASGI middleware: the router gets the path as it was sent; a path without identifiers is answered without it."""

    def __init__(self, app: ASGIApp, routes: Iterable[Route] = ()) -> None:
        self._app = app
        self._exact: dict[tuple[str, str], Endpoint] = {
            (method, route.path): route.endpoint
            for route in routes
            if isinstance(route.endpoint, Endpoint) and "{" not in route.path
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("raw_path"):
            path = scope["path"] = scope["raw_path"].decode("latin-1")
            endpoint = self._exact.get((scope["method"], path))
            if endpoint is not None:
                scope["endpoint"], scope["path_params"] = endpoint, {}
                await endpoint.refusing(scope, receive, send)
                return
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
        await self._answer(Request(scope, receive, send), scope, receive, send)

    async def refusing(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the handler, and answer the exceptions that refuse a request. Unexpected ones are raised."""
        request, is_begun = Request(scope, receive, send), False

        async def sending(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await self._answer(request, scope, receive, sending)
        except Exception as error:
            handler = answer_of(error)
            if handler is None or is_begun:
                raise
            response = await run_in_threadpool(handler, request, error)  # it may have a thousand problems to tell
            await response(scope, receive, send)

    async def _answer(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._handler(request)
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
