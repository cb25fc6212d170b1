"""Advisory locks of the service."""

from collections import Counter

import pytest

from eventstore.log import locks
from eventstore.log.group_commit import ANSWER_TIMEOUT_S


def test_every_lock_has_a_number_of_its_own() -> None:
    numbers = Counter(value for name, value in vars(locks).items() if name.isupper())
    assert [number for number, times in numbers.items() if times > 1] == []


@pytest.mark.promise("creates-go-while-new")
def test_whoever_queues_behind_two_waits_for_a_lock_is_still_answered_in_time() -> None:
    assert 1.5 * 2 * locks.WAIT_MS / 1000 < ANSWER_TIMEOUT_S
