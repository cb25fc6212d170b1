"""One connection cannot stop others: their wait, the CPU time and memory of the process, and the answer are limited.

A selection by default; `make fuzz` (FUZZ_REQUESTS) sends the whole catalogue and applies the limits themselves. The
selection gets twice the limits, since machines may do other work at the same time.
"""

import json
import os
import time
from contextlib import ExitStack

import psutil
import pytest

from tests.hostile.catalogue import CHUNKED, HOSTILE, Hostile, head
from tests.hostile.measure import (
    MAX_ANSWER_BYTES,
    MAX_MEMORY_BYTES,
    MAX_PROCESSOR_S,
    MAX_WAIT_S,
    Harm,
    Processes,
    harm_of_all,
    least_harm,
    many,
)
from tests.hostile.streams import STREAMS
from tests.support.bulk import bulk, ndjson, wait_for_helpers
from tests.support.make import an_account, encoded
from tests.support.running import Importer, RunningService

IS_WHOLE = "FUZZ_REQUESTS" in os.environ
SLACK = 1 if IS_WHOLE else 2

CONNECTIONS = 3
SEVERAL = ("an ordinary account of 10 MiB", "400 lines of many unknown names", "a manifest of many ledgers")


@pytest.fixture(scope="module")
def other(service: RunningService) -> Importer:
    return service.importer()


@pytest.fixture(scope="module")
def process(service: RunningService) -> psutil.Process:
    [process] = service.processes("api")
    return process


@pytest.fixture(scope="module")
def keys(service: RunningService, importer: Importer) -> dict[str, str]:
    """A key of each role that the catalogue has, for the same supplier, which has a run of the name `hostile`."""
    assert bulk(importer, ndjson(an_account(importer.supplier, 9_999)), "?run=hostile").status == 200
    made = service.cli("key", "create", "Testers", "--supplier", importer.supplier, "--role", "support", "--json")
    return {"importer": importer.api_key, "support": json.loads(made.stdout)["api_key"]}


@pytest.fixture(scope="module")
def watched(service: RunningService, importer: Importer, process: psutil.Process) -> Processes:
    """The api process with its helpers, which have started, and all other processes of the service but its servers."""
    wait_for_helpers(importer)
    return Processes([process], service.processes("relay") + service.processes("worker"))


def assert_harmless(seen: Harm, statuses: tuple[int, ...] = (), lines: int = 1) -> None:
    assert not statuses or seen.status in statuses, seen.answer[:500]
    assert seen.waited_s <= MAX_WAIT_S * SLACK
    assert seen.processor_s <= MAX_PROCESSOR_S * lines
    assert seen.memory_bytes <= MAX_MEMORY_BYTES
    assert seen.answered_bytes <= MAX_ANSWER_BYTES


def harm(watched: Processes, importer: Importer, other: Importer, key: str, *sent: Hostile) -> Harm:
    def measured() -> Harm:
        connections = [hostile.sent(importer.supplier, key) for hostile in sent]
        return harm_of_all(importer.service.base_url, watched, connections, other.api_key)

    return least_harm(importer.service.base_url, measured, other.api_key, bearable_s=MAX_WAIT_S * SLACK)


EACH = [hostile for hostile in (*HOSTILE, *STREAMS) if hostile.is_quick or IS_WHOLE]


@pytest.mark.promise("whatever-one-connection-sends", "ndjson-limits-hold-each")
@pytest.mark.asvs("V2.3.2", "V4.3.1", "V15.2.2")
@pytest.mark.api_top_10("API4")
@pytest.mark.parametrize("hostile", EACH, ids=lambda hostile: hostile.name)
def test_one_connection_cannot_stop_the_others(
    watched: Processes, importer: Importer, other: Importer, keys: dict[str, str], hostile: Hostile
) -> None:
    """Each line may cost as much as a request. Memory and the wait of others are limited for all lines together."""
    seen = harm(watched, importer, other, keys[hostile.role], hostile)
    assert_harmless(seen, hostile.statuses, hostile.lines)


