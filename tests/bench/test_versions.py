"""Two versions are compared by ratios, round by round."""

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


needs_history = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")


@needs_history
def test_the_other_version_is_there_for_as_long_as_it_is_needed() -> None:
    with checked_out("HEAD") as folder:
        assert (folder / "bench" / "service.py").is_file()
    assert not folder.exists()
