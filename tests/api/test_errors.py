"""What nobody expected: 500 with a request id, and no more said than a stranger may know."""

import asyncio
import json
from typing import Any

import pytest
import structlog
from starlette.requests import Request

from api.errors import HANDLERS


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
