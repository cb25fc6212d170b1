"""How much one hostile connection costs: another caller's waiting, processor, memory, and what is answered."""

import http.client
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec
import psutil

TIMEOUT_S = 60.0
_PAUSE_S = 0.01
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")


class Harm(msgspec.Struct, frozen=True):
    """What was seen while one connection sent what it had, until it was answered or ended."""

    status: int | None
    answered_bytes: int
    answer: bytes
    waited_s: float
    """The longest that another caller waited for an answer."""
    processor_s: float
    memory_bytes: int
    """By how much the process grew at most."""


def harm_of(url: str, process: psutil.Process, pieces: Iterable[bytes], others_token: str) -> Harm:
    """Send these bytes on one connection, and watch the process and another caller meanwhile."""
    host, port = url.removeprefix("http://").split(":")
    sent = list(pieces)
    with watching(host, int(port), process, others_token) as watch, socket.create_connection((host, int(port))) as one:
        answer = conversation(one, sent)
    match = _STATUS.match(answer)
    _, _, body = answer.partition(b"\r\n\r\n")
    return Harm(
        int(match.group(1)) if match else None, len(answer), body, watch.waited_s, watch.processor_s, watch.memory_bytes
    )


def conversation(connection: socket.socket, pieces: Iterable[bytes], *, is_one: bool = True) -> bytes:
    """Send all, reading meanwhile; what was answered until one whole answer is there or the connection ends."""
    connection.settimeout(TIMEOUT_S)

    def send() -> None:
        with suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    answer = bytearray()
    with suppress(OSError):
        while not (is_one and is_whole(answer)) and (received := connection.recv(1 << 20)):
            answer += received
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    sender.join(TIMEOUT_S)
    return bytes(answer)


def is_whole(answer: bytearray) -> bool:
    head, end, body = bytes(answer).partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return bool(end) and length is not None and len(body) >= int(length.group(1))


class watching:  # noqa: N801 - a context
    """Asks for something small again and again in one thread, and looks at the process in another."""

    def __init__(self, host: str, port: int, process: psutil.Process, token: str) -> None:
        self.waited_s = 0.0
        self.processor_s = 0.0
        self.memory_bytes = 0
        self._host, self._port, self._process, self._token = host, port, process, token
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._ask, self._look)]

    def __enter__(self) -> "watching":
        self._memory_before = self._process.memory_info().rss
        self._processor_before = sum(self._process.cpu_times()[:2])
        for thread in self._threads:
            thread.start()
        time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(0.1)
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self.processor_s = sum(self._process.cpu_times()[:2]) - self._processor_before

    def _ask(self) -> None:
        """A caller who reads a status that is not there, with a token, on one connection."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        while not self._is_over.is_set():
            began = time.monotonic()
            connection.request(
                "GET", "/v2/data-import/accounts/NOBODY/1/", headers={"Authorization": f"Token {self._token}"}
            )
            connection.getresponse().read()
            self.waited_s = max(self.waited_s, time.monotonic() - began)
            time.sleep(_PAUSE_S)
        connection.close()

    def _look(self) -> None:
        while not self._is_over.is_set():
            self.memory_bytes = max(self.memory_bytes, self._process.memory_info().rss - self._memory_before)
            time.sleep(_PAUSE_S)


def many(pieces: bytes, count: int, address: tuple[str, int]) -> Iterator[socket.socket]:
    """So many connections that have sent this and wait."""
    for _ in range(count):
        connection = socket.create_connection(address)
        connection.sendall(pieces)
        yield connection
