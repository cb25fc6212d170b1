"""A failing part of the service is reported by readiness, doctor, console and metrics, and stops no other part."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventstore.log.ledger import Ledger
from projections import INLINE
from tests.support.console import signed_in, words_of
from tests.support.folders import temporary_folder
from tests.support.following import behind
from tests.support.make import an_account, encoded
from tests.support.running import RunningService, processed, start_service, wait_for
from tests.support.whole import admin_url


@pytest.fixture(scope="module")
def running() -> Iterator[RunningService]:
    with temporary_folder() as folder, start_service(folder) as service:
        yield service


@pytest.fixture
def admin(running: RunningService) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(admin_url(running), autocommit=True) as connection:
        yield connection


def named(running: RunningService, cookies: dict[str, str], operator: dict[str, str]) -> dict[str, str]:
    """The report of each place about the whole service, "" for none."""
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    page = urllib.request.Request(f"{running.base_url}/console/system/", headers={"Cookie": cookie})
    with urllib.request.urlopen(page) as answer:
        console = words_of(answer.read().decode())
    scrape = urllib.request.Request(f"{running.base_url}/metrics", headers=operator)
    with urllib.request.urlopen(scrape) as answer:
        lines = answer.read().decode().splitlines()
    found = [json.loads(line) for line in running.cli("doctor", "--json", check=False).stdout.splitlines()]
    ready, _ = running.request("GET", "/readyz")
    return {
        "/readyz": json.dumps(ready.body) if ready.status == 503 else "",
        "doctor": " ".join(line["says"] for line in found if line["check"] == "troubles" and line["state"] == "wrong"),
        "console": console if "has failed since" in console else "",
        "metrics": " ".join(line for line in lines if line.startswith("importledger_troubles{")),
    }


@pytest.mark.promise("part-role-fails-named")
@pytest.mark.asvs("V16.3.4")
def test_what_fails_is_named_everywhere_until_it_works_again(
    running: RunningService, admin: psycopg.Connection[Any]
) -> None:
    importer = running.importer()
    ledger = Ledger(admin_url(running), views=INLINE)
    cookies = signed_in(ledger, role="operator")
    ledger.close()
    operator = running.operator()
    admin.execute("REVOKE INSERT ON throughput FROM importledger_relay")
    assert importer.client.create(encoded(an_account(importer.supplier, 1))).status == 201
    wait_for(lambda: all(named(running, cookies, operator).values()), "it is named everywhere")
    for place, report in named(running, cookies, operator).items():
        assert "projection throughput" in report, place
        assert "permission denied for table throughput" in report or place == "metrics", place
    assert importer.client.create(encoded(an_account(importer.supplier, 2))).status == 201
    wait_for(lambda: processed(importer) == 2, "accounts are created meanwhile")
    wait_for(lambda: behind(admin) == {"throughput"}, "the other projections go on")
    assert admin.execute("SELECT FROM parked_streams").rowcount == 0
    admin.execute("GRANT INSERT ON throughput TO importledger_relay")
    wait_for(lambda: not any(named(running, cookies, operator).values()), "nothing is named any more")
    wait_for(lambda: behind(admin) == set(), "it has gone on by itself")
    assert running.cli("projections", "verify", "throughput").returncode == 0


@pytest.mark.promise("redis-hangs-named-readyz")
def test_a_redis_that_hangs_is_named_while_creates_succeed(running: RunningService) -> None:
    """Readiness reports it and stays 200, and workers log it without a traceback."""
    log = Path(running.environment["IMPORTLEDGER_DATA_DIR"]) / "up.log"
    begin = log.stat().st_size
    importer = running.importer()
    [redis] = running.processes("redis")
    redis.suspend()
    wait_for(lambda: "relay: Redis does not answer" in str(ready(running)), "readiness names it", timeout_s=120)
    accounts = [encoded(an_account(importer.supplier, number)) for number in range(1, 21)]
    assert {importer.client.create(account).status for account in accounts} == {201}
    assert ready(running)["status"] == "ready"
    wait_for(lambda: b"connection error" in log.read_bytes()[begin:], "the worker says so", timeout_s=120)
    redis.resume()
    wait_for(lambda: processed(importer) == 20, "the accounts are created when Redis answers")
    wait_for(lambda: "troubles" not in ready(running), "nothing is named any more")
    assert b'"exception"' not in log.read_bytes()[begin:]


def ready(service: RunningService) -> dict[str, Any]:
    answer, _ = service.request("GET", "/readyz")
    assert isinstance(answer.body, dict)
    return answer.body
