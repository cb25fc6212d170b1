"""Two versions that are measured at once are told as ratios, round by round."""

import pytest

from bench.versions import ROOT, checked_out, table


def test_ratios_are_those_of_the_same_round() -> None:
    rounds = [
        [{"api": 100.0, "generator": 40.0, "redis": 0.0}, {"api": 50.0, "generator": 40.0, "redis": 0.0}],
        [{"api": 300.0, "generator": 40.0, "redis": 0.0}, {"api": 270.0, "generator": 40.0, "redis": 0.0}],
        [{"api": 200.0, "generator": 40.0, "redis": 0.0}, {"api": 120.0, "generator": 40.0, "redis": 0.0}],
    ]
    assert table("v1", rounds).splitlines() == [
        "| processor µs an account | v1 | here | ratio, median | from | to |",
        "|---|---|---|---|---|---|",
        "| api | 200 | 120 | 0.60 | 0.50 | 0.90 |",
        "| generator | 40 | 40 | 1.00 | 1.00 | 1.00 |",
        "| service | 200 | 120 | 0.60 | 0.50 | 0.90 |",
    ]


def test_a_kind_of_process_that_one_version_does_not_have_costs_it_nothing() -> None:
    rounds = [[{"api": 100.0, "bell": 20.0}, {"api": 90.0, "ringer": 6.0}]]
    assert table("v1", rounds).splitlines()[2:] == [
        "| api | 100 | 90 | 0.90 | 0.90 | 0.90 |",
        "| bell | 20 | 0 | 0.00 | 0.00 | 0.00 |",
        "| service | 120 | 96 | 0.80 | 0.80 | 0.80 |",
    ]


needs_history = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")


@needs_history
def test_the_other_version_is_there_for_as_long_as_it_is_needed() -> None:
    with checked_out("HEAD") as folder:
        assert (folder / "bench" / "service.py").is_file()
    assert not folder.exists()


@needs_history
def test_a_version_that_is_not_there_is_told() -> None:
    with pytest.raises(SystemExit, match="no version v0-never"), checked_out("v0-never"):
        pass
