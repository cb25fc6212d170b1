"""Keys are created and revoked with the rights of the database's owner; an error names what is missing."""

import json

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from tests.support.running import cli

NEEDED = "Set DATABASE_ADMIN_URL"


def keys(database: PostgresUrls) -> list[tuple[str, bool]]:
    with psycopg.connect(database.service) as connection:
        return connection.execute("SELECT key_id, revoked_at IS NOT NULL FROM access_key").fetchall()


@pytest.mark.promise("service-s-role-right")
def test_keys_are_created_and_revoked_with_the_owners_url(database: PostgresUrls) -> None:
    service, owner = {"DATABASE_URL": database.service}, {"DATABASE_ADMIN_URL": database.admin}
    cli("supplier", "create", "S", environment=service)
    create = ("key", "create", "Testers", "--supplier", "S", "--json")
    refused = cli(*create, environment=service, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert NEEDED in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    made = json.loads(cli(*create, environment=service | owner).stdout)
    key_id = made["api_key"].split("_")[1]
    assert keys(database) == [(key_id, False)]
    refused = cli("key", "revoke", key_id, environment=service, check=False)
    assert refused.returncode == 1
    assert NEEDED in refused.stderr
    cli("key", "revoke", key_id, environment=service | owner)
    assert keys(database) == [(key_id, True)]


def test_one_url_is_enough_where_it_is_the_owners(database: PostgresUrls) -> None:
    cli("key", "create", "Testers", "--supplier", "*", environment={"DATABASE_URL": database.admin})
    assert len(keys(database)) == 1


@pytest.mark.parametrize("rate", ["0/s", "fast", "5", "5/m", "100001/s"])
def test_a_rate_that_is_not_allowed_is_refused(database: PostgresUrls, rate: str) -> None:
    environment = {"DATABASE_URL": database.admin}
    refused = cli("key", "create", "Slow", "--supplier", "*", "--rate", rate, environment=environment, check=False)
    assert (refused.returncode, keys(database)) == (1, [])
