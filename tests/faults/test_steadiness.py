"""A run with growing memory or falling rate is reported. A short run is not assessed."""

import pytest

from lab.faults.steadiness import Sample, steadiness_findings

MB = 1_000_000


def samples(minutes: int, memory_grows_by: float = 0.0, rate_falls_by: float = 0.0) -> list[Sample]:
    """One each half minute: 500 MB at first, 40 a second."""
    acknowledged, made = 0.0, []
    for half in range(minutes * 2 + 1):
        part = half / (minutes * 2)
        made.append(Sample(half * 30.0, int(500 * MB * (1 + memory_grows_by * part)), int(acknowledged)))
        acknowledged += 30 * 40 * (1 - rate_falls_by * part)
    return made


@pytest.mark.parametrize(
    ("seen", "sentences"),
    [
        (samples(60), []),
        (samples(60, memory_grows_by=0.2, rate_falls_by=0.2), []),
        (samples(60, memory_grows_by=0.5), ["memory grew from 542 to 710 MB"]),
        (samples(60, rate_falls_by=0.5), ["the rate fell from 36.7 to 23.4 acknowledged a second"]),
        (samples(10, memory_grows_by=5.0, rate_falls_by=1.0), []),
        ([Sample(0.0, MB, 0), Sample(3600.0, MB, 9)], ["there are not enough looks to judge steadiness"]),
        ([], []),
    ],
)
def test_the_last_third_is_compared_with_the_first(seen: list[Sample], sentences: list[str]) -> None:
    assert [sentence[:12] for sentence in steadiness_findings(seen)] == [sentence[:12] for sentence in sentences]
