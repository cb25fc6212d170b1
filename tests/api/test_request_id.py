"""X-Request-Id: taken where it can be used, made where it cannot; in the answer, the log's line and the events."""

import asyncio
import json
import socket
from collections.abc import MutableMapping
from typing import Any

import pytest

from api.request_id import MAX_LENGTH, new_request_id, request_id_of
from api.request_log import RequestLine, RequestLog
from eventstore.log.origin import origin
from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService

Headers = list[tuple[bytes, bytes]]


@pytest.mark.parametrize("given", ["a", "x" * MAX_LENGTH, "0af7651916cd43dd8448eb211c80319c", "A.b_c:d+e/f=-9"])
def test_an_id_that_can_be_used_is_taken(given: str) -> None:
    assert request_id_of([(b"host", b"h"), (b"x-request-id", given.encode())]) == given


@pytest.mark.parametrize(
    "given", [b"", b"x" * (MAX_LENGTH + 1), b"two words", b'a"b', b"a\\b", b"a\nb", "é".encode(), b"erika@example.org"]
)
def test_any_other_is_replaced(given: bytes) -> None:
    made = request_id_of([(b"x-request-id", given)])
    assert made.encode() != given
    assert request_id_of([(b"x-request-id", made.encode())]) == made


def test_ids_that_are_made_differ() -> None:
    assert len({new_request_id() for _ in range(1_000)} | {request_id_of([])}) == 1_001


def asked(headers: Headers, *, raises: bool = False) -> tuple[list[RequestLine], dict[bytes, bytes], str]:
    """The lines of a request, the header of its answer, and what the request was called inside of the application."""
    lines: list[RequestLine] = []
    sent: list[MutableMapping[str, Any]] = []
    inside: list[str] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        inside.append(origin.get().request_id)
        await send({"type": "http.response.start", "status": 201, "headers": [(b"a", b"b")]})
        if raises:
            raise RuntimeError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def ask() -> None:
        scope = {"type": "http", "method": "GET", "headers": headers}
        try:
            await RequestLog(app, lines.extend)(scope, send, send)  # type: ignore[arg-type]
        except RuntimeError:
            assert raises
        await asyncio.sleep(0.1)

    asyncio.run(ask())
    return lines, dict(sent[0]["headers"]), inside[0]


@pytest.mark.parametrize("raises", [False, True])
def test_answer_line_and_work_have_the_same_id(*, raises: bool) -> None:
    [line], fields, inside = asked([(b"x-request-id", b"from-the-caller")], raises=raises)
    assert fields == {b"a": b"b", b"x-request-id": b"from-the-caller"}
    assert (line.request_id, inside, origin.get().request_id) == ("from-the-caller", "from-the-caller", "")


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    return service.importer()


@pytest.mark.parametrize("path", ["/livez", "/nowhere", "/v2/data-import/accounts/S/1/"])
def test_every_answer_carries_an_id(service: RunningService, path: str) -> None:
    _, taken = service.raw("GET", path, {"X-Request-Id": "mine-1"})
    _, made = service.raw("GET", path)
    assert taken["x-request-id"] == "mine-1"
    assert request_id_of([(b"x-request-id", made["x-request-id"].encode())]) == made["x-request-id"]


def test_what_cannot_be_read_as_http_carries_one_too(service: RunningService) -> None:
    host, port = service.base_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"NO HTTP\r\n\r\n")
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nx-request-id: " in answer


def test_the_events_of_a_request_name_it(service: RunningService, importer: Importer) -> None:
    token = {"Authorization": f"Token {importer.api_key}", "Content-Type": "application/json"}
    account = an_account(importer.supplier, 1)
    path = "/v2/data-import/accounts/"
    answer, fields = service.request("POST", path, encoded(account), token | {"X-Request-Id": "delivery-7:1"})
    assert (answer.status, fields["x-request-id"]) == (201, "delivery-7:1")
    lines = b"\n".join(encoded(an_account(importer.supplier, n)) for n in (2, 3))
    bulk = token | {"Content-Type": "application/x-ndjson", "X-Request-Id": "bulk-1"}
    assert service.request("POST", f"{path}bulk/", lines, bulk)[0].status == 200
    for number, called in ((1, "delivery-7:1"), (2, "bulk-1"), (3, "bulk-1")):
        external = str(an_account(importer.supplier, number)["external_account_number"])
        told = service.cli("history", importer.supplier, external, "--json").stdout.splitlines()
        staged = next(entry for entry in map(json.loads, told) if entry["event"] == "ImportStaged")
        assert staged["request_id"] == called
        assert "metadata" not in staged["data"]
