"""One line for each request, and what it costs."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from api.app import create_app
from api.http.request_log import ORGANISATION, RequestLine, RequestLog
from telemetry.log import write_lines


def requested(*paths: str) -> list[RequestLine]:
    """The lines of these requests to an application without a database."""
    lines: list[RequestLine] = []

    async def ask() -> None:
        app = RequestLog(create_app("postgresql://nobody@127.0.0.1:1/none", b"k" * 32), lines.extend)
        for path in paths:
            await app(_scope(path), _nothing, _ignored)
        await asyncio.sleep(0.2)

    asyncio.run(ask())
    return lines


def _scope(path: str) -> MutableMapping[str, Any]:
    return {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": [], "query_string": b"",
        "http_version": "1.1", "scheme": "http", "server": ("h", 80), "client": None, "root_path": "",
    }  # fmt: skip


async def _nothing() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignored(message: MutableMapping[str, Any]) -> None:
    del message


@pytest.mark.promise("one-line-each-request-2")
@pytest.mark.asvs("V16.1.1", "V16.2.5", "V16.3.2")
def test_each_request_is_one_line_with_its_route_and_no_identifier() -> None:
    lines = requested("/livez", "/v2/data-import/accounts/NORDWIND/NW-1/", "/nowhere/secret")
    assert [(line.method, line.route, line.status) for line in lines] == [
        ("GET", "/livez/", 200),
        ("GET", "/v2/data-import/accounts/{supplier}/{external}/", 401),
        ("GET", None, 404),
    ]
    assert len({line.request_id for line in lines}) == 3
    assert all(line.duration_ms >= 0 and line.organisation is None for line in lines)


@pytest.mark.promise("one-line-each-request-2")
@pytest.mark.asvs("V16.2.1")
def test_the_line_names_the_organisation_and_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        scope[ORGANISATION] = "Nordwind"
        await send({"type": "http.response.start", "status": 201})

    async def ask() -> None:
        log = RequestLog(app, write_lines("json"))
        await log(_scope("/"), _nothing, _ignored)
        await log({"type": "lifespan"}, _nothing, _ignored)

    asyncio.run(ask())
    line = json.loads(capsys.readouterr().err)
    fields = {"method", "route", "status", "duration_ms", "request_id", "organisation"}
    assert line.keys() == fields | {"event", "level", "timestamp"}
    assert (line["event"], line["status"], line["organisation"]) == ("request", 201, "Nordwind")
