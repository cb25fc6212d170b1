"""Fixtures of tests of projections: an empty log, or one with many kinds of events by the fixture `history`."""

from collections.abc import Iterator
from itertools import count

import pytest

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from tests.support.databases import cloned, drop
from tests.support.eventful_log import eventful_log

__all__ = ["eventful_log"]

_numbers = count(1)


@pytest.fixture
def database(request: pytest.FixtureRequest, postgres: PostgresUrls) -> Iterator[PostgresUrls]:
    """A database of the test's own, cloned from the template or from the eventful log."""
    template = request.getfixturevalue("eventful_log") if "history" in request.fixturenames else "importledger"
    urls = cloned(postgres, f"projected_{next(_numbers)}", template=template)
    yield urls
    drop(urls)


@pytest.fixture
def history(ledger: Ledger) -> Ledger:
    """A log with events for every projection, which all of them have applied."""
    return ledger
