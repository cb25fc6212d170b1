"""Data of clients is limited before it is parsed. Clients that send or read too slowly lose their connection."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from api.bulk.answer import BulkAnswer
from api.bulk.body import MAX_BATCH_LINES
from api.bulk.executor import BulkExecutor
from api.bulk.inflate import Plain
from api.bulk.lines import Line
from api.bulk.receipts import Receipt
from api.http import server
from api.http.event_stream import EventStream, ServerEvent
from api.http.limits import MAX_BULK_AHEAD
from api.http.stopping import GONE, STATE
from tests.hostile.measure import conversation
from tests.support.running import wait_for
from tests.support.serving import serving
from tests.support.staging import Testers
from tests.support.virtual_time import in_virtual_time


async def quick(request: Request) -> Response:
    return Response(b"here")


async def endless(request: Request) -> Response:
    async def chunks() -> Any:
        for _ in range(20_000):  # 1.3 GB, more than any buffer
            yield b"x" * 65_536

    return StreamingResponse(chunks())


async def streamed(request: Request) -> Response:
    async def words() -> Any:
        for word in (b"one ", b"", b"two ", b"three"):
            yield word

    return StreamingResponse(words())


async def body(request: Request) -> Response:
    return Response(b"%d" % len(await request.body()))


async def followed(request: Request) -> Response:
    async def events() -> AsyncGenerator[ServerEvent | None]:
        yield ServerEvent("progress", "1", b"{}")
        await asyncio.sleep(3600)

    return EventStream(events())


class Echo:
    """Bulk work that takes everything."""

    async def prepare(self, lines: Sequence[Line]) -> Sequence[Line]:
        return lines

    async def settle(self, prepared: Sequence[Line]) -> list[Receipt]:
        return [Receipt(line=line.number, external_account_number="", status="VALID") for line in prepared]


async def taken(request: Request) -> Response:
    return BulkAnswer(Testers(), Echo(), Plain(), BulkExecutor(), "en")


class Waiting(Echo):
    """Bulk work whose first batch ends when the client has gone."""

    def __init__(self) -> None:
        self.begun, self.finished = threading.Event(), threading.Event()
        self.lines = 0
        self.is_gone = bool

    async def prepare(self, lines: Sequence[Line]) -> Sequence[Line]:
        self.lines += len(lines)
        return lines

    async def settle(self, prepared: Sequence[Line]) -> list[Receipt]:
        self.begun.set()
        while not self.is_gone():
            await asyncio.sleep(0.01)
        return await super().settle(prepared)


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, asyncio.Event]]:
    yield {STATE: asyncio.Event()}


APP = Starlette(
    routes=[
        *(Route("/quick", quick), Route("/endless", endless), Route("/told", followed), Route("/streamed", streamed)),
        *(Route("/body", body, methods=["POST"]), Route("/taken", taken, methods=["POST"])),
    ],
    lifespan=lifespan,
)


def ends(connection: socket.socket) -> bool:
    """Return True if the other side closes within ten seconds."""
    connection.settimeout(10)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server that tests without limits of their own share."""
    with serving(APP) as port:
        yield port


@contextlib.contextmanager
def connected(port: int = 0) -> Iterator[socket.socket]:
    """Connect to this server, or to one that begins with the limits of now."""
    with (
        contextlib.nullcontext(port) if port else serving(APP) as at,
        socket.create_connection(("127.0.0.1", at), timeout=30) as connection,
    ):
        yield connection


QUICK = b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n"
UNENDED = b"POST /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nx"


@pytest.mark.parametrize(
    ("sent", "limit", "seconds"),
    [
        (b"", "HEADER_TIMEOUT_S", 0.2),
        (b"GET /quick HT", "HEADER_TIMEOUT_S", 0.2),
        (b"GET /quick HTTP/1.1\r\nHost: x\r\nX-Slow: ", "HEADER_TIMEOUT_S", 0.2),
        (QUICK + b"GET /qui", "HEADER_TIMEOUT_S", 0.2),
        (QUICK + b"\r\n", "KEEP_ALIVE_S", 1),
        (b"no HTTP at all\r\n\r\n", "LINGER_S", 0.2),
        (UNENDED, "BODY_TIMEOUT_S", 0.2),
    ],
)
def test_a_client_that_goes_on_too_slowly_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, limit: str, seconds: float
) -> None:
    monkeypatch.setattr(server, limit, seconds)
    with connected() as connection:
        connection.sendall(sent)
        assert ends(connection)


