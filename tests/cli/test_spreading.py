"""How far a long job is, in one line."""

from typing import Any

import pytest

from cli.spreading import duration, line_of
from schemas.job_progress import JobProgress
from schemas.sentence import Sentence

IMPORTS_WAIT = Sentence("Imports wait, and come first.", "Importe warten und gehen vor.")
TOLD: dict[str, Any] = {"job": "j", "parts": 40, "parts_taken": 2, "events": 4_000_000}


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            JobProgress(**TOLD, parts_done=12, events_done=1_200_000, workers=16, eta_s=1_380.0),
            "verify: 12 of 40 parts, 1,200,000 of 4,000,000 events, 16 workers, about 23 min left",
        ),
        (
            JobProgress(**TOLD, parts_done=0, events_done=0, workers=1, eta_s=None, why=IMPORTS_WAIT),
            f"verify: 0 of 40 parts, 0 of 4,000,000 events, 1 worker. {IMPORTS_WAIT}",
        ),
        (
            JobProgress(**TOLD, parts_done=40, events_done=4_000_000, workers=2, eta_s=0.0),
            "verify: 40 of 40 parts, 4,000,000 of 4,000,000 events, 2 workers",
        ),
    ],
)
def test_how_far_a_job_is_stands_in_a_line(told: JobProgress, line: str) -> None:
    assert line_of("verify", told) == line


def test_estimates_are_no_finer_than_they_are() -> None:
    assert [duration(s) for s in (0.2, 50, 600, 90_000)] == [
        "less than a second", "about 50 s", "about 10 min", "about 25.0 h",
    ]  # fmt: skip
