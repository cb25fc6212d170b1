"""A run that takes more and more memory, or acknowledges less and less, is told; a short one is not judged."""

import os

import pytest

from lab.faults.steadiness import Look, Watch, memory_of, unsteady

MB = 1_000_000


def looks(minutes: int, memory_grows_by: float = 0.0, rate_falls_by: float = 0.0) -> list[Look]:
    """One each half minute: 500 MB at first, 40 a second."""
    acknowledged, made = 0.0, []
    for half in range(minutes * 2 + 1):
        part = half / (minutes * 2)
        made.append(Look(half * 30.0, int(500 * MB * (1 + memory_grows_by * part)), int(acknowledged)))
        acknowledged += 30 * 40 * (1 - rate_falls_by * part)
    return made


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (looks(60), []),
        (looks(60, memory_grows_by=0.2, rate_falls_by=0.2), []),
        (looks(60, memory_grows_by=0.5), ["memory grew from 542 to 710 MB"]),
        (looks(60, rate_falls_by=0.5), ["the rate fell from 36.7 to 23.4 acknowledged a second"]),
        (looks(10, memory_grows_by=5.0, rate_falls_by=1.0), []),
        ([Look(0.0, MB, 0), Look(3600.0, MB, 9)], ["there are not enough looks to judge steadiness"]),
        ([], []),
    ],
)
def test_the_last_third_is_compared_with_the_first(seen: list[Look], said: list[str]) -> None:
    assert [sentence[:12] for sentence in unsteady(seen)] == [sentence[:12] for sentence in said]


def test_each_minute_has_a_line() -> None:
    watch = Watch()
    watch.looks = looks(3)
    assert [line.split() for line in watch.lines()[1:3]] == [["0", "500", "40.0"], ["1", "500", "40.0"]]
    watch.look(os.getpid(), 7)
    assert watch.looks[-1].acknowledged == 7


def test_a_minute_with_one_look_has_a_rate() -> None:
    watch = Watch()
    watch.looks = [Look(60.0 * minute + 10, 500 * MB, 2_400 * minute) for minute in range(3)]
    assert [line.split()[2] for line in watch.lines()[1:]] == ["0.0", "40.0", "40.0"]


def test_the_memory_of_a_tree_that_is_gone_is_none() -> None:
    assert memory_of(2**22 + 1) == 0
    assert memory_of(os.getpid()) > MB
