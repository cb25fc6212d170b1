"""How far a long job is, in one line."""

from typing import Any

import pytest

from cli.spreading import line_of
from workers.spreading import Told

TOLD: dict[str, Any] = {"job": "j", "parts": 40, "parts_taken": 2, "events": 4_000_000}


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            Told(**TOLD, parts_done=12, events_done=1_200_000, workers=16, eta_s=1_380.0),
            "verify: 12 of 40 parts, 1,200,000 of 4,000,000 events, 16 workers, about 23 min left",
        ),
        (
            Told(**TOLD, parts_done=0, events_done=0, workers=1, eta_s=None, why="Imports wait, and come first."),
            "verify: 0 of 40 parts, 0 of 4,000,000 events, 1 worker. Imports wait, and come first.",
        ),
        (
            Told(**TOLD, parts_done=40, events_done=4_000_000, workers=2, eta_s=0.0),
            "verify: 40 of 40 parts, 4,000,000 of 4,000,000 events, 2 workers",
        ),
    ],
)
def test_how_far_a_job_is_stands_in_a_line(told: Told, line: str) -> None:
    assert line_of("verify", told) == line
