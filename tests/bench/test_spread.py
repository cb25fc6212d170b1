"""What one and two machines are compared in: every verb that is spread, judged where there are cores enough."""

import pytest

from bench.spread import JOBS, is_met, table

HALF = {(name, count): [4.0 / count, 40.0 / count, 4.2 / count] for name in JOBS for count in (1, 2)}


@pytest.mark.parametrize("verb", ["verify", "replay", "rebuild", "reconcile"])
def test_every_verb_that_is_spread_is_compared(verb: str) -> None:
    compared = [command for command in JOBS.values() if verb in command]
    assert compared
    assert all("--spread" in command for command in compared)


def test_medians_are_told_with_their_ratio() -> None:
    _, *rows = table(HALF)
    assert rows == [f"| `{name}` | 4.2 s | 2.1 s | 0.50 |" for name in JOBS]


@pytest.mark.parametrize(("seconds", "cores", "holds"), [(2.52, 4, True), (2.6, 4, False), (2.6, 3, True)])
def test_one_slow_job_misses_the_bar_where_it_is_judged(seconds: float, cores: int, *, holds: bool) -> None:
    assert is_met(HALF | {("replay", 2): [seconds]}, cores) is holds
