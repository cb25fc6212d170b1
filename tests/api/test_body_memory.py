"""Memory for request bodies: each network has a share, and the slowest body is dropped first."""

import http.client
import socket
from collections import Counter
from contextlib import ExitStack
from functools import partial
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from api.http.limits import MAX_ANONYMOUS_BODY_BYTES, MAX_ANONYMOUS_HELD_BYTES, MAX_NETWORK_HELD_BYTES
from api.http.networks import network_of
from api.http.responses import BodyMemory, release
from api.http.status_codes import ApiError
from console.access.transport import Transport
from embedded.postgres import PostgresUrls
from tests.support.make import encoded
from tests.support.running import Importer, RunningService
from tests.support.serving import running

TOKENS = "/v1/graphql/"
OBTAIN = "mutation($key: String!) { obtainToken(input: {organizationSecretKey: $key}) { token } }"
NETWORKS = [f"127.0.{number}.1" for number in range(1, MAX_ANONYMOUS_HELD_BYTES // MAX_NETWORK_HELD_BYTES + 2)]
OF_ONE = MAX_NETWORK_HELD_BYTES // MAX_ANONYMOUS_BODY_BYTES
"""Bodies of one network that there is room for."""


def slow_body(service: RunningService, address: str, forwarded: str = "") -> socket.socket:
    """A connection from an address, or forwarded for one, on which all of a body but its last byte was sent."""
    host, port = service.base_url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=30, source_address=(address, 0))
    head = f"POST {TOKENS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"X-Forwarded-For: {forwarded}\r\n" if forwarded else ""
    connection.sendall(f"{head}Content-Length: {MAX_ANONYMOUS_BODY_BYTES}\r\n\r\n".encode())
    connection.sendall(b" " * (MAX_ANONYMOUS_BODY_BYTES - 1))
    return connection


def token_status(importer: Importer, address: str) -> int:
    """The answer to somebody who buys a token from this address."""
    host, port = importer.service.base_url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30, source_address=(address, 0))
    body = encoded({"query": OBTAIN, "variables": {"key": importer.api_key}})
    connection.request("POST", TOKENS, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert (response.status != 200) or b'"token":"' in response.read()
    connection.close()
    return response.status


@pytest.mark.promise("slow-bodies-strangers-keep")
@pytest.mark.parametrize("addresses", [NETWORKS[:1], NETWORKS], ids=["one network", "more than all room"])
def test_slow_bodies_of_strangers_keep_nobody_from_tokens(shared_database: PostgresUrls, addresses: list[str]) -> None:
    with running(shared_database) as service, ExitStack() as opened:
        importer = service.importer()
        slow = [opened.enter_context(slow_body(service, address)) for address in addresses for _ in range(OF_ONE + 10)]
        slow[0].settimeout(30)
        assert slow[0].recv(1_000).startswith(b"HTTP/1.1 503 "), "the slowest is cut"
        for address in (addresses[0], "127.0.99.1"):
            for _ in range(20):
                assert token_status(importer, address) == 200


def test_bodies_that_a_trusted_proxy_forwards_have_the_share_of_their_client(shared_database: PostgresUrls) -> None:
    def address_of(request: Request) -> str:
        return Transport(request, (ip_network("127.0.0.0/8"),)).address

    with running(shared_database, address_of=address_of) as service, ExitStack() as opened:
        first = opened.enter_context(slow_body(service, "127.0.0.1", "198.51.100.7"))
        slow = [opened.enter_context(slow_body(service, "127.0.0.1", "203.0.113.7")) for _ in range(OF_ONE + 10)]
        assert slow[0].recv(1_000).startswith(b"HTTP/1.1 503 ")
        first.sendall(b" ")
        assert first.recv(1_000).startswith(b"HTTP/1.1 400 "), "it was read to its end, and is no query"


def request_of(address: str) -> Request:
    return Request({"type": "http", "client": (address, 1)})


HOSTS = st.sampled_from([f"10.0.{network}.{host}" for network in range(4) for host in (1, 2)])


@pytest.mark.promise("slow-bodies-strangers-keep")
@given(st.lists(st.tuples(HOSTS, st.integers(1, 40), st.sampled_from(["arriving", "whole", "answered"])), max_size=60))
def test_a_network_holds_its_share_at_most_and_all_together_what_there_is(
    bodies: list[tuple[str, int, str]],
) -> None:
    room = BodyMemory(per_body=40, per_holder=100, total=200, timeout_s=1.0)
    held: dict[int, tuple[str, int, Request]] = {}
    for number, (address, size, state) in enumerate(bodies):
        request = request_of(address)
        if state == "arriving":
            room.held(request).cut = partial(held.__delitem__, number)
        try:
            room.add(request, size)
        except ApiError:
            release(request.scope)
            continue
        held[number] = (network_of(address), size, request)
        if state == "answered":
            release(held.pop(number)[2].scope)
        of_network: Counter[str] = Counter()
        for network, count, _ in held.values():
            of_network[network] += count
        assert max(of_network.values(), default=0) <= 100
        assert of_network.total() <= 200
    for _, _, request in held.values():
        release(request.scope)
    for address in ("10.0.8.1", "10.0.9.1"):
        room.add(request_of(address), 100)  # all of it is free again


def test_a_whole_body_finds_room_among_bodies_that_arrive() -> None:
    room = BodyMemory(per_body=40, per_holder=100, total=200, timeout_s=1.0)
    cut: list[int] = []
    for number in range(8):
        request = request_of(f"10.0.{number % 4}.1")
        held = room.held(request)
        held.cut = partial(cut.append, number)
        room.add(request, 25)
    room.add(request_of("10.0.9.1"), 1)
    assert cut == [0], "the one that has been arriving for longest"
    whole = BodyMemory(per_body=40, per_holder=100, total=100, timeout_s=1.0)
    whole.add(request_of("10.0.0.1"), 100)
    with pytest.raises(ApiError) as refused:
        whole.add(request_of("10.0.9.1"), 1)
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"}), "nothing can be cut"


@pytest.mark.promise("known-cannot-fill-budget")
@pytest.mark.asvs("V5.2.1")
def test_bodies_that_are_too_much_together_are_refused_and_let_go() -> None:
    """Bodies without an answer are held. Beyond the limit further ones get 503, until room is free again."""
    held = BodyMemory(per_body=1_000, total=1_000, timeout_s=1.0)
    requests = [Request({"type": "http"}) for _ in range(3)]
    held.add(requests[0], 600)
    held.add(requests[1], 400)
    with pytest.raises(ApiError) as refused:
        held.add(requests[2], 1)
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
    release(requests[0].scope)
    release(requests[2].scope)
    held.add(requests[2], 600)
    release(requests[1].scope)
    release(requests[2].scope)
    held.add(requests[0], 1_000)
