"""Measure the harm of hostile connections: another caller's wait, CPU time, memory, and the answer."""

import contextlib
import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import psutil

MAX_WAIT_S, MAX_PROCESSOR_S, MAX_MEMORY_BYTES, MAX_ANSWER_BYTES = 0.5, 3.0, 100_000_000, 2_000_000
"""The bars: longest extra wait of another caller, CPU time and memory of the service, and size of the answer."""
TIMEOUT_S = 60.0
_ASKS_EVERY_S, _LOOKS_EVERY_S, _FINDS_EVERY_S = 0.03, 0.01, 1.0
"""Pauses of the other caller, between readings of memory, and between searches for the service's processes, which are
slow.
"""
QUIET_S = 1.0
TIMES = 3
_IS_CHUNKED = re.compile(rb"transfer-encoding: chunked", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")

Number = TypeVar("Number", int, float)


class Harm(msgspec.Struct, frozen=True):
    """Figures of one hostile connection, until it was answered or ended."""

    status: int | None
    answered_bytes: int
    """Size of the answer. Of an answer in lines, size of its longest line."""
    answer: bytes
    waited_s: float
    """Longest wait of another caller for an answer."""
    processor_s: float
    memory_bytes: int
    """Largest growth of the processes."""


def harm_of_all(url: str, processes: "Processes", connections: Iterable[Iterable[bytes]], others_token: str) -> Harm:
    """Send the bytes of each connection at once, and watch meanwhile. The answer is the first connection's."""
    address = address_of(url)
    sent = [list(pieces) for pieces in connections]
    answers: dict[int, bytes] = {}

    def converse(number: int) -> None:
        with socket.create_connection(address) as connection:
            answers[number] = conversation(connection, sent[number])

    with watching(address, processes, others_token) as watch:
        threads = [threading.Thread(target=converse, args=(number,)) for number in range(len(sent))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    match = _STATUS.match(answers[0])
    _, _, body = answers[0].partition(b"\r\n\r\n")
    status = int(match.group(1)) if match else None
    longest = max(map(len, body.splitlines()), default=0) if _IS_CHUNKED.search(answers[0]) else len(answers[0])
    return Harm(status, longest, body, watch.waited_s, watch.processor_s, watch.memory_bytes)


def least_harm(url: str, measure: Callable[[], Harm], others_token: str, *, bearable_s: float) -> Harm:
    """Return the measurement. If another caller waited long, repeat it, and take the shortest of three waits.

    The wait without any load is subtracted, since the machine causes it. Memory counts from the first time: a process
    that has grown does not grow again.
    """
    found = first = measure()
    for _ in range(TIMES - 1):
        if found.waited_s <= bearable_s:
            break
        with watching(address_of(url), Processes([]), others_token) as quiet:
            time.sleep(QUIET_S)
        again = measure()
        waited_s = min(found.waited_s, max(0.0, again.waited_s - quiet.waited_s))
        found = msgspec.structs.replace(first, waited_s=waited_s, processor_s=min(found.processor_s, again.processor_s))
    return found


def conversation(connection: socket.socket, pieces: Iterable[bytes], *, is_one: bool = True) -> bytes:
    """Send all bytes, and read meanwhile. Return the answer when one is whole or the connection ends."""
    connection.settimeout(TIMEOUT_S)

    def send() -> None:
        with contextlib.suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    answer = bytearray()
    with contextlib.suppress(OSError):
        while not (is_one and is_whole(answer)) and (received := connection.recv(1 << 20)):
            answer += received
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    sender.join(TIMEOUT_S)
    return bytes(answer)


def is_whole(answer: bytearray) -> bool:
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = bytes(answer[:end])
    if _IS_CHUNKED.search(head):
        return answer.endswith(b"\r\n0\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return length is not None and len(answer) - end - 4 >= int(length.group(1))


class Processes:
    """The given processes and their children."""

    def __init__(self, roots: Sequence[psutil.Process], others: Sequence[psutil.Process] = ()) -> None:
        self._roots = roots
        self._others = others
        self._known: list[psutil.Process] = []

    def find(self) -> None:
        """Search for the processes and their children."""
        roots = [*self._roots, *self._others]
        self._known = roots + [child for root in roots for child in root.children(recursive=True)]

    def memory_bytes(self) -> int:
        """Memory of all processes that were found."""
        return sum(_of(process, lambda process: int(process.memory_info().rss)) for process in self._known)

    def processor_s(self) -> float:
        """CPU time of the given roots and their children, ended ones included; without the others."""
        below = [child for root in self._roots for child in root.children(recursive=True)]
        return sum(sum(root.cpu_times()[:4]) for root in self._roots) + sum(
            _of(child, lambda process: float(sum(process.cpu_times()[:2]))) for child in below
        )


def _of(process: psutil.Process, read: Callable[[psutil.Process], Number]) -> Number:
    try:
        return read(process)
    except psutil.NoSuchProcess:
        return type(read(psutil.Process()))(0)


class Watch:
    """Another caller that sends small requests, and a thread that reads the memory of the processes."""

    def __init__(self, processes: Processes) -> None:
        self.waited_s = self.processor_s = 0.0
        self.memory_bytes = 0
        self._processes = processes
        self.is_over = threading.Event()

    def ask(self, address: tuple[str, int], token: str) -> None:
        """Read a status that does not exist, with a token, on one connection."""
        with contextlib.closing(http.client.HTTPConnection(*address, timeout=TIMEOUT_S)) as connection:
            while not self.is_over.wait(_ASKS_EVERY_S):
                began = time.monotonic()
                path = "/v2/data-import/accounts/NOBODY/1/"
                connection.request("GET", path, headers={"Authorization": f"Token {token}"})
                connection.getresponse().read()
                self.waited_s = max(self.waited_s, time.monotonic() - began)

    def look(self, memory_before: int) -> None:
        found_at = time.monotonic()
        while not self.is_over.wait(_LOOKS_EVERY_S):
            if time.monotonic() - found_at > _FINDS_EVERY_S:
                self._processes.find()
                found_at = time.monotonic()
            self.memory_bytes = max(self.memory_bytes, self._processes.memory_bytes() - memory_before)


@contextlib.contextmanager
def watching(address: tuple[str, int], processes: Processes, token: str) -> Iterator[Watch]:
    """Watch until the end of the block. The watch has the figures afterwards."""
    watch = Watch(processes)
    processes.find()
    memory_before, processor_before = processes.memory_bytes(), processes.processor_s()
    threads = [
        threading.Thread(target=watch.ask, args=(address, token)),
        threading.Thread(target=watch.look, args=(memory_before,)),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    try:
        yield watch
    finally:
        time.sleep(0.1)
        watch.is_over.set()
        for thread in threads:
            thread.join()
        watch.processor_s = processes.processor_s() - processor_before


def address_of(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def many(pieces: bytes, count: int, address: tuple[str, int]) -> Iterator[socket.socket]:
    """Connections that have sent these bytes and wait."""
    for _ in range(count):
        connection = socket.create_connection(address)
        connection.sendall(pieces)
        yield connection
