"""Roles that start on a read-only database stay alive, report it, and work once it accepts writes."""

import contextlib
import json
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from embedded.postgres import PostgresUrls
from tests.support.importing import ImportClient
from tests.support.make import an_account, encoded
from tests.support.running import cli, environment_on, free_port, is_ready, start_role, wait_for

START_S = 90.0
"""Longest start of three processes on a busy machine, in seconds."""


@pytest.fixture
def environment(database: PostgresUrls, redis_url: str, folder: Path) -> dict[str, str]:
    return environment_on(database, folder, REDIS_URL=redis_url)


def set_read_only(database: PostgresUrls, *, on: bool) -> None:
    """Make the database read-only or writable, and end all sessions as a failover does."""
    name = Identifier(database.admin.rpartition("@/")[2].partition("?")[0])
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        setting = "SET default_transaction_read_only = on" if on else "RESET default_transaction_read_only"
        connection.execute(SQL("ALTER DATABASE {} " + setting).format(name))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_roles_wait_for_a_node_that_writes_and_go_on_after_it_was_read_only(
    environment: dict[str, str], database: PostgresUrls, folder: Path
) -> None:
    cli("supplier", "create", "NORDWIND", environment=environment)
    made = cli("key", "create", "Nordwind", "--supplier", "NORDWIND", "--json", environment=environment)
    set_read_only(database, on=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        running = {
            role: stack.enter_context(start_role(role, *more, environment=environment, log=folder / f"{role}.log"))
            for role, *more in (("api", "--port", str(port)), ("relay",), ("worker",))
        }
        wait_for(lambda: answer_of(f"{url}/livez") == HTTPStatus.OK, "the process lives", START_S)
        assert answer_of(f"{url}/readyz") == HTTPStatus.SERVICE_UNAVAILABLE
        set_read_only(database, on=False)
        wait_for(lambda: is_ready(url), "a create would succeed", START_S)
        client = ImportClient(url, json.loads(made.stdout)["api_key"])
        create_processed(client, 1)
        set_read_only(database, on=True)
        wait_for(lambda: client.create(encoded(an_account("NORDWIND", 2))).status == 503, "creates are unavailable")
        assert answer_of(f"{url}/readyz") == HTTPStatus.SERVICE_UNAVAILABLE
        set_read_only(database, on=False)
        wait_for(lambda: is_ready(url), "and available again")
        create_processed(client, 2)
        client.close()
        assert all(process.poll() is None for process in running.values()), "no role was started again"


def create_processed(client: ImportClient, number: int) -> None:
    body = encoded(an_account("NORDWIND", number))
    wait_for(lambda: client.create(body).status == HTTPStatus.CREATED, "it is accepted")
    wait_for(lambda: len(client.imported("NORDWIND").body) >= number, "it is processed", START_S)


def answer_of(url: str) -> int:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, timeout=5).status_code
    return 0


@pytest.mark.parametrize("role", ["api", "relay", "worker"])
def test_a_role_that_needs_a_standby_is_refused_without_one(environment: dict[str, str], role: str) -> None:
    arguments = ("--port", str(free_port())) if role == "api" else ()
    ended = subprocess.run(
        [sys.executable, "-m", "cli.main", role, *arguments],
        env=environment | {"IMPORTLEDGER_DURABILITY": "replicated"},
        capture_output=True,
        text=True,
        check=False,
        timeout=START_S,
    )
    assert ended.returncode == 1
    assert "IMPORTLEDGER_DURABILITY is replicated" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) <= 2


@pytest.mark.promise("role-cannot-reach-database")
def test_a_role_that_waited_for_a_database_it_may_not_read_says_so_and_ends(
    environment: dict[str, str], database: PostgresUrls, folder: Path
) -> None:
    set_read_only(database, on=True)
    port, log = free_port(), folder / "api.log"
    with start_role("api", "--port", str(port), environment=environment, log=log) as role:
        wait_for(lambda: answer_of(f"http://127.0.0.1:{port}/livez") == HTTPStatus.OK, "the process waits", START_S)
        with psycopg.connect(database.admin, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("REVOKE SELECT ON events FROM importledger_api, importledger_worker, importledger_relay")
        set_read_only(database, on=False)
        wait_for(lambda: role.poll() is not None, "it ends", START_S)
    assert role.returncode == 1
    assert "importledger: The database does not allow this" in log.read_text()
