"""Each process tells one number, and sees the least of the others'."""

import subprocess
import sys

from runtime.shared_counts import ABSENT, SharedCounts, counts_file


def test_the_least_of_the_others_is_seen() -> None:
    with counts_file(3) as file:
        first, second, third = (SharedCounts(file.fileno(), place) for place in range(3))
        assert first.least_of_others() is None
        second.tell(7)
        third.tell(4)
        first.tell(1)
        assert [one.least_of_others() for one in (first, second, third)] == [4, 1, 1]


def test_a_process_that_has_nothing_to_say_does_not_count() -> None:
    with counts_file(2) as file:
        first, second = (SharedCounts(file.fileno(), place) for place in range(2))
        second.tell(0)
        assert first.least_of_others() == 0
        second.tell(ABSENT)
        assert first.least_of_others() is None


def test_processes_that_inherit_the_file_share_it() -> None:
    with counts_file(2) as file:
        fd = file.fileno()
        told = f"from runtime.shared_counts import SharedCounts; SharedCounts({fd}, 1).tell(1 << 40)"
        subprocess.run([sys.executable, "-c", told], pass_fds=(fd,), check=True)
        assert SharedCounts(fd, 0).least_of_others() == 1 << 40
