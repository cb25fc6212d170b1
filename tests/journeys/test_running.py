"""Roles that share a database, their niceness, the history of an import, and what verbs of operators print."""

import contextlib
import itertools
import json
from pathlib import Path

import pytest

from embedded.postgres import PostgresUrls
from importledger_client.book import book
from tests.support.importing import ImportClient
from tests.support.prepared import prepare
from tests.support.running import (
    NICENESS,
    RunningService,
    cli,
    environment_on,
    free_port,
    is_ready,
    program,
    start_role,
    wait_for,
)

ACCOUNTS = 80


def test_two_apis_and_two_workers_share_one_postgres_and_one_redis(
    database: PostgresUrls, redis_url: str, folder: Path
) -> None:
    environment = environment_on(database, folder, REDIS_URL=redis_url)
    cli("migrate", environment=environment)
    cli("supplier", "create", "NORDWIND", environment=environment)
    made = cli("key", "create", "Nordwind", "--supplier", "NORDWIND", "--json", environment=environment)
    ports = [free_port(), free_port()]
    with contextlib.ExitStack() as roles:
        for port in ports:
            arguments = ("api", "--port", str(port))
            roles.enter_context(start_role(*arguments, environment=environment, log=folder / f"{port}.log"))
        for role in ("relay", "relay", "worker", "worker"):
            roles.enter_context(start_role(role, environment=environment, log=folder / f"{role}.log"))
        for port in ports:
            wait_for(lambda port=port: is_ready(f"http://127.0.0.1:{port}"), "both are ready")  # type: ignore[misc]
        api_key = json.loads(made.stdout)["api_key"]
        first = ImportClient(f"http://127.0.0.1:{ports[0]}", api_key)
        second = ImportClient(f"http://127.0.0.1:{ports[1]}", first.token())  # of the other api
        clients = (first, second)
        for entry, client in zip(book("NORDWIND", ACCOUNTS), itertools.cycle(clients), strict=False):
            assert client.create(entry.body).status == 201
        wait_for(lambda: len(clients[0].imported("NORDWIND").body) == ACCOUNTS, "all are processed", timeout_s=60)
        assert clients[0].imported("NORDWIND") == clients[1].imported("NORDWIND")
        for client in clients:
            client.close()
    assert not (folder / "data").exists(), "nothing embedded was started"


def test_the_demonstration_goes_as_expected(folder: Path) -> None:
    data = folder / "demo"
    data.mkdir(mode=0o711)
    prepare(data)
    options = ("--port", str(free_port()), "--data-dir", str(data))
    shown = program("demo", "--exit", "--accounts", str(ACCOUNTS), *options, environment={})
    assert "PROCESSED" in shown.stdout


@pytest.mark.parametrize("role", ["relay", "worker"])
def test_what_is_done_afterwards_yields_to_intake(service: RunningService, role: str) -> None:
    """When CPU time is short, the service accepts accounts first and creates them later."""
    [api, *_], [process, *_] = service.processes("api"), service.processes(role)
    niceness = min(19, api.nice() + NICENESS)
    wait_for(lambda: process.nice() == niceness, f"the {role} yields")
    autogroup = Path(f"/proc/{process.pid}/autogroup")
    if autogroup.exists():
        wait_for(lambda: autogroup.read_text().split()[-1] == str(niceness), "its session yields")


def test_suppliers_are_listed_with_their_status(service: RunningService) -> None:
    service.cli("supplier", "create", "LISTED")
    assert "exists already" in service.cli("supplier", "create", "LISTED").stdout
    service.cli("supplier", "status", "LISTED", "complete", "--reason", "done")
    listed = [json.loads(line) for line in service.cli("supplier", "list", "--json").stdout.splitlines()]
    [entry] = [line for line in listed if line["code"] == "LISTED"]
    assert (entry["status"], entry["reason"]) == ("complete", "done")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("supplier", "status", "NEVER", "paused"), "no import supplier NEVER"),
        (("key", "create", "a/b", "--supplier", "A"), "no slash"),
        (("key", "create", "Org", "--supplier", "a b"), "must be a supplier code"),
        (("key", "revoke", "nothing"), "There is no key"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(service: RunningService, arguments: tuple[str, ...], says: str) -> None:
    refused = service.cli(*arguments, check=False)
    assert refused.returncode != 0
    assert says in refused.stderr
    assert "Traceback" not in refused.stderr