class Transport(asyncio.Transport):
    """The connection of a client that reads everything."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.is_closed = self.is_aborted = False

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        """There is nothing to read."""

    resume_reading = pause_reading

    async def until(self, text: bytes, times: int = 1) -> None:
        while self.sent.count(text) < times:
            await asyncio.sleep(0.001)


def in_protocol(
    talk: Callable[[server.GuardedProtocol, Transport], Coroutine[Any, Any, None]], transport: Transport | None = None
) -> None:
    """Talk with the protocol in virtual time."""
    transport = transport or Transport()

    async def scene() -> None:
        config = server.configuration(APP, host="127.0.0.1", port=1)
        protocol = server.GuardedProtocol(config, ServerState(), {}, asyncio.get_running_loop())
        protocol.connection_made(transport)
        async with asyncio.timeout(60):
            await talk(protocol, transport)
        protocol.connection_lost(None)

    in_virtual_time(scene())


def test_a_connection_on_which_something_is_asked_again_and_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE_S", 1)

    async def talk(protocol: server.GuardedProtocol, transport: Transport) -> None:
        for number in range(1, 6):
            await asyncio.sleep(0.5)
            protocol.data_received(QUICK)
            await transport.until(b" 200 ", number)
        assert not transport.is_closed
        await asyncio.sleep(1.5)
        assert transport.is_closed

    in_protocol(talk)


def test_connections_beyond_their_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    with serving(APP) as port, socket.create_connection(("127.0.0.1", port)):
        assert answer_to(port, QUICK)[0] == 200
        with socket.create_connection(("127.0.0.1", port)):
            wait_for(lambda: answer_to(port, QUICK)[0] == 503, "one connection too many is refused")


def test_a_client_that_does_not_read_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_TIMEOUT_S", 0.2)
    with connected() as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(1)  # reads nothing meanwhile
        assert ends(connection)


def answer_to(port: int, sent: bytes) -> tuple[int, bytes]:
    """Status and body of the first answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        answer = conversation(connection, [sent])
    head, _, text = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), text


def line_of(size: int) -> bytes:
    """A request whose first line has so many bytes, its end not counted."""
    path = b"/quick?" + b"q" * (size - len(b"GET /quick? HTTP/1.1"))
    return b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"


def fields_of(count: int, size: int) -> bytes:
    """A request with so many fields, which have so many bytes together, their ends counted."""
    rest = size - len("Host: x\r\n") - sum(len(f"X{n}: \r\n") for n in range(count - 1))
    fields = [f"X{n}: ".encode() for n in range(count - 1)]
    fields[-1] += b"v" * rest
    return b"GET /quick HTTP/1.1\r\nHost: x\r\n" + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


CHUNKED = b"POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.promise("request-line-most-8")
@pytest.mark.asvs("V2.3.2")
@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (line_of(8_192), 200, None),
        (line_of(8_193), 414, "uri_too_long"),
        (b"GET /" + b"a" * 1_000_000, 414, "uri_too_long"),
        (fields_of(100, 32_768), 200, None),
        (fields_of(100, 32_769), 431, "header_too_large"),
        (fields_of(101, 5_000), 431, "header_too_large"),
        (b"GET /quick HTTP/1.1\r\nX: " + b"a" * 1_000_000, 431, "header_too_large"),
        (b"\r\n" * 1_000_000, 431, "header_too_large"),
        (CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", 200, None),
        (CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n\r\n", 400, "parse_error"),
        (CHUNKED + b"2;" + b"x" * 1_000_000, 431, "header_too_large"),
        (CHUNKED + b"1\r\nx\r\n" * 100_000, 400, "parse_error"),
        (CHUNKED + (b"80\r\n" + b"x" * 128 + b"\r\n") * 10_000 + b"0\r\n\r\n", 200, None),
        (b"no HTTP at all\r\n\r\n", 400, "parse_error"),
    ],
    ids=range(14),
)
def test_a_request_line_header_or_trailer_beyond_its_limit_is_refused(
    port: int, sent: bytes, status: int, code: str | None
) -> None:
    answered, text = answer_to(port, sent)
    assert answered == status, text
    assert code is None or json.loads(text)["code"] == code
    assert answer_to(port, QUICK) == (200, b"here")


