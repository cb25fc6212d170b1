"""An import counts in the state that it is in, and in no other."""

import pytest

from eventstore.aggregates.aggregate import Event
from eventstore.events import Recorded
from projections.versions.reading import Seen
from projections.views.import_progress import project
from tests.support.make import NOON, cancelled, processed, staged, started


@pytest.mark.parametrize(
    ("event", "previous", "counted"),
    [
        (staged(), None, [("S", "PENDING", 1)]),
        (started(), "import_staged.v1", [("S", "IN_PROGRESS", 1), ("S", "PENDING", -1)]),
        (processed(), "import_started.v1", [("S", "PROCESSED", 1), ("S", "IN_PROGRESS", -1)]),
        (cancelled(), "import_errored.v1", [("S", "CANCELLED", 1), ("S", "ERRORED", -1)]),
    ],
)
def test_one_more_here_is_one_less_there(event: Event, previous: str | None, counted: list[object]) -> None:
    seen = Seen(Recorded("import/S/1", 2, event, NOON, "S", "t", None, 2, "1"), previous)
    assert list(project(seen)) == counted
