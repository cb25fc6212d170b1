"""Fixtures for tests of workers."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from workers.actors.process_imports import ImportProcessor


@pytest.fixture
def processor(ledger: Ledger) -> ImportProcessor:
    return ImportProcessor(ledger, worker=lambda: 7)


@pytest.fixture
def connection(database: PostgresUrls) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.service, autocommit=True, row_factory=psycopg.rows.dict_row) as opened:
        yield opened
