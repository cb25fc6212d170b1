"""Verbs on a test's own database."""

import pytest

from embedded.postgres import PostgresUrls
from tests.support.verbs import Verbs


@pytest.fixture
def cli(database: PostgresUrls) -> Verbs:
    return Verbs({"DATABASE_URL": database.service, "DATABASE_ADMIN_URL": database.admin})
