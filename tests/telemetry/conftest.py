"""Measures of this process, for tests of metrics."""

from collections.abc import Iterator

import pytest

from telemetry.measures import measure_with, measures
from telemetry.prometheus import PrometheusMeasures


@pytest.fixture
def counted() -> Iterator[PrometheusMeasures]:
    before, counting = measures(), PrometheusMeasures("api-1")
    measure_with(counting)
    yield counting
    measure_with(before)
