"""A client that sends a bulk body and reads no receipts."""

import socket
from contextlib import closing

import psutil
import pytest

from tests.support.bulk import BULK, bulk, ndjson
from tests.support.make import an_account, encoded
from tests.support.running import RunningService


@pytest.mark.promise("read-receipts-stopped-takes", "lists-history-ndjson-go")
@pytest.mark.parametrize("mode", ["create", "validate"])
def test_who_does_not_read_is_stopped_and_takes_no_memory(service: RunningService, mode: str) -> None:
    importer = service.importer()
    [api] = service.processes("api")
    bulk(importer, ndjson(*(an_account(importer.supplier, number) for number in range(50))), f"?mode={mode}")
    before = _memory_mb(api)
    host, port = service.base_url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=3)) as sending:
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)  # the sooner there is no room for receipts
        head = f"POST {BULK}?mode={mode} HTTP/1.1\r\nHost: x\r\nAuthorization: Token {importer.api_key}\r\n"
        sending.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        broken = b"{}\n" * 20_000  # a receipt is many times as long as such a line
        with pytest.raises(TimeoutError):
            list(map(sending.sendall, [b"%x\r\n%s\r\n" % (len(broken), broken)] * 300))
        assert _memory_mb(api) - before < 100
        assert importer.client.validate(encoded(an_account(importer.supplier))).status == 200
        sending.settimeout(0.1)
        with pytest.raises(TimeoutError):  # it is still connected, and stopped
            sending.sendall(b"1\r\n{\r\n")


def _memory_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20