@pytest.mark.asvs("V15.3.7")
@pytest.mark.parametrize("name", sorted(server.SINGLE))
def test_a_field_that_decides_who_asks_must_not_be_sent_twice(port: int, name: bytes) -> None:
    once = QUICK[:-2] + name.title() + b": one\r\n"
    assert answer_to(port, once + b"\r\n") == (200, b"here")
    for second in (b"one", b"two", b""):
        status, text = answer_to(port, once + b"X: y\r\n" + name + b": " + second + b"\r\n\r\n")
        assert (status, json.loads(text)["code"]) == (400, "parse_error")
        assert name.decode() in json.loads(text)["detail"]


BODY = b'{"external_account_number": "H2C-1"}'
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
SIZED = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(BODY) + H2C + b"\r\n" + BODY
IN_CHUNKS = CHUNKED.replace(b"\r\n\r\n", b"\r\n" + H2C + b"\r\n") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
WITHOUT_BODY = QUICK.replace(b"Host: x\r\n", b"Host: x\r\n" + H2C)
WEBSOCKET = WITHOUT_BODY.replace(b"h2c", b"websocket")


class Open(Transport):
    """A connection that stays open: what is sent after its end must not be answered."""

    def close(self) -> None:
        """Do nothing."""


def parsed(pieces: Sequence[bytes]) -> list[bytes]:
    """The bodies of the answers to these bytes, one packet after the other, on one connection."""
    wire = Open()

    async def talk(protocol: server.GuardedProtocol, transport: Transport) -> None:
        for piece in pieces:
            protocol.data_received(piece)
            await asyncio.sleep(0)
        while protocol.tasks:
            await asyncio.sleep(0)
        for _ in range(3):  # what is written goes out in the next turn
            await asyncio.sleep(0)

    in_protocol(talk, wire)
    return [answer.rpartition(b"\r\n\r\n")[2] for answer in wire.sent.split(b"HTTP/1.1 200 OK")[1:]]


@pytest.mark.promise("upgrade-http-2-ignored")
@pytest.mark.asvs("V4.2.1")
@pytest.mark.parametrize(
    ("sent", "answer"),
    [(SIZED, b"%d" % len(BODY)), (IN_CHUNKS, b"%d" % len(BODY)), (WITHOUT_BODY, b"here"), (WEBSOCKET, b"here")],
    ids=["sized", "in chunks", "without body", "websocket"],
)
def test_an_upgrade_is_ignored_and_its_body_read_however_the_bytes_are_cut(sent: bytes, answer: bytes) -> None:
    """Java's client and `curl --http2` ask for one; the next request of the connection follows."""
    for cut in range(len(sent)):
        assert parsed([sent[:cut], sent[cut:]]) == [answer], sent[:cut]
    assert parsed([sent[at : at + 1] for at in range(len(sent))]) == [answer]
    assert parsed([sent + sent + QUICK + sent]) == [answer, answer, b"here", answer]


