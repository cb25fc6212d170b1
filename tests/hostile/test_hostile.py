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

from tests.hostile.catalogue import CHUNKED, HOSTILE, Hostile
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
from tests.support.make import an_account
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


@pytest.mark.promise("gzip-where-supported-415")
@pytest.mark.asvs("V5.2.2")
def test_a_compressed_body_is_of_no_supported_kind(importer: Importer) -> None:
    path = "/v2/data-import/accounts/validate/"
    answer, headers = importer.request("POST", path, b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert (answer.status, answer.body["code"]) == (415, "unsupported_media_type")
    assert {name.lower(): value for name, value in headers.items()}["accept-encoding"] == "identity"
    plain, _ = importer.request("POST", path, an_account(importer.supplier), {"Content-Encoding": "identity"})
    assert plain.status == 200


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
