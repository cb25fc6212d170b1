"""With durability `replicated`, no answer acknowledges an account before the standby has it."""

import signal
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from embedded.postgres import PostgresUrls
from tests.support.make import an_account, encoded
from tests.support.running import cli, environment_on, free_port, is_ready, start_role, wait_for
from tests.support.standby import cancel_waiting_commits, receiver, required_standby

ACCOUNTS = "/v2/data-import/accounts/"


@pytest.mark.promise("commit-standby-never-acknowledged")
def test_an_account_that_the_primary_alone_has_is_never_acknowledged(database: PostgresUrls, folder: Path) -> None:
    """Its commit has become visible, since its wait for the standby was cancelled."""
    port, received = free_port(), folder / "received"
    received.mkdir()
    environment = environment_on(database, folder, IMPORTLEDGER_DURABILITY="replicated")
    log = folder / "api.log"
    with receiver(database, received) as standby, required_standby(database, "probe") as connection:
        wait_for(lambda: connection.execute("SELECT FROM pg_stat_replication").rowcount == 1, "the standby receives")
        cli("supplier", "create", "NORDWIND", environment=environment)
        made = cli("key", "create", "Nordwind", "--supplier", "NORDWIND", "--json", environment=environment)
        headers = {"Authorization": f"Token {msgspec.json.decode(made.stdout)['api_key']}"}
        url = f"http://127.0.0.1:{port}"
        with (
            start_role("api", "--port", str(port), environment=environment, log=log),
            httpx.Client(base_url=url, headers=headers, timeout=30) as client,
        ):
            wait_for(lambda: is_ready(url), "a create would succeed")
            account, other = an_account("NORDWIND", 1), an_account("NORDWIND", 2)
            assert create(client, other) == 201
            standby.send_signal(signal.SIGSTOP)
            assert create(client, account, "key-1") == 503
            cancel_waiting_commits(connection)
            wait_for(lambda: is_staged(connection, account), "the account is visible")
            assert create(client, account) == 503, "unchanged"
            assert create(client, account, "key-1") == 503, "remembered"
            assert bulk(client, account) == 503, "replayed"
            assert status(client, account) == 503
            standby.send_signal(signal.SIGCONT)
            wait_for(lambda: create(client, account) == 201, "the standby has it")
            assert create(client, account, "key-1") == 201
            assert bulk(client, account) == 200
            assert status(client, account) == 200


def create(client: httpx.Client, account: Any, key: str = "") -> int:
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    return client.post(ACCOUNTS, content=encoded(account), headers=headers).status_code


def bulk(client: httpx.Client, account: Any) -> int:
    answer = client.post(f"{ACCOUNTS}bulk/", content=encoded(account) + b"\n")
    assert answer.status_code != 200 or answer.text.count('"replayed":true') == 1
    return answer.status_code


def status(client: httpx.Client, account: Any) -> int:
    return client.get(f"{ACCOUNTS}NORDWIND/{account['external_account_number']}/").status_code


def is_staged(connection: Any, account: Any) -> bool:
    stream = f"import/NORDWIND/{account['external_account_number']}"
    return bool(connection.execute("SELECT FROM events WHERE stream = %s", (stream,)).rowcount)