@pytest.mark.promise("whatever-one-connection-sends")
@pytest.mark.asvs("V2.4.1")
@pytest.mark.api_top_10("API4")
@pytest.mark.parametrize("name", SEVERAL if IS_WHOLE else SEVERAL[:1])
def test_several_connections_of_one_key_cannot_stop_the_others(
    watched: Processes, importer: Importer, other: Importer, name: str
) -> None:
    """Each may cost what one may; another caller waits for the interpreter among more of them."""
    [hostile] = [hostile for hostile in (*HOSTILE, *STREAMS) if hostile.name == name]
    seen = harm(watched, importer, other, importer.api_key, *[hostile] * CONNECTIONS)
    assert seen.waited_s <= MAX_WAIT_S * 2
    assert seen.memory_bytes <= MAX_MEMORY_BYTES * CONNECTIONS


@pytest.mark.promise("judging-stops-when-answer")
def test_many_unknown_names_are_counted_in_the_answer(importer: Importer) -> None:
    account = an_account(importer.supplier) | {f"unknown_field_{n:08}": "x" for n in range(312_165)}
    answer = importer.client.validate(encoded(account))
    assert (answer.status, answer.body["errors_truncated"]) == (400, True)
    assert len(answer.body["errors"]) == 1_000
    assert answer.body["errors"][-1]["left_out"] == 312_165 - 999
    assert "311166" in answer.body["errors"][-1]["detail"]


@pytest.mark.promise("keys-paths-cut-looks", "undocumented-names-look-like")
def test_a_name_that_is_a_path_is_a_problem_and_no_error(importer: Importer) -> None:
    answer = importer.client.validate(b'{"x": 1, "x.non_field_errors.y": 1}')
    assert answer.status == 400
    assert {"x", "x.non_field_errors.y"} <= {problem["attr"] for problem in answer.body["errors"]}
    assert "errors_truncated" not in answer.body


@pytest.mark.promise("gzip-where-supported-415")
@pytest.mark.asvs("V5.2.2")
def test_a_compressed_body_is_of_no_supported_kind(importer: Importer) -> None:
    path = "/v2/data-import/accounts/validate/"
    answer, headers = importer.request("POST", path, b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert (answer.status, answer.body["code"]) == (415, "unsupported_media_type")
    assert {name.lower(): value for name, value in headers.items()}["accept-encoding"] == "identity"
    plain, _ = importer.request("POST", path, an_account(importer.supplier), {"Content-Encoding": "identity"})
    assert plain.status == 200


@pytest.mark.promise("known-cannot-fill-budget")
def test_token_requests_that_never_end_take_no_room_from_importers(service: RunningService, importer: Importer) -> None:
    host, port = service.base_url.removeprefix("http://").split(":")
    begun = head("POST", "/v1/graphql/", "", "Content-Length: 10000000") + b" " * 30_000
    with ExitStack() as connections:
        for connection in many(begun, 300, (host, int(port))):
            connections.enter_context(connection)
        large = json.dumps(an_account(importer.supplier) | {"sales_channel": " " * 5_000_000}).encode()
        for number in range(1, 6):  # the client's tries are over before a body is cut for its slowness
            assert importer.client.create(encoded(an_account(importer.supplier, number))).status == 201
            assert importer.client.validate(large).status == 400


@pytest.mark.promise("headers-trailers-many-connections")
def test_many_connections_without_a_token_take_little_memory(service: RunningService, process: psutil.Process) -> None:
    host, port = service.base_url.removeprefix("http://").split(":")
    before = process.memory_info().rss
    kinds = [b"GET /livez HTTP/1.1\r\nX: " + b"x" * 30_000, CHUNKED + b"2\r\n{}\r\n0\r\nX: " + b"y" * 30_000]
    with ExitStack() as connections:
        for sent in kinds:
            for connection in many(sent, 200, (host, int(port))):
                connections.enter_context(connection)
        time.sleep(1)
        assert process.memory_info().rss - before < MAX_MEMORY_BYTES
        assert service.request("GET", "/livez")[0].status == 200
