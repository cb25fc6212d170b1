"""Processes are killed and suspended while accounts arrive: none is lost and none is created twice."""

import contextlib
import http.client
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from embedded.postgres import MALLOC
from importledger_client.book import book
from lab.faults.world import suspended
from tests.support.bulk import BULK, bulk, ndjson
from tests.support.folders import temporary_folder
from tests.support.make import an_account, encoded
from tests.support.running import RunningService, free_port, is_ready, processed, start_service, wait_for
from tests.support.whole import assert_whole

ACCOUNTS = 120
KILLED_AFTER = 20


@pytest.fixture(scope="module")
def running() -> Iterator[RunningService]:
    """A service that all tests of this module share, so that it must recover from each fault."""
    with temporary_folder() as folder, start_service(folder) as service:
        yield service


@pytest.mark.promise("bulk-request-cut-api")
def test_an_api_that_is_killed_loses_no_account_that_had_a_receipt(running: RunningService) -> None:
    importer = running.importer()
    accounts = [an_account(importer.supplier, number) for number in range(1, ACCOUNTS + 1)]
    [process] = running.processes("api")
    connection = running.connection(60)

    def lines_until_some_have_receipts() -> Iterator[bytes]:
        yield ndjson(*accounts[:-1])
        received = b""
        while received.count(b'"PENDING"') < KILLED_AFTER:
            received += connection.sock.recv(65_536)
        process.send_signal(signal.SIGKILL)
        yield ndjson(accounts[-1])

    headers = {"Authorization": f"Token {importer.api_key}"}
    with contextlib.suppress(OSError):
        connection.request("POST", BULK, lines_until_some_have_receipts(), headers, encode_chunked=True)
    connection.close()
    wait_for(lambda: is_ready(running.base_url), "the api is started again")
    summary = bulk(importer, ndjson(*accounts)).summary
    assert summary is not None
    assert (summary["lines"], summary["refused"]) == (ACCOUNTS, 0)
    assert summary["replayed"] >= KILLED_AFTER
    wait_for(lambda: processed(importer) == ACCOUNTS, "all accounts exist, once each", 120)


@pytest.mark.promise("members-counts-run-stored")
def test_a_run_loses_no_member_when_the_api_is_killed_after_its_receipts(running: RunningService) -> None:
    """The body is still open, so nothing was stored at its end."""
    importer = running.importer()
    accounts = [an_account(importer.supplier, number) for number in range(1, 41)]
    assert bulk(importer, ndjson(*accounts)).statuses == ["PENDING"] * len(accounts)
    [process] = running.processes("api")
    connection = http.client.HTTPConnection(running.base_url.removeprefix("http://"), timeout=60)

    def lines_until_all_have_receipts() -> Iterator[bytes]:
        yield ndjson(*accounts[:-1])
        received = b""
        while received.count(b'"replayed":true') < len(accounts) - 1:
            received += connection.sock.recv(65_536)
        process.send_signal(signal.SIGKILL)
        process.wait()

    headers = {"Authorization": f"Token {importer.api_key}"}
    with contextlib.suppress(OSError):
        connection.request("POST", f"{BULK}?run=again", lines_until_all_have_receipts(), headers, encode_chunked=True)
    connection.close()
    wait_for(lambda: is_ready(running.base_url), "the api is started again")
    [process] = running.processes("api")
    single, _ = importer.request("POST", "/v2/data-import/accounts/?run=again", accounts[-1])
    process.send_signal(signal.SIGKILL)
    assert single.status in (201, 400), "it is a repeat"
    expected = len(accounts) - (single.status == 400)

    def members() -> int:
        path = f"/v2/data-import/runs/{importer.supplier}/again/"
        answer, _ = running.request("GET", path, None, headers)
        return int(answer.body["total"]) if answer.status == 200 else 0

    wait_for(lambda: is_ready(running.base_url), "the api is started again")
    wait_for(lambda: members() >= expected, "all accounts belong to the run")
    assert members() == expected


@pytest.mark.promise("role-ends-signal")
def test_every_role_ends_after_a_signal_while_postgres_and_redis_hang(running: RunningService) -> None:
    roles = [process for role in ("api", "relay", "worker") for process in running.processes(role)]
    [postmaster] = running.processes("postgres")
    with suspended([postmaster, *postmaster.children(), *running.processes("redis")]):
        for process in roles:
            process.terminate()
        _, alive = psutil.wait_procs(roles, timeout=60)
        assert alive == []
    wait_for(lambda: is_ready(running.base_url), "the service is ready again")


def test_a_second_service_on_the_same_folder_is_refused(running: RunningService) -> None:
    second = running.program("up", "--port", str(free_port()), check=False)
    assert second.returncode == 1
    assert "Another service is running on" in second.stderr


def test_its_postgres_keeps_memory_for_the_next_statement(running: RunningService) -> None:
    [postmaster] = running.processes("postgres")
    assert postmaster.environ().items() >= MALLOC.items()


def test_while_postgres_hangs_the_answer_is_503_in_time_and_it_recovers(running: RunningService) -> None:
    importer = running.importer()
    token = {"Authorization": f"Token {importer.client.token()}", "Content-Type": "application/json"}
    importer.client.create(encoded(an_account(importer.supplier, 1)))
    [postmaster] = running.processes("postgres")
    family = [postmaster, *postmaster.children()]
    for process in family:
        process.suspend()
    status = f"/v2/data-import/accounts/{importer.supplier}/x/"
    try:
        body = encoded(an_account(importer.supplier, 2))
        for method, path, sent in (("POST", "/v2/data-import/accounts/", body), ("GET", status, None)) * 2:
            answer, headers = running.request(method, path, sent, token)  # while Postgres still hangs
            assert (answer.status, headers["retry-after"]) == (503, "1")
    finally:
        for process in family:
            process.resume()
    repeated = ("account_import_process_already_imported",)  # what was answered with 503 may have been stored
    wait_for(lambda: importer.client.create(body).codes in ((), repeated), "the service recovers")
    wait_for(lambda: processed(importer) == 2, "and goes on processing", timeout_s=90)


def test_a_supervisor_that_is_killed_takes_its_programs_along_and_the_next_start_works_and_stops_cleanly(
    running: RunningService,
) -> None:
    """The last test, since the service of the others ends here."""
    importer = running.importer()
    assert running.process is not None
    tree = psutil.Process(running.process.pid)
    family = [tree, *tree.children(recursive=True)]
    acknowledged: list[str] = []
    for entry in book(importer.supplier, ACCOUNTS):
        try:
            if importer.client.create(entry.body).status == 201:
                acknowledged.append(entry.external_account_number)
        except OSError:
            break
        if len(acknowledged) == KILLED_AFTER:
            tree.kill()  # while more are under way
    assert not psutil.wait_procs(family, timeout=60)[1]
    assert acknowledged
    folder, port = Path(running.environment["IMPORTLEDGER_DATA_DIR"]), int(running.base_url.rpartition(":")[2])
    with start_service(folder, "--api-processes", "2", port=port) as second:
        assert_whole(second, importer, acknowledged)
        importer.client.close()
        assert second.process is not None
        children = psutil.Process(second.process.pid).children(recursive=True)
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(60) == 0
        assert [child for child in children if child.is_running()] == []
