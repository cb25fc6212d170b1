"""Pauses between attempts are bounded."""

import pytest

from workers.backoff import MAX_BACKOFF_S, backoff


@pytest.mark.parametrize("attempt", range(1, 30))
def test_backing_off_is_bounded(attempt: int) -> None:
    waited = backoff(attempt).total_seconds()
    assert 0 < waited <= MAX_BACKOFF_S