@pytest.mark.parametrize(
    "closing",
    [
        SIZED.replace(b"Upgrade,", b"close, Upgrade,"),
        IN_CHUNKS.replace(b"Upgrade,", b"close, Upgrade,"),
        SIZED.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
    ids=["sized", "in chunks", "HTTP/1.0"],
)
def test_the_body_of_an_upgrade_is_read_where_the_connection_is_to_close(port: int, closing: bytes) -> None:
    assert answer_to(port, closing) == (200, b"%d" % len(BODY))
    for cut in range(len(closing)):
        assert parsed([closing[:cut], closing[cut:], SIZED]) == [b"%d" % len(BODY)], closing[:cut]


@pytest.mark.parametrize("field", [b"Trailer: x\r\n", b"Content-Length: 4\r\n", b"Upgrade: h2c\r\n"])
def test_an_upgrade_leads_around_no_limit_of_a_body(port: int, field: bytes) -> None:
    late = IN_CHUNKS.removesuffix(b"\r\n") + field + b"\r\n"
    assert answer_to(port, late)[0] == 400
    pieces = CHUNKED.replace(b"\r\n\r\n", b"\r\n" + H2C + b"\r\n") + b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n"
    assert answer_to(port, pieces)[0] == 400
    twice = SIZED.replace(b"Host", field + b"Content-Length: 4\r\nHost")
    assert answer_to(port, twice)[0] == 400


def head_of(line: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join([line, *fields, b"", b""])


@pytest.mark.promise("upgrade-http-2-ignored")
@pytest.mark.asvs("V4.2.1")
@pytest.mark.parametrize(
    "sent",
    [
        head_of(b"GET /quick HTTP/1.1"),
        head_of(b"GET /quick HTTP/1.1", b"Host: x", b"Host: x"),
        head_of(b"GET /quick HTTP/1.1", b"Host: x", b"Host: y"),
        head_of(b"GET /quick HTTP/1.1", b"Host: x/y"),
        head_of(b"GET /quick HTTP/1.1", b"Host: x, y"),
        head_of(b"GET /quick HTTP/1.0", b"Host: x", b"Host: y"),
        head_of(b"GET /quick HTTP/0.9", b"Host: x"),
        head_of(b"GET /quick HTTP/2.0", b"Host: x"),
        b"GET /quick\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        head_of(b"CONNECT /quick HTTP/1.1", b"Host: x"),
        head_of(b"CONNECT x:443 HTTP/1.1", b"Host: x"),
        head_of(b"POST /body HTTP/1.1", b"Host: x", b"Transfer-Encoding: gzip, chunked") + b"2\r\n{}\r\n0\r\n\r\n",
        head_of(b"POST /body HTTP/1.1", b"Host: x", b"Transfer-Encoding: gzip") + b"{}",
        head_of(b"POST /body HTTP/1.1", b"Host: x", b"TE: gzip, chunked", b"Content-Length: 2") + b"{}",
        head_of(b"POST /body HTTP/1.0", b"Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n",
        head_of(b"POST /body HTTP/1.1", b"Host: x", b"Transfer-Encoding: chunked", b"Content-Length: 2") + b"{}",
    ],
)
def test_a_head_that_a_proxy_could_read_differently_is_refused(
    monkeypatch: pytest.MonkeyPatch, port: int, sent: bytes
) -> None:
    monkeypatch.setattr(server, "LINGER_S", 0.1)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        answers = conversation(connection, [sent + QUICK], is_one=False)
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answers.rpartition(b"\r\n\r\n")[2])["code"] == "parse_error"
    assert answers.count(b"\r\ncontent-length: ") == 1, "what follows is no request"


@pytest.mark.parametrize(
    "fields",
    [(b"Host: x",), (b"Host:",), (b"host: [::1]:8000 ",), (b"Host: x", b"TE: trailers, gzip"), (b"Host: x", b"TE:")],
)
def test_an_ordinary_head_is_taken(port: int, fields: tuple[bytes, ...]) -> None:
    assert answer_to(port, head_of(b"GET /quick HTTP/1.1", *fields))[0] == 200


def test_a_refused_head_takes_no_answer_from_the_request_before_it(port: int) -> None:
    with connected(port) as connection:
        sent = QUICK + head_of(b"GET /quick HTTP/2.0", b"Host: x")
        answers = conversation(connection, [sent], is_one=False)
    assert answers.endswith(b"here")


def test_an_answer_to_http_1_0_has_no_chunks_and_ends_with_its_connection(port: int) -> None:
    def answered(sent: bytes) -> tuple[bytes, bytes]:
        with connected(port) as connection:
            head, _, text = conversation(connection, [sent], is_one=False).partition(b"\r\n\r\n")
        assert b"connection: close" in head
        assert b"transfer-encoding" not in head
        return head, text

    line = b"%b HTTP/1.0\r\n\r\n"
    head, text = answered(line % b"GET /quick")
    assert b"content-length: 4" in head
    assert text == b"here"
    assert answered(line % b"GET /streamed")[1] == b"one two three"
    assert answered(line % b"HEAD /streamed")[1] == b""
    bulk = b"POST /taken HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n{}\n"
    head, text = answered(bulk)
    assert head.startswith(b"HTTP/1.1 200 OK"), "a client of HTTP/1.0 does not wait for 100 Continue"
    assert [*json.loads(text.splitlines()[-1])] == ["summary"]


@pytest.mark.promise("request-line-most-8")
def test_a_trailer_that_does_not_end_is_not_kept(port: int) -> None:
    with connected(port) as connection:
        connection.settimeout(10)
        connection.sendall(CHUNKED + b"2\r\n{}\r\n0\r\nX: ")
        time.sleep(0.3)  # so that the rest comes in a read of its own
        connection.sendall(b"y" * 100_000)
        assert b" 431 " in connection.recv(65_536)


def test_requests_that_are_sent_ahead_are_answered_up_to_a_limit(port: int) -> None:
    with connected(port) as connection:
        connection.sendall(QUICK * 20 + QUICK.replace(b"Host: x", b"Host: x\r\nConnection: close"))
        assert conversation(connection, [], is_one=False).count(b"here") == 21
    with connected(port) as connection:
        assert 1 <= conversation(connection, [QUICK * 1_000], is_one=False).count(b"here") <= 40


def test_bodies_that_are_sent_ahead_are_read_whole(port: int) -> None:
    """Each while the one before is being answered: in one piece, and in two with another request's before it."""
    post = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    last = post.replace(b"Host: x", b"Host: x\r\nConnection: close")
    with connected(port) as connection:
        connection.sendall(QUICK + post % 300 + b"x" * 300 + QUICK + last % 90_000 + b"x" * 10)
        time.sleep(0.1)
        answers = conversation(connection, [b"x" * 89_990], is_one=False)
    assert [part.rpartition(b"\n")[2] for part in answers.split(b"HTTP/1.1")[1:]] == [
        b"here",
        b"300",
        b"here",
        b"90000",
    ]


def test_a_body_without_end_after_its_answer_is_not_taken_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_DISCARDED_BYTES", 1_000_000)
    with connected() as connection:
        connection.sendall(UNENDED)
        with pytest.raises(OSError, match=r"reset|pipe"):
            connection.sendall(b"x" * 100_000_000)


def test_small_pieces_that_come_all_at_once_are_refused(port: int) -> None:
    """Also on a connection that has had a body before, long ago."""
    pieces = CHUNKED + b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n"
    for before in (b"", CHUNKED + b"1\r\nx\r\n0\r\n\r\n"):
        with connected(port) as connection:
            if before:
                connection.sendall(before)
                assert b" 200 " in connection.recv(65_536)
            assert b" 400 " in conversation(connection, [pieces])


@pytest.mark.parametrize("case", ["reads nothing", "reads a little", "the server stops"])
def test_a_client_that_does_not_read_its_last_answer_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """A connection that is closed while something waits to be sent stays open until it is."""
    monkeypatch.setattr(server, "READ_TIMEOUT_S", 60 if case == "the server stops" else 0.1)
    monkeypatch.setattr(server, "STOPPING_S", 0.1)
    monkeypatch.setattr(server, "KEEP_ALIVE_S", 1)

    async def talk(protocol: server.GuardedProtocol, transport: Transport) -> None:
        protocol.data_received(QUICK)
        while not transport.is_closed:
            await asyncio.sleep(0.01)
        assert transport.sent
        if case == "reads a little":  # the buffer fills, and then holds less than the limit
            protocol.pause_writing()
            protocol.resume_writing()
        elif case == "the server stops":
            protocol.shutdown()
        while not transport.is_aborted:
            await asyncio.sleep(0.01)

    in_protocol(talk)


def test_small_pieces_that_come_one_by_one_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_PIECES", 10)

    async def talk(protocol: server.GuardedProtocol, transport: Transport) -> None:
        protocol.data_received(CHUNKED.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        await transport.until(b" 100 ")
        for _ in range(50):
            await asyncio.sleep(0.01)
            protocol.data_received(b"1\r\nx\r\n")
        protocol.data_received(b"0\r\n\r\n")
        await transport.until(b" 200 ")
        assert transport.sent.endswith(b"50")

    in_protocol(talk)


@pytest.mark.promise("service-stops-ends-bulk")
@pytest.mark.parametrize(
    ("sent", "begun"),
    [
        (b"GET /told HTTP/1.1\r\nHost: x\r\n\r\n", b"event: progress"),
        (CHUNKED.replace(b"/body", b"/taken") + b"3\r\n{}\n\r\n", b"VALID"),
    ],
)
def test_an_answer_without_an_end_is_ended_when_the_server_stops(sent: bytes, begun: bytes) -> None:
    with contextlib.ExitStack() as opened:
        with serving(APP) as port:
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            connection.sendall(sent)
            received = b""
            while begun not in received:
                received += connection.recv(65_536)
        while more := connection.recv(65_536):
            received += more
    assert received.endswith(b"0\r\n\r\n")


def test_of_a_bulk_body_nothing_more_is_begun_when_its_client_has_gone() -> None:
    work = Waiting()

    class Noted(BulkAnswer):
        async def __call__(self, *around: Any) -> None:
            await super().__call__(*around)
            work.finished.set()

    async def taken(request: Request) -> Response:
        work.is_gone = request.scope[GONE]
        return Noted(Testers(), work, Plain(), BulkExecutor(), "en")

    sent = b"{}\n" * 20_000
    with serving(Starlette(routes=[Route("/", taken, methods=["POST"])])) as port:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent)
            assert work.begun.wait(30)
        assert work.finished.wait(30)
    assert work.lines <= (MAX_BULK_AHEAD + 1) * MAX_BATCH_LINES
