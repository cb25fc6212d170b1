"""Keys are created and revoked with the rights of the database's owner; an error names what is missing."""

import json

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from tests.support.verbs import Verbs

NEEDED = "Set DATABASE_ADMIN_URL"


def keys(database: PostgresUrls) -> list[tuple[str, bool]]:
    with psycopg.connect(database.service) as connection:
        return connection.execute("SELECT key_id, revoked_at IS NOT NULL FROM access_key").fetchall()


@pytest.mark.promise("service-s-role-right")
def test_keys_are_created_and_revoked_with_the_owners_url(cli: Verbs, database: PostgresUrls) -> None:
    of_service, of_owner = Verbs({"DATABASE_URL": database.service}), cli
    of_service("supplier", "create", "S")
    create = ("key", "create", "Testers", "--supplier", "S", "--json")
    refused = of_service(*create, code=1)
    assert (NEEDED in refused, len(refused.splitlines())) == (True, 1)
    key_id = json.loads(of_owner(*create))["api_key"].split("_")[1]
    assert keys(database) == [(key_id, False)]
    assert NEEDED in of_service("key", "revoke", key_id, code=1)
    of_owner("key", "revoke", key_id)
    assert keys(database) == [(key_id, True)]


def test_one_url_is_enough_where_it_is_the_owners(database: PostgresUrls) -> None:
    Verbs({"DATABASE_URL": database.admin})("key", "create", "Testers", "--supplier", "*")
    assert len(keys(database)) == 1


def test_a_rate_that_is_not_allowed_is_refused(cli: Verbs, database: PostgresUrls) -> None:
    for rate in ("0/s", "fast", "5", "5/m", "100001/s"):
        cli("key", "create", "Slow", "--supplier", "*", "--rate", rate, code=1)
    assert keys(database) == []
