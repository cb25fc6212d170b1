"""The version before and this one run side by side on one database: what either takes in, either processes."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from embedded.postgres import PostgresUrls
from projections import PROJECTIONS
from projections.versioning.build import administrator
from projections.versioning.compare import verify
from tests.support.databases import drop, renamed
from tests.support.former import NoFormerVersion, former_version
from tests.support.importing import ImportClient
from tests.support.make import an_account, encoded
from tests.support.running import cli, free_port, is_ready, start_role, wait_for

SUPPLIER = "NORDWIND"
START_S = 120.0
"""How long six processes may need to start on a busy machine."""
EACH = 8


@pytest.fixture
def former(folder: Path) -> Path:
    try:
        return former_version(folder / "former")
    except NoFormerVersion as error:
        pytest.skip(f"the version before cannot be had: {error}")


@pytest.fixture
def empty(postgres: PostgresUrls) -> Iterator[PostgresUrls]:
    """A database without a schema."""
    urls = PostgresUrls(renamed(postgres.service, "side_by_side"), renamed(postgres.admin, "side_by_side"))
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier("side_by_side")))
    yield urls
    drop(urls)


def create(client: ImportClient, first: int) -> None:
    for number in range(first, first + EACH):
        answer = client.create(encoded(an_account(SUPPLIER, number)))
        assert answer.status == 201, answer


def test_they_take_in_and_process_on_one_database(
    former: Path, empty: PostgresUrls, redis_url: str, folder: Path
) -> None:
    environment = {
        "DATABASE_URL": empty.service,
        "DATABASE_ADMIN_URL": empty.admin,
        "REDIS_URL": redis_url,
        "IMPORTLEDGER_TOKEN_KEY": "a key of the api processes in this test",
        "IMPORTLEDGER_SEALING_KEY": "A" * 43,
        "IMPORTLEDGER_DATA_DIR": str(folder / "data"),
    }

    def as_before(*words: str) -> str:
        command = [sys.executable, "-m", "cli.main", *words]
        of_before = os.environ | environment | {"PYTHONPATH": str(former)}
        ended = subprocess.run(command, cwd=former, env=of_before, capture_output=True, check=False, timeout=300)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.decode()

    as_before("migrate")
    as_before("supplier", "create", SUPPLIER)
    key = json.loads(as_before("key", "create", "Testers", "--supplier", SUPPLIER, "--json"))["api_key"]
    ports = free_port(), free_port()
    clients = [ImportClient(f"http://127.0.0.1:{port}", key) for port in ports]
    with contextlib.ExitStack() as running, contextlib.ExitStack() as creating:

        def start(version: int, role: str, *words: str) -> None:
            log, code = folder / f"{role}-{version}.log", former if version == 0 else None
            until = creating if version == 0 and role != "api" else running
            until.enter_context(start_role(role, *words, environment=environment, log=log, code=code))

        for role, *words in (("api", "--port", str(ports[0])), ("relay",), ("worker",)):
            start(0, role, *words)
        wait_for(lambda: is_ready(f"http://127.0.0.1:{ports[0]}"), "the version before takes accounts", START_S)
        create(clients[0], 1)
        told = cli("upgrade-check", "--json", environment=environment, check=False).stdout
        if not json.loads(told)["can_be_rolled"]:
            wait_for(lambda: len(clients[0].imported(SUPPLIER).body) == EACH, "the first are processed", START_S)
            creating.close()  # as it says: relay and workers stop before, and the api goes on
        cli("migrate", environment=environment)  # while the version before goes on
        create(clients[0], 1 + EACH)
        for role, *words in (("api", "--port", str(ports[1])), ("relay",), ("worker",)):
            start(1, role, *words)
        wait_for(lambda: is_ready(f"http://127.0.0.1:{ports[1]}"), "this version takes accounts as well", START_S)
        create(clients[1], 1 + 2 * EACH)
        create(clients[0], 1 + 3 * EACH)
        wait_for(lambda: len(clients[1].imported(SUPPLIER).body) == 4 * EACH, "all are processed", START_S)
        for client in clients:
            assert (len(client.imported(SUPPLIER).body), client.pending(SUPPLIER).body) == (4 * EACH, [])
            client.close()
    cli("seal", environment=environment)
    assert "DIFFERS" not in cli("verify", "--all", environment=environment).stdout
    versions = [json.loads(line) for line in cli("projections", "--json", environment=environment).stdout.splitlines()]
    for one in versions:
        if one["state"] == "outdated":  # which the version before keeps up in its own form until somebody rebuilds it
            cli("projections", "rebuild", one["name"], environment=environment)
    with administrator(empty.admin) as connection:
        for projection in PROJECTIONS:
            assert verify(empty.admin, connection, projection, limit=3).first == (), projection.name
