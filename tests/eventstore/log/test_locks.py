"""Advisory locks of the service."""

import re
from collections import Counter

import pytest

from eventstore.log import locks
from eventstore.log.group_commit import ANSWER_TIMEOUT_S
from tests.support.folders import ROOT


def test_every_lock_has_a_number_of_its_own() -> None:
    numbers = Counter(value for name, value in vars(locks).items() if name.isupper())
    assert [number for number, times in numbers.items() if times > 1] == []


@pytest.mark.promise("creates-go-while-new")
def test_whoever_queues_behind_two_waits_for_a_lock_is_still_answered_in_time() -> None:
    assert 1.5 * 2 * locks.WAIT_MS / 1000 < ANSWER_TIMEOUT_S


def test_the_logs_lock_is_taken_for_a_switch_and_for_one_account_and_for_nothing_that_grows_with_the_log() -> None:
    """Besides `append_events`. Creates wait until it is free."""
    taken = [
        str(file.relative_to(ROOT))
        for folder in ("api", "cli", "console", "embedded", "eventstore", "projections", "workers")
        for file in (ROOT / folder).rglob("*.py")
        if re.search(r"advisory\w*lock\w*\(%s[^)]*\)\"[^\n]*locks\.LOG\b", file.read_text())
    ]
    assert sorted(taken) == ["projections/versions/compare.py", "projections/versions/versions.py"]
