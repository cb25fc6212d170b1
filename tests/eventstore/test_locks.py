"""The advisory locks of the service."""

import re
from collections import Counter
from pathlib import Path

from eventstore.log import locks

ROOT = Path(__file__).parent.parent.parent


def test_every_lock_has_a_number_of_its_own() -> None:
    numbers = Counter(value for name, value in vars(locks).items() if name.isupper())
    assert [number for number, times in numbers.items() if times > 1] == []


def test_nobody_takes_a_lock_by_a_number_that_is_not_in_the_list() -> None:
    for folder in ("api", "cli", "embedded", "eventstore", "projections", "workers"):
        for file in (ROOT / folder).rglob("*.py"):
            if file.name != "locks.py":
                assert not re.search(r"\b701[56]\d{3}\b", file.read_text()), file
