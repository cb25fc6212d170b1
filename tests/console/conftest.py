"""Fast password hashing for tests (a real hash is slow on purpose), and browsers on a test's own database."""

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from console.access import passwords
from console.settings import ConsoleSettings
from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from tests.support.console import App, Browser, Visit, console_app, visitor, visits


@pytest.fixture(autouse=True)
def passwords_are_hashed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use cheap parameters. `test_passwords.py` tests those of the service."""
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
def settings() -> ConsoleSettings | None:
    """Settings of the console. Files of tests may have others."""
    return None


@pytest.fixture
def app(database: PostgresUrls, settings: ConsoleSettings | None) -> Iterator[App]:
    with console_app(database, settings=settings) as opened:
        yield opened


@pytest.fixture
def stranger(app: App) -> Iterator[Browser]:
    """A browser of somebody who has not signed in."""
    with visitor(app) as browser:
        yield browser


@pytest.fixture
def visit(app: App, ledger: Ledger) -> Iterator[Visit]:
    with visits(app, ledger) as opened:
        yield opened


@pytest.fixture
def support(visit: Visit) -> Browser:
    return visit("support")


@pytest.fixture
def operator(visit: Visit) -> Browser:
    return visit("operator")


@pytest.fixture
def auditor(visit: Visit) -> Browser:
    return visit("auditor")
