"""The kept examples of every event's stored form."""

from pathlib import Path

from eventstore.events import AGGREGATES

STORED = Path(__file__).parent.parent / "stored_events"
TOPICS = {topic: event for aggregate in AGGREGATES.values() for topic, event in aggregate.topics.items()}
STREAMS = {topic: f"{aggregate.prefix}/S/1/x" for aggregate in AGGREGATES.values() for topic in aggregate.topics}
"""A stream that an event of each topic may stand in."""
