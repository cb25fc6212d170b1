"""The verbs for users of the console."""

import json
import re

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.user import UserCreated, UserErased, UserRoleChanged, stream_of
from eventstore.log.ledger import Ledger
from projections.auxiliary.user_details import find_user_details
from tests.support.verbs import run_verb

LINK = re.compile(r"^http://127\.0\.0\.1:8000/console/sign-in/[\w-]{43}/$", re.M)


class Cli:
    """The verbs on a test's own database."""

    def __init__(self, database: PostgresUrls) -> None:
        self._environment = {"DATABASE_URL": database.service, "DATABASE_ADMIN_URL": database.admin}

    def __call__(self, *words: str) -> str:
        ended = run_verb(*words, environment=self._environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def fails(self, *words: str) -> str:
        ended = run_verb(*words, environment=self._environment)
        assert ended.returncode != 0
        return ended.stderr


@pytest.fixture
def cli(database: PostgresUrls) -> Cli:
    return Cli(database)


def test_a_user_is_created_changed_and_erased(cli: Cli, ledger: Ledger) -> None:
    cli("supplier", "create", "NW")
    words = ("--organisation", "Nordwind", "--role", "support", "--supplier", "NW")
    output = cli("user", "create", "Anna@Example.org", *words)
    assert LINK.search(output)
    assert "support of Nordwind, and sees NW" in output
    again = cli.fails("user", "create", "anna@example.ORG", *words)
    assert "must not have another user with this address" in again
    assert LINK.search(cli("user", "link", "anna@example.org"))
    elsewhere = ("--organisation", "Süd", "--role", "support", "--supplier", "NW", "--json")
    other = json.loads(cli("user", "create", "anna@example.org", *elsewhere))["user_id"]
    assert f"{other} of Süd" in cli.fails("user", "link", "anna@example.org")
    cli("user", "erase", other, "--yes")
    cli("user", "role", "anna@example.org", "--role", "operator")
    cli("user", "disable", "anna@example.org")
    assert "cannot be done" in cli.fails("user", "link", "anna@example.org")
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
def test_a_user_of_an_organisation_without_keys_sees_the_suppliers_that_are_named(cli: Cli) -> None:
    cli("supplier", "create", "NW")
    made = json.loads(cli("key", "create", "Nordwind", "--supplier", "NW", "--json"))
    assert "sees NW." in cli("user", "create", "a@example.org", "--organisation", "Nordwind", "--role", "auditor")
    cli("key", "revoke", made["api_key"].split("_")[1])
    for organisation in ("Nordwind", "Platform"):
        words = ("user", "create", "b@example.org", "--organisation", organisation, "--role", "operator")
        assert "--supplier must name them" in cli.fails(*words)
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
def test_what_cannot_be_is_refused_with_a_sentence(cli: Cli, words: str, says: str) -> None:
    assert says in cli.fails("user", *words.split())


def test_suppliers_that_cannot_be_read_are_not_taken_away(cli: Cli, ledger: Ledger, database: PostgresUrls) -> None:
    cli("supplier", "create", "NW")
    words = ("--organisation", "Nordwind", "--role", "support", "--supplier", "NW", "--json")
    user_id = json.loads(cli("user", "create", "anna@example.org", *words))["user_id"]
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("DELETE FROM console_user")
    before = ledger.history(stream_of(user_id))
    refusal = cli.fails("user", "role", "anna@example.org", "--role", "operator")
    assert f"The suppliers of {user_id} cannot be read, so nothing was changed" in refusal
    assert ledger.history(stream_of(user_id)) == before


def test_all_users_are_listed_over_several_pages(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.users._PAGE", 2)
    cli("supplier", "create", "NW")
    emails = [f"u{number}@example.org" for number in range(5)]
    for email in emails:
        cli("user", "create", email, "--organisation", "N", "--role", "support", "--supplier", "NW")
    assert [json.loads(line)["email"] for line in cli("user", "list", "--json").splitlines()] == emails
