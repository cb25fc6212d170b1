"""Tokens of steps: who is admitted with one, and until when."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from starlette.requests import Request

from api.access.auth import Authenticator
from api.access.directory import Directory, Key
from api.access.rate_limit import RateLimit
from api.access.step_keys import StepKeys, may_call
from api.http.database import reading_pool
from console.books.writing import Books
from embedded.postgres import PostgresUrls
from eventstore.aggregates.user import ChangeUserRole, DisableUser
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.auxiliary.books import Reach
from workers.operations import change_user, create_user, new_details

AUTHORITY = AuthorityKey("a" * 32)


class Running(msgspec.Struct, frozen=True):
    """A step that runs."""

    database: PostgresUrls
    owner: Ledger
    books: Books
    reach: Reach
    book: str
    step: str
    token: str

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.database.admin, autocommit=True) as connection:
            connection.execute(statement.encode(), {"step": self.step})

    def key(self, token: str = "", authority: AuthorityKey = AUTHORITY) -> Key | None:
        """Return the key that the api admits with this token [default: that of the step]."""

        async def admitted() -> Key | None:
            async with reading_pool(self.database.roles["api"], size=2, is_for_read=True) as pool:
                directory = Directory(pool)
                steps = StepKeys(pool, directory, authority)
                return await Authenticator(directory, steps, b"k" * 32, RateLimit(None)).key_of_secret(
                    token or self.token
                )

        return asyncio.run(admitted())


@pytest.fixture
def running(database: PostgresUrls, owner: Ledger) -> Iterator[Running]:
    api = Ledger(database.roles["api"], views=INLINE)
    user = new_details("anna@stadtwerke.example", "Anna", "Stadtwerke")
    create_user(owner, user, "operator", ["ACME"], by="t")
    reach = Reach(organisation="Stadtwerke", suppliers=["ACME"], user_id=user.user_id)
    books = Books(api, AUTHORITY)
    book = books.create(reach, "ACME", "go-live")
    books.write_text(reach, book, "book.ndjson", "{}\n")
    step = books.start(reach, book, "push", {"files": "book.ndjson"})
    with psycopg.connect(database.admin, autocommit=True) as connection:
        [mac] = connection.execute("SELECT mac FROM book_steps").fetchone() or [""]
    token = f"ils_{step}_{AUTHORITY.mac('book step token', mac)}"
    started = Running(database, owner, books, reach, book, step, token)
    assert started.key() is None, "the step only waits"
    started.execute("UPDATE book_steps SET state = 'running' WHERE step = %(step)s")
    yield started
    api.close()


def test_a_running_step_has_the_rights_of_an_importer_of_its_supplier(running: Running) -> None:
    key = running.key()

    assert key is not None
    assert (key.organisation, key.role, key.reach, key.key_id) == (
        "Stadtwerke",
        "importer",
        frozenset({"ACME"}),
        running.step,
    )


ENDINGS: dict[str, Callable[[Running], Any]] = {
    "the step has ended": lambda it: it.execute("UPDATE book_steps SET state = 'ended'"),
    "the step is paused": lambda it: it.execute("UPDATE book_steps SET state = 'paused'"),
    "the token has expired": lambda it: it.execute("UPDATE book_steps SET expires_at = now() - interval '1 s'"),
    "the expiry was moved": lambda it: it.execute("UPDATE book_steps SET expires_at = now() + interval '9 days'"),
    "the supplier was changed": lambda it: it.execute("UPDATE books SET supplier = 'ELSE'"),
    "the organisation was changed": lambda it: it.execute("UPDATE books SET organisation = 'ELSE'"),
    "the kind was changed": lambda it: it.execute("UPDATE book_steps SET kind = 'rehearse'"),
    "the arguments were changed": lambda it: it.execute("UPDATE book_steps SET arguments = '{}'"),
    "another user holds it": lambda it: it.execute("UPDATE book_steps SET holder = 'u_boss'"),
    "the book was erased": lambda it: it.books.erase(it.reach, it.book),
    "the user was disabled": lambda it: change_user(it.owner, it.reach.user_id, DisableUser(), by="t"),
    "the user lost the role": lambda it: change_user(
        it.owner, it.reach.user_id, ChangeUserRole(role="auditor", suppliers=("ACME",)), by="t"
    ),
    "the user lost the supplier": lambda it: change_user(
        it.owner, it.reach.user_id, ChangeUserRole(role="operator", suppliers=("ELSE",)), by="t"
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_token_is_refused_when(running: Running, ending: str) -> None:
    assert running.key() is not None
    ENDINGS[ending](running)

    assert running.key() is None


def test_a_token_that_the_api_has_not_made_is_refused(running: Running) -> None:
    forged = f"ils_{running.step}_{'0' * 64}"

    assert running.key(forged) is None
    running.execute("UPDATE book_steps SET mac = repeat('0', 64)")
    assert running.key(f"ils_{running.step}_{AUTHORITY.mac('book step token', '0' * 64)}") is None
    assert running.key(authority=AuthorityKey("b" * 32)) is None


BULK, TOTALS = "/v2/data-import/accounts/bulk/", "/v2/data-import/runs/ACME/go/totals/cancel/"


@pytest.mark.parametrize(
    ("method", "path", "query", "kinds"),
    [
        ("GET", "/v2/data-import/accounts/ACME/1/", "", {"push", "rehearse", "errors", "reconcile"}),
        ("POST", BULK, "mode=create&run=go", {"push"}),
        ("POST", BULK, "mode=dry_run", {"rehearse"}),
        ("POST", BULK, "", set()),
        ("POST", BULK, "mode=dry_run&mode=create", set()),
        ("POST", "/v2/data-import/accounts/", "", set()),
        ("PUT", "/v2/data-import/accounts/ACME/1/", "", set()),
        ("POST", TOTALS, "", {"reconcile"}),
    ],
)
def test_a_step_makes_only_the_requests_of_its_kind(method: str, path: str, query: str, kinds: set[str]) -> None:
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": []}

    found = {kind for kind in ("push", "rehearse", "errors", "reconcile") if may_call(kind, Request(scope))}

    assert found == kinds
