"""Fixtures of an importer with its own supplier and key, and of its access to the service."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.support.importbook import Verb, access_to, importbook
from tests.support.running import Importer, RunningService


@pytest.fixture
def importer(service: RunningService) -> Importer:
    return service.importer()


@pytest.fixture
def access(importer: Importer) -> Mapping[str, str]:
    return access_to(importer)


@pytest.fixture
def verb(tmp_path: Path, access: Mapping[str, str]) -> Verb:
    """A verb of importbook in a folder of its own, with access to the service."""
    return partial(importbook, at=tmp_path, access=access)
