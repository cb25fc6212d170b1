"""Fixtures of an importer with its own supplier and key, and of its access to the service."""

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
