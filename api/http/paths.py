"""Routing by raw path, so that a percent-encoded identifier may contain anything, also a slash.

A path without identifiers is found in a dictionary, and answered without Starlette's layers.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.errors import HANDLERS, answer_of, not_found, unexpected_error
from api.http.responses import release

ANSWER_HEADERS = "importledger.answer_headers"
"""Key in the ASGI scope of a request. The value has header fields for the answer."""


class RawPath:
    """ASGI middleware that gives the router the path as it was sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("raw_path"):
            scope["path"] = scope["raw_path"].decode("latin-1")
        await self._app(scope, receive, send)


class RawPathApplication(Starlette):
    """Application with routes and the handlers of `api.http.errors`. It answers paths without identifiers itself."""

    def __init__(self, routes: Sequence[Route], **more: Any) -> None:
        super().__init__(routes=routes, exception_handlers=HANDLERS, middleware=[Middleware(RawPath)], **more)
        self.router.redirect_slashes = False
        self._exact: dict[tuple[str, bytes], Endpoint] = {
            (method, route.path.encode()): route.endpoint
            for route in routes
            if isinstance(route.endpoint, Endpoint) and "{" not in route.path
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            endpoint = self._exact.get((scope["method"], scope.get("raw_path", b"")))
            if endpoint is not None:
                scope["app"], scope["endpoint"], scope["path_params"] = self, endpoint, {}
                await endpoint.handle(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def identifier(request: Request, name: str) -> str:
    """Return a path parameter, decoded. Raises ApiError 404 if it cannot be an identifier."""
    try:
        text = unquote_to_bytes(request.path_params[name]).decode()
    except UnicodeDecodeError:
        raise not_found() from None
    if "\0" in text:
        raise not_found()
    return text


class Endpoint:
    """A handler as an ASGI application that also handles errors, since Starlette handles errors only around the whole
    application.
    """

    def __init__(self, handler: Callable[[Request], Awaitable[Response]], path: str | None = None) -> None:
        self.path = path
        """Path of the route, with the names of its parameters. The log shows it."""
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the handler, and answer errors that handler or answer raise before the answer begins.

        Unexpected errors, and errors after the answer has begun, are also raised, so that the server logs them.
        """
        request, is_begun = Request(scope, receive, send), False

        async def sending(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            response = await self._answer(request)
            await response(scope, receive, sending)
        except Exception as error:
            handler = None if is_begun else answer_of(error)
            answering = handler or unexpected_error  # in a thread: the answer may list a thousand problems
            refusal = await run_in_threadpool(answering, request, error)
            if not is_begun:
                await refusal(scope, receive, send)
            if handler is None:
                raise

    async def _answer(self, request: Request) -> Response:
        try:
            response = await self._handler(request)
        finally:
            release(request.scope)
        if ANSWER_HEADERS in request.scope:
            response.headers.update(request.scope[ANSWER_HEADERS])
        return response


def both_forms(path: str, handler: Callable[[Request], Awaitable[Response]], *methods: str) -> Iterator[Route]:
    """Yield the routes with and without a trailing slash, since a POST cannot be redirected."""
    endpoint = Endpoint(handler, path)
    yield Route(path, endpoint, methods=list(methods))
    yield Route(path.rstrip("/"), endpoint, methods=list(methods))


def single_form(path: str, handler: Callable[[Request], Awaitable[Response]], *methods: str) -> Iterator[Route]:
    """Yield the only route of a path without a second form, such as the path of a file."""
    yield Route(path, Endpoint(handler, path), methods=list(methods))
