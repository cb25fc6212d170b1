"""Each request is one line of the log, with its costs."""

import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from api.app import create_app
from api.http.request_log import ORGANISATION, RequestLine, RequestLog
from telemetry.log import write_lines
from tests.support.serving import answered


@pytest.mark.promise("one-line-each-request-2")
@pytest.mark.asvs("V16.1.1", "V16.2.5", "V16.3.2")
def test_each_request_is_one_line_with_its_route_and_no_identifier() -> None:
    lines: list[RequestLine] = []
    log = RequestLog(create_app("postgresql://nobody@127.0.0.1:1/none", b"k" * 32), lines.extend)
    answered(log, "/livez", "/v2/data-import/accounts/NORDWIND/NW-1/", "/nowhere/secret")
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
        await send({"type": "http.response.body"})

    answered(RequestLog(app, write_lines("json")), "/")
    line = json.loads(capsys.readouterr().err)
    fields = {"method", "route", "status", "duration_ms", "request_id", "organisation"}
    assert line.keys() == fields | {"event", "level", "timestamp"}
    assert (line["event"], line["status"], line["organisation"]) == ("request", 201, "Nordwind")
