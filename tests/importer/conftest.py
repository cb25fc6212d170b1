"""Fixtures of an importer of the test's own."""

from collections.abc import Mapping

import pytest

from tests.support.importbook import access_to
from tests.support.running import Importer, RunningService


@pytest.fixture
def importer(service: RunningService) -> Importer:
    return service.importer()


@pytest.fixture
def access(importer: Importer) -> Mapping[str, str]:
    return access_to(importer)
