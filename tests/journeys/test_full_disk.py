"""A full disk: reads continue, and creates work again when space is free."""

import contextlib
import itertools
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore.log.ledger import Ledger
from lab.faults.disk import NotMountable, fill, small_disk
from lab.faults.world import DataConnections
from projections import INLINE
from tests.support.console import COOKIE, new_session, new_user
from tests.support.importing import ImportClient
from tests.support.make import an_account, encoded
from tests.support.running import (
    Importer,
    RunningService,
    free_port,
    processed,
    start_role,
    start_service,
    wait_for,
)
from tests.support.whole import admin_url

SIZE_MB = 400
CREATES = 200


@contextlib.contextmanager
def on_a_small_disk(folder: Path) -> Iterator[tuple[RunningService, Path]]:
    with contextlib.ExitStack() as stack:
        try:
            disk = stack.enter_context(small_disk(folder / "disk", size_mb=SIZE_MB))
        except NotMountable as error:
            pytest.skip(str(error))
        yield stack.enter_context(start_service(disk)), disk


@pytest.mark.promise("full-disk-ends-process")
def test_a_full_disk_ends_no_process_and_leaves_reads_and_the_console(folder: Path) -> None:
    with on_a_small_disk(folder) as (service, disk):
        importer, operator = service.importer(), service.operator()
        first = an_account(importer.supplier, 1)
        assert importer.client.create(encoded(first)).status == 201
        wait_for(lambda: processed(importer) == 1, "the account exists")
        pids = {role: [process.pid for process in service.processes(role)] for role in ("api", "relay", "worker")}
        signed_in = {"Cookie": f"{COOKIE}={session_of_a_user(service)}"}
        ballast = fill(disk / "ballast")
        statuses = statuses_of_creates(service, importer)
        assert set(statuses[-CREATES // 2 :]) == {503}
        assert set(statuses) <= {201, 503}
        assert importer.client.status(importer.supplier, first["external_account_number"]).status == 200
        assert service.raw("GET", "/livez")[0] == 200
        assert service.raw("GET", "/console/sign-in/")[0] == 200
        for page in ("/console/", "/console/imports/", "/console/system/"):
            assert service.raw("GET", page, signed_in)[0] == 200, page
        assert b"importledger_requests_total" in read(f"{service.base_url}/metrics", operator)
        answer, _ = service.request("GET", "/readyz")
        assert (answer.status, "disk" in answer.body["detail"]) == (503, True)
        assert pids == {role: [process.pid for process in service.processes(role)] for role in pids}
        assert_an_api_elsewhere_names_the_reason(service, importer, folder)
        assert pids == {role: [process.pid for process in service.processes(role)] for role in pids}
        ballast.unlink()
        wait_for(lambda: service.raw("GET", "/readyz")[0] == 200, "the service is ready again")
        acknowledged = 1 + statuses.count(201)
        assert importer.client.create(encoded(an_account(importer.supplier, CREATES + 10))).status == 201
        wait_for(lambda: processed(importer) > acknowledged, "what was acknowledged exists")
        assert pids == {role: [process.pid for process in service.processes(role)] for role in pids}


def statuses_of_creates(
    service: RunningService, importer: Importer, *, first: int = 2, count: int = CREATES
) -> list[int]:
    with contextlib.closing(ImportClient(service.base_url, importer.api_key, tries=1)) as client:
        accounts = (an_account(importer.supplier, number) for number in range(first, first + count))
        return [client.create(encoded(account)).status for account in accounts]


def assert_an_api_elsewhere_names_the_reason(service: RunningService, importer: Importer, folder: Path) -> None:
    """Send accounts to another api on the same database until its `/readyz` names the reason.

    It may do so from its start on, or only when the space is used that Postgres has freed meanwhile.
    """
    port, connections = free_port(), DataConnections(service)
    environment = {"DATABASE_URL": connections.database_url, "IMPORTLEDGER_DATA_DIR": str(folder / "elsewhere")}
    environment |= {"IMPORTLEDGER_TOKEN_KEY": "k" * 40}
    numbers = itertools.count(2 * CREATES, 20)
    with start_role("api", "--port", str(port), environment=environment, log=folder / "elsewhere.log"):
        elsewhere = RunningService(f"http://127.0.0.1:{port}", environment, None)

        def is_named() -> bool:
            assert set(statuses_of_creates(elsewhere, importer, first=next(numbers), count=20)) <= {201, 503}
            answer, _ = elsewhere.request("GET", "/readyz")
            return bool(answer.body.get("detail") == "The disk of the database is full.")

        wait_for(lambda: answers(elsewhere.base_url), "the other api answers")
        wait_for(is_named, "the other api names the reason")


def answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        return read(f"{url}/livez", {}) != b""
    return False


def session_of_a_user(service: RunningService) -> str:
    ledger = Ledger(admin_url(service), views=INLINE)
    try:
        return new_session(ledger, new_user(ledger, role="operator"))
    finally:
        ledger.close()


def read(url: str, headers: dict[str, str]) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return bytes(answer.read())
