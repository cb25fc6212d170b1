"""Unexpected errors: 500 with a request id, and no detail that a stranger must not know."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import structlog
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from api.http.errors import HANDLERS, not_found
from api.http.paths import RawPathApplication, single_form
from api.http.request_log import REQUEST_ID
from api.http.status_codes import ApiError
from eventstore.errors import StoreUnavailable


@pytest.mark.promise("500-reason-request-id")
def test_what_nobody_expected_has_a_request_id_that_the_log_has_too(capsys: pytest.CaptureFixture[str]) -> None:
    secret = "postgresql://user:password@host"
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v2/x", "headers": [], "query_string": b""}
    scope["server"] = ("test", 80)
    with structlog.testing.capture_logs() as lines:
        answered = HANDLERS[Exception](Request(scope), RuntimeError(secret))
    assert not asyncio.iscoroutine(answered)
    body = json.loads(bytes(answered.body))
    assert answered.status_code == 500
    assert body.keys() == {"detail", "code", "request_id"}
    assert body["code"] == "error"
    assert "RuntimeError" in body["detail"]
    assert secret not in json.dumps(body)
    [line] = lines
    assert line["request_id"] == body["request_id"]


@pytest.mark.parametrize("error", [RuntimeError("secret"), not_found()])
@pytest.mark.parametrize("in_answer", [False, True])
@pytest.mark.parametrize("path", ["/exact", "/some/{name}"])
def test_what_is_raised_before_anything_is_sent_is_answered(error: Exception, in_answer: bool, path: str) -> None:
    """Both ways to find a path answer it. Unexpected errors are also raised, so that the server logs them."""

    class Failing(Response):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            raise error

    async def handler(request: Request) -> Response:
        if in_answer:
            return Failing()
        raise error

    app = RawPathApplication([*single_form(path, handler, "GET")])

    async def request(*, is_raised: bool) -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=is_raised)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path.replace("{name}", "one"))

    is_expected = isinstance(error, ApiError)
    with structlog.testing.capture_logs():  # writing a traceback takes a second
        with contextlib.nullcontext() if is_expected else pytest.raises(RuntimeError):
            asyncio.run(request(is_raised=True))
        answered = asyncio.run(request(is_raised=False))
    assert answered.status_code == (404 if is_expected else 500)
    assert "secret" not in answered.text


@pytest.mark.parametrize("path", ["/exact", "/some/{name}"])
def test_what_is_raised_while_an_answer_is_sent_is_in_the_log(path: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"["
        raise StoreUnavailable("gone")

    async def handler(request: Request) -> Response:
        return StreamingResponse(pieces())

    app = RawPathApplication([*single_form(path, handler, "GET")])
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    raw_path = path.replace("{name}", "one")
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": raw_path, "raw_path": raw_path.encode()}
    scope |= {"headers": [], "query_string": b"", "server": ("test", 80), "root_path": "", REQUEST_ID: "r-1"}
    with structlog.testing.capture_logs() as lines, pytest.raises((StoreUnavailable, RuntimeError)):
        asyncio.run(app(scope, _nothing, send))
    assert [line["request_id"] for line in lines if line["event"] == "unexpected error"] == ["r-1"]
    assert [message.get("status") for message in sent] == [200, None], "nothing more is sent"


async def _nothing() -> Message:
    """Of a client that stays, and sends nothing more."""
    await asyncio.sleep(3600)
    return {"type": "http.disconnect"}
