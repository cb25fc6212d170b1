"""The criteria of `make failover`, without machines."""

from random import Random

import pytest

from lab.failover.gaps import Measured, longest_gap, number_within


def measured(gap_s: float, manager_s: float | None, alone_s: float | None = None) -> Measured:
    return Measured("kill primary", {"api1": 0.1, "api2": gap_s}, manager_s, 100, alone_s)


def test_the_longest_gap_begins_with_the_fault_and_ends_with_the_window() -> None:
    times = [0.0, 1.0, 2.0, 9.0, 10.0, 20.0]
    assert longest_gap(times, 1.5, 10.5) == 7.0
    assert longest_gap(times, 2.5, 9.5) == 6.5
    assert longest_gap(times, 10.5, 19.0) == 8.5
    assert longest_gap([], 3.0, 5.0) == 2.0


def test_no_gap_is_longer_than_its_window_or_shorter_than_its_share() -> None:
    random = Random(1)
    for _ in range(200):
        times = sorted(random.uniform(0, 100) for _ in range(random.randrange(50)))
        begins, ends = sorted(random.uniform(0, 100) for _ in range(2))
        gap, number = longest_gap(times, begins, ends), number_within(times, begins, ends)
        assert (ends - begins) / (number + 1) <= gap + 1e-9 <= ends - begins + 2e-9


@pytest.mark.parametrize(
    ("gap_s", "manager_s", "alone_s", "is_missed"),
    [
        (25.0, 20.0, None, False),
        (25.1, 20.0, None, True),
        (0.9, None, 1.0, False),
        (1.1, None, 1.0, True),
        (1.1, 20.0, 1.0, True),
        (5.1, None, None, True),
    ],
)
def test_the_worst_api_is_held_to_the_bar(
    gap_s: float, manager_s: float | None, alone_s: float | None, is_missed: bool
) -> None:
    found = measured(gap_s, manager_s, alone_s)
    assert found.gap_s == gap_s
    assert found.is_missed is is_missed
    assert ("MISSED" in found.line) is is_missed


def test_a_line_names_fault_gap_and_manager() -> None:
    line = measured(21.25, 19.5).line
    assert line.startswith("kill primary ")
    assert "gap  21.2 s (api1 0.1 s, api2 21.2 s)" in line
    assert "manager 19.5 s" in line
    assert line.endswith("100 acknowledged  ok")
