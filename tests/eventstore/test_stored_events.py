"""Stored events stay readable: tests/stored_events holds one of each topic and form. Files there never change."""

import msgspec
import pytest

from eventstore.events import read_event
from tests.support.stored_events import STORED, STREAMS, TOPICS

FORMS = sorted(file.stem for file in STORED.glob("*.json"))
"""A topic, or a topic and the name of a later form of it."""


@pytest.mark.parametrize("form", FORMS)
def test_a_stored_event_is_read_and_written_the_same(form: str) -> None:
    topic = ".".join(form.split(".")[:2])
    stored = (STORED / f"{form}.json").read_bytes().strip()
    event = read_event(STREAMS[topic], topic, stored)
    assert type(event) is TOPICS[topic]
    assert msgspec.json.encode(event) == stored


def test_every_topic_has_a_stored_event() -> None:
    assert set(TOPICS) <= set(FORMS)
