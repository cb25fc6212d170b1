"""Interrupted bulk imports: no account with a receipt is lost, and sending again is safe."""

import contextlib
import http.client
import json
import socket
import threading
from typing import Any

import psutil
import pytest

from tests.support.folders import temporary_folder
from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, is_ready, processed, start_service, wait_for

BULK = "/v2/data-import/accounts/bulk/"
ACCOUNTS, RECEIPTS = 300, 100
"""Accounts of a book, and receipts before the interruption."""


def book_of(supplier: str, accounts: int, first: int = 1) -> list[bytes]:
    """Lines of accounts that differ in their numbers only."""
    account = changed(an_account(supplier, 1), "NUMBER-0000000", "external_account_number")
    line = encoded(account)
    return [line.replace(b"NUMBER-0000000", b"NUMBER-%07d" % n) + b"\n" for n in range(first, first + accounts)]


class Sending:
    """A bulk request under way: what is to be sent goes out in a thread, receipts are read as they come."""

    def __init__(self, service: RunningService, importer: Importer, query: str = "") -> None:
        host, port = service.base_url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.response: http.client.HTTPResponse | None = None
        head = f"POST {BULK}{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Token {importer.api_key}\r\n"
        self.socket.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")

    def send(self, *lines: bytes) -> None:
        for at in range(0, len(lines), 50):
            chunk = b"".join(lines[at : at + 50])
            self.socket.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))

    def end(self) -> None:
        self.socket.sendall(b"0\r\n\r\n")

    def begin_reading(self) -> http.client.HTTPResponse:
        self.response = http.client.HTTPResponse(self.socket, method="POST")
        self.response.begin()
        return self.response

    def close(self) -> None:
        if self.response is not None:
            self.response.close()
        self.socket.close()

    def receipts(self, limit: int = 10**9) -> list[dict[str, Any]]:
        """Receipts until there are so many, or no more come."""
        found: list[dict[str, Any]] = []
        try:
            response = self.begin_reading()
            while len(found) < limit and (line := response.readline()):
                found.append(json.loads(line))
        except (OSError, ValueError, http.client.HTTPException):
            pass
        return found


def push(service: RunningService, importer: Importer, lines: list[bytes], query: str = "") -> dict[str, Any]:
    sending = Sending(service, importer, query)

    def send() -> None:
        sending.send(*lines)
        sending.end()

    thread = threading.Thread(target=send)
    thread.start()
    *_, last = sending.receipts()
    thread.join()
    sending.close()
    summary: dict[str, Any] = last["summary"]
    return summary


@pytest.mark.promise("bulk-request-cut-api")
def test_a_connection_that_is_cut_loses_nothing_that_had_a_receipt(service: RunningService) -> None:
    importer = service.importer()
    lines = book_of(importer.supplier, ACCOUNTS)
    sending = Sending(service, importer)
    sending.send(*lines[: ACCOUNTS * 3 // 4])
    had = [receipt["external_account_number"] for receipt in sending.receipts(limit=RECEIPTS)]
    sending.close()
    assert len(had) == RECEIPTS
    for external in (had[0], had[-1]):
        assert importer.client.status(importer.supplier, external).status == 200
    summary = push(service, importer, lines)
    assert (summary["lines"], summary["refused"]) == (ACCOUNTS, 0)
    assert summary["replayed"] >= RECEIPTS
    wait_for(lambda: processed(importer) == ACCOUNTS, "all accounts exist, once each", 90)


@pytest.mark.promise("bulk-request-cut-api")
def test_killing_the_api_in_the_middle_loses_nothing_that_had_a_receipt() -> None:
    with temporary_folder() as path, start_service(path) as service:
        importer = service.importer()
        lines = book_of(importer.supplier, ACCOUNTS)
        sending = Sending(service, importer, "?run=killed")
        thread = threading.Thread(target=lambda: _until_broken(sending, lines))
        thread.start()
        response = sending.begin_reading()
        had = [json.loads(response.readline()) for _ in range(RECEIPTS)]
        [api] = service.processes("api")
        api.kill()
        thread.join(60)
        sending.close()
        wait_for(lambda: is_ready(service.base_url), "the api is back")
        assert all(receipt["status"] == "PENDING" for receipt in had)
        summary = push(service, importer, lines, "?run=killed")
        assert (summary["lines"], summary["refused"]) == (ACCOUNTS, 0)
        assert summary["replayed"] >= RECEIPTS
        wait_for(lambda: processed(importer) == ACCOUNTS, "all accounts exist, once each", 120)


def _until_broken(sending: Sending, lines: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        sending.send(*lines)


@pytest.mark.promise("read-receipts-stopped-takes", "lists-history-ndjson-go")
@pytest.mark.parametrize("mode", ["create", "validate"])
def test_who_does_not_read_is_stopped_and_takes_no_memory(service: RunningService, mode: str) -> None:
    importer = service.importer()
    [api] = service.processes("api")
    push(service, importer, book_of(importer.supplier, 50), f"?mode={mode}")
    before = _memory_mb(api)
    sending = Sending(service, importer, f"?mode={mode}")
    sending.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)  # the sooner there is no room for receipts
    sending.socket.settimeout(3)
    broken = [b"{}\n" * 400]  # a receipt is many times as long as such a line
    with pytest.raises(TimeoutError):
        sending.send(*broken * 15_000)
    assert _memory_mb(api) - before < 100
    assert importer.client.validate(encoded(an_account(importer.supplier))).status == 200
    sending.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):  # it is still connected, and stopped
        sending.send(b"{}")
    sending.close()


def _memory_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20
