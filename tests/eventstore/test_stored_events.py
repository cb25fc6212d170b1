"""Events once written stay readable: tests/stored_events holds one of each topic, added and never edited."""

from pathlib import Path

import msgspec
import pytest

from eventstore.events import AGGREGATES, read_event

STORED = Path(__file__).parent.parent / "stored_events"
TOPICS = {topic: event for aggregate in AGGREGATES.values() for topic, event in aggregate.topics.items()}


@pytest.mark.parametrize("topic", TOPICS)
def test_a_stored_event_is_read_and_written_the_same(topic: str) -> None:
    stored = (STORED / f"{topic}.json").read_bytes().strip()
    event = read_event(topic, stored)
    assert type(event) is TOPICS[topic]
    assert msgspec.json.encode(event) == stored
