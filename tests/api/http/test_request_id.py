"""X-Request-Id: a valid one is used, else one is made; it is in the answer, the line of the log and the events."""

import asyncio
import json
import re
import socket
from collections.abc import MutableMapping
from contextlib import nullcontext
from typing import Any

import pytest

from api.http.request_log import RequestLine, RequestLog, request_id_of
from eventstore.events import origin
from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService

BULK = "b" * 32
OURS = re.compile(r"[0-9a-f]{16}\Z")
UUID = "0af76519-16cd-43dd-8448-eb211c80319c"


@pytest.mark.promise("x-request-id-taken")
@pytest.mark.parametrize("given", [UUID, UUID.upper(), UUID.replace("-", "")])
def test_an_id_that_can_be_used_is_taken(given: str) -> None:
    assert request_id_of([(b"host", b"h"), (b"x-request-id", given.encode())]) == given


NAMES = [b"Erika.Mustermann", b"DE89370400440532013000", b"BE68539007547034", b"0049301234567890"]


@pytest.mark.promise("x-request-id-taken")
@pytest.mark.parametrize("given", [b"", b"a" * 33, b"a" * 31, b"a\nb", "é".encode(), UUID.encode() + b"\n", *NAMES])
def test_an_id_that_could_name_a_person_is_replaced(given: bytes) -> None:
    made = request_id_of([(b"x-request-id", given)])
    assert OURS.match(made)


@pytest.mark.promise("x-request-id-taken")
@pytest.mark.parametrize("raises", [False, True])
def test_answer_line_and_work_have_the_same_id(*, raises: bool) -> None:
    lines: list[RequestLine] = []
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        assert origin.get().request_id == UUID
        await send({"type": "http.response.start", "status": 201, "headers": [(b"a", b"b")]})
        if raises:
            raise RuntimeError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def ask() -> None:
        scope = {"type": "http", "method": "GET", "headers": [(b"x-request-id", UUID.encode())]}
        with pytest.raises(RuntimeError) if raises else nullcontext():
            await RequestLog(app, lines.extend)(scope, send, send)  # type: ignore[arg-type]
        while not lines:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(ask(), 30))
    assert dict(sent[0]["headers"]) == {b"a": b"b", b"x-request-id": UUID.encode()}
    assert ([line.request_id for line in lines], origin.get().request_id) == ([UUID], "")


def test_what_cannot_be_read_as_http_carries_one_too(service: RunningService) -> None:
    host, port = service.base_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"NO HTTP\r\n\r\n")
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nx-request-id: " in answer


@pytest.mark.promise("x-request-id-taken")
def test_the_events_of_a_request_name_it(service: RunningService, importer: Importer) -> None:
    account = an_account(importer.supplier, 1)
    path = "/v2/data-import/accounts/"
    answer, fields = importer.request("POST", path, account, {"X-Request-Id": UUID})
    assert (answer.status, fields["x-request-id"]) == (201, UUID)
    lines = b"\n".join(encoded(an_account(importer.supplier, n)) for n in (2, 3))
    named = {"Content-Type": "application/x-ndjson", "X-Request-Id": BULK}
    assert importer.request("POST", f"{path}bulk/", lines, named)[0].status == 200
    for number, called in ((1, UUID), (2, BULK), (3, BULK)):
        external = str(an_account(importer.supplier, number)["external_account_number"])
        history = service.cli("history", importer.supplier, external, "--json").stdout.splitlines()
        staged = next(entry for entry in map(json.loads, history) if entry["event"] == "ImportStaged")
        assert staged["request_id"] == called
        assert "metadata" not in staged["data"]
