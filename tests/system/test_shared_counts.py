"""Each process writes one number, and reads the smallest of the others."""

import subprocess
import sys

import pytest

from system import shared_counts
from system.shared_counts import SharedCounts, counts_file


def test_the_least_of_the_others_is_seen() -> None:
    with counts_file(3) as file:
        first, second, third = (SharedCounts(file.fileno(), place) for place in range(3))
        assert first.min_of_others() is None
        second.write(7)
        third.write(4)
        first.write(1)
        assert [item.min_of_others() for item in (first, second, third)] == [4, 1, 1]


def test_a_process_that_leaves_does_not_count() -> None:
    with counts_file(2) as file:
        first, second = (SharedCounts(file.fileno(), place) for place in range(2))
        second.write(0)
        assert first.min_of_others() == 0
        second.clear()
        assert first.min_of_others() is None


def test_what_was_told_long_ago_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    with counts_file(2) as file:
        first, second = (SharedCounts(file.fileno(), place) for place in range(2))
        second.write(0)
        monkeypatch.setattr(shared_counts, "FRESH_NS", 0)
        assert first.min_of_others() is None


def test_processes_that_inherit_the_file_share_it() -> None:
    with counts_file(2) as file:
        fd = file.fileno()
        script = f"from system.shared_counts import SharedCounts; SharedCounts({fd}, 1).write(1 << 40)"
        subprocess.run([sys.executable, "-c", script], pass_fds=(fd,), check=True)
        assert SharedCounts(fd, 0).min_of_others() == 1 << 40
