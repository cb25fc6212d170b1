"""The measurement finds a service that holds the others up, and does not blame it for a machine that is busy."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.hostile.catalogue import head
from tests.hostile.measure import MAX_WAIT_S, Harm, Processes, harm_of_all, least_harm

HOLDING = "/hold/"
HELD_S, NOISE_S = 4 * MAX_WAIT_S, 1.5 * MAX_WAIT_S
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """A server that sleeps in its loop on request, and delays every answer."""

    def __init__(self, noise_s: float) -> None:
        self._noise_s = noise_s
        self._port = 0
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def start(self) -> str:
        self._thread.start()
        self._is_ready.wait()
        return f"http://127.0.0.1:{self._port}"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._converse, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._is_over.wait()
        server.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                if HOLDING.encode() in request:
                    time.sleep(HELD_S)
                await asyncio.sleep(self._noise_s)
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has what it wanted
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@contextmanager
def serving(noise_s: float = 0.0) -> Iterator[str]:
    server = Server(noise_s)
    yield server.start()
    server.stop()


def seen(url: str, path: str) -> Harm:
    """Measure a request for this path."""
    return least_harm(
        url, lambda: harm_of_all(url, Processes([]), [[head("GET", path)]], "t"), "t", bearable_s=MAX_WAIT_S
    )


@pytest.mark.promise("measurement-finds-holds-others")
def test_a_service_that_sleeps_in_its_loop_is_caught() -> None:
    with serving() as url:
        assert seen(url, HOLDING).waited_s > MAX_WAIT_S


@pytest.mark.promise("measurement-finds-holds-others")
def test_a_wait_of_the_machine_is_not_taken_for_one_of_the_service() -> None:
    """A caller waits long here, whether anything else is sent or not."""
    with serving(NOISE_S) as url:
        assert seen(url, "/").waited_s <= MAX_WAIT_S
