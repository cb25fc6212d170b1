"""The verbs for users of the console, and for keys."""

import json
import re

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.user import UserCreated, UserErased, UserRoleChanged, stream_of
from eventstore.log.ledger import Ledger
from projections.auxiliary.user_details import find_user_details
from tests.support.databases import Admin
from tests.support.verbs import Verbs

LINK = re.compile(r"^http://127\.0\.0\.1:8000/console/sign-in/[\w-]{43}/$", re.M)


def test_a_user_is_created_changed_and_erased(cli: Verbs, ledger: Ledger) -> None:
    cli("supplier", "create", "NW")
    words = ("--organisation", "Nordwind", "--role", "support", "--supplier", "NW")
    output = cli("user", "create", "Anna@Example.org", *words)
    assert LINK.search(output)
    assert "support of Nordwind, and sees NW" in output
    again = cli("user", "create", "anna@example.ORG", *words, code=1)
    assert "must not have another user with this address" in again
    assert LINK.search(cli("user", "link", "anna@example.org"))
    elsewhere = ("--organisation", "Süd", "--role", "support", "--supplier", "NW", "--json")
    other = json.loads(cli("user", "create", "anna@example.org", *elsewhere))["user_id"]
    assert f"{other} of Süd" in cli("user", "link", "anna@example.org", code=1)
    cli("user", "erase", other, "--yes")
    cli("user", "role", "anna@example.org", "--role", "operator")
    cli("user", "disable", "anna@example.org")
    assert "cannot be done" in cli("user", "link", "anna@example.org", code=1)
    cli("user", "enable", "anna@example.org")
    users = [json.loads(line) for line in cli("user", "list", "--json").splitlines()]
    [listed] = [user for user in users if user["user_id"] != other]
    assert (listed["role"], listed["suppliers"], listed["status"]) == ("operator", ["NW"], "active")
    cli("user", "erase", "anna@example.org", "--yes")
    with ledger.connection() as connection:
        assert find_user_details(connection, "anna@example.org") == []
    history = ledger.history(stream_of(listed["user_id"]))
    assert {UserCreated, UserRoleChanged, UserErased} <= {type(recorded.event) for recorded in history}
    assert "nna" not in "".join(recorded.state.decode() for recorded in history)


@pytest.mark.promise("user-sees-suppliers-named")
def test_a_user_of_an_organisation_without_keys_sees_the_suppliers_that_are_named(cli: Verbs) -> None:
    cli("supplier", "create", "NW")
    made = json.loads(cli("key", "create", "Nordwind", "--supplier", "NW", "--json"))
    assert "sees NW." in cli("user", "create", "a@example.org", "--organisation", "Nordwind", "--role", "auditor")
    cli("key", "revoke", made["api_key"].split("_")[1])
    for organisation in ("Nordwind", "Platform"):
        words = ("user", "create", "b@example.org", "--organisation", organisation, "--role", "operator")
        assert "--supplier must name them" in cli(*words, code=1)
    assert len(cli("user", "list", "--json").splitlines()) == 1
    assert "sees all suppliers." in cli(*words, "--supplier", "*")
    assert "is importer." in cli("user", "role", "b@example.org", "--role", "importer", "--supplier", "NW")
    result = json.loads(cli("user", "create", "c@example.org", *words[3:], "--supplier", "*", "--json"))
    assert set(result) == {"user_id", "link", "expires_at"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("create nobody --organisation X --role auditor --supplier *", "This is no e-mail address"),
        ("create a@example.org --organisation X/Y --role auditor", "no slash"),
        ("create a@example.org --organisation X --role auditor --supplier NO", "no import supplier"),
        ("link nobody@example.org", "There is no user with this address"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(cli: Verbs, words: str, says: str) -> None:
    assert says in cli("user", *words.split(), code=1)


def test_a_rate_that_is_not_allowed_is_refused(cli: Verbs) -> None:
    for rate in ("0/s", "fast", "5", "5/m", "100001/s"):
        assert "A rate must be" in cli("key", "create", "Slow", "--supplier", "*", "--rate", rate, code=1)


def test_suppliers_that_cannot_be_read_are_not_taken_away(cli: Verbs, ledger: Ledger, admin: Admin) -> None:
    cli("supplier", "create", "NW")
    words = ("--organisation", "Nordwind", "--role", "support", "--supplier", "NW", "--json")
    user_id = json.loads(cli("user", "create", "anna@example.org", *words))["user_id"]
    admin.execute("DELETE FROM console_user")
    before = ledger.history(stream_of(user_id))
    refusal = cli("user", "role", "anna@example.org", "--role", "operator", code=1)
    assert f"The suppliers of {user_id} cannot be read, so nothing was changed" in refusal
    assert ledger.history(stream_of(user_id)) == before


def test_all_users_are_listed_over_several_pages(cli: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.users._PAGE", 2)
    cli("supplier", "create", "NW")
    emails = [f"u{number}@example.org" for number in range(5)]
    for email in emails:
        cli("user", "create", email, "--organisation", "N", "--role", "support", "--supplier", "NW")
    assert [json.loads(line)["email"] for line in cli("user", "list", "--json").splitlines()] == emails


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
