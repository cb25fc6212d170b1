"""Charts have a bar for each span, also for empty ones."""

from datetime import timedelta

import pytest

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.run import RequestsRefused, RunCounted
from eventstore.events import Recorded
from projections.versions.reading import Seen
from projections.views.throughput import Bar, bars_of, project
from tests.support.make import NOON, dry_run_succeeded, errored, processed, staged

AT = NOON + timedelta(minutes=7, seconds=42)


@pytest.mark.parametrize(
    ("event", "kind", "number"),
    [
        (staged(), "received", 1),
        (processed(), "processed", 1),
        (dry_run_succeeded(), "processed", 1),
        (errored(), "failed", 1),
        (RequestsRefused(since=NOON, counts={"invalid@a": 2, "null@b": 3}), "refused", 5),
        (RunCounted(since=NOON, mode="validate", valid=7, refused=4), "refused", 4),
    ],
)
def test_an_event_counts_in_its_minute_and_in_its_hour(event: Event, kind: str, number: int) -> None:
    seen = Seen(Recorded("import/S/1", 2, event, AT, "S", "t", None, 2, "1"))
    assert list(project(seen)) == [
        ("S", "minute", NOON + timedelta(minutes=7), kind, number),
        ("S", "hour", NOON, kind, number),
    ]


def test_a_chart_ends_now_and_has_a_bar_for_every_span() -> None:
    rows = [(NOON, "received", 3), (NOON + timedelta(minutes=7), "processed", 2), (NOON, "failed", 1)]
    hour = bars_of(rows, "hour", AT)
    assert len(hour) == 60
    assert hour[-1] == Bar(at=NOON + timedelta(minutes=7), processed=2)
    assert hour[-8] == Bar(at=NOON, received=3, failed=1)
    assert sum(bar.received + bar.processed + bar.failed + bar.refused for bar in hour) == 6
    day = bars_of(rows, "day", AT)
    assert (len(day), day[-1]) == (144, Bar(at=NOON, received=3, processed=2, failed=1))
    week = bars_of([(NOON, "refused", 9)], "week", AT)
    assert (len(week), week[-1]) == (168, Bar(at=NOON, refused=9))
