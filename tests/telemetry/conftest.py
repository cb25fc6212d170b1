"""Fixtures for metrics: measures of this process, and a connection of the database's owner."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from telemetry.measures import measure_with, measures
from telemetry.prometheus import PrometheusMeasures


@pytest.fixture
def counted() -> Iterator[PrometheusMeasures]:
    before, counting = measures(), PrometheusMeasures("api-1")
    measure_with(counting)
    yield counting
    measure_with(before)


@pytest.fixture
def admin(database: PostgresUrls) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        yield connection
