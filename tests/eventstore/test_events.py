"""One decoder reads all events of the log; for any bytes that it cannot read, the event is `Unreadable`."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.aggregates.import_process import ImportCancelled, ImportStarted
from eventstore.aggregates.supplier import SupplierCreated
from eventstore.events import (
    AGGREGATES,
    NO_METADATA,
    Metadata,
    Recorded,
    Unreadable,
    aggregate_of,
    metadata_of,
    read_event,
    recorded_event,
)
from tests.support.make import NOON
from tests.support.stored_events import STORED, STREAMS, TOPICS
from tests.support.strategies import JSON

EVERY_TOPIC = st.sampled_from(sorted(TOPICS))


def stored(topic: str) -> bytes:
    return (STORED / f"{topic}.json").read_bytes().strip()


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a topic, and a changed state of an event of it."""
    topic = draw(EVERY_TOPIC)
    state = stored(topic)
    if draw(st.booleans()):
        first, last = sorted(draw(st.tuples(*[st.integers(0, len(state))] * 2)))
        return topic, state[:first] + draw(st.binary(max_size=6)) + state[last:]
    members = msgspec.json.decode(state) | draw(st.dictionaries(st.sampled_from(sorted(fields_of(topic))), JSON))
    return topic, msgspec.json.encode(members)


def fields_of(topic: str) -> set[str]:
    return {*TOPICS[topic].__struct_fields__, "metadata"}


STREAM_IDS = st.sampled_from(sorted(STREAMS.values())) | st.text()


@given(stream=STREAM_IDS, topic=EVERY_TOPIC | st.text(), state=st.binary())
def test_whatever_is_stored_is_read_or_unreadable(stream: str, topic: str, state: bytes) -> None:
    event = read_event(stream, topic, state)
    assert isinstance(event, Unreadable) or type(event) is TOPICS[topic]
    assert metadata_of(b'{"metadata":' + state) is not None


@given(damaged())
def test_an_event_of_which_anything_was_changed_is_read_or_unreadable_and_folded(case: tuple[str, bytes]) -> None:
    topic, state = case
    event = read_event(STREAMS[topic], topic, state)
    if not isinstance(event, Unreadable):
        aggregate = aggregate_of(STREAMS[topic])
        aggregate.evolve(aggregate.initial, event)


@given(st.data())
def test_the_events_of_a_kind_can_be_folded_in_any_order(data: st.DataObject) -> None:
    """A reader survives streams whose events are in an order that no decision made."""
    aggregate = data.draw(st.sampled_from(list(AGGREGATES.values())))
    state: Any = aggregate.initial
    for topic in data.draw(st.lists(st.sampled_from(sorted(aggregate.topics)), max_size=8)):
        state = aggregate.evolve(state, read_event(f"{aggregate.prefix}/S/1/x", topic, stored(topic)))


@pytest.mark.parametrize(
    ("stream", "topic", "state", "reason"),
    [
        ("import/S/1", "import_started.v1", b"\xff\xfe", "DecodeError"),
        ("import/S/1", "import_errored.v1", b'{"attempt":1,"code":"\xff","detail":""}', "UnicodeDecodeError"),
        ("import/S/1", "import_started.v1", b'{"z":' + b"[" * 100_000, "RecursionError"),
        ("import/S/1", "import_started.v9", b"{}", "no such topic"),
        ("supplier/S", "import_started.v1", b"{}", "no such topic"),
        ("nothing", "import_started.v1", b"{}", "no such topic"),
        ("import/S", "import_cancelled.v1", b"{}", "must have more parts"),
        (
            "import/S/1",
            "import_started.v1",
            b'{"attempt":1,"worker":1,"lease_until":"2026-11-01T12:00:00"}',
            "timezone",
        ),
        ("import/S/1", "import_processed.v1", b'{"attempt":2147483648,"account_number":""}', "int"),
        ("import/S/1", "import_processed.v1", b'{"attempt":-1,"account_number":""}', "int"),
        ("import/S/1", "import_cancelled.v1", b'{"reason":"a\\\\\\\\\\u0000"}', "must not hold NUL"),
        ("import/S/1", "import_staged.v1", b'{"payload_sha256":"zz","content_sha256":"","payload_bytes":1}', "regex"),
    ],
)
def test_what_is_no_event_of_its_stream_says_why(stream: str, topic: str, state: bytes, reason: str) -> None:
    event = read_event(stream, topic, state)
    assert isinstance(event, Unreadable)
    assert (event.topic, event.state) == (topic, state.decode("utf-8", "replace"))
    assert reason in event.error


def test_text_that_speaks_of_nul_is_read() -> None:
    assert read_event("import/S/1", "import_cancelled.v1", rb'{"reason":"a\\u0000"}') == ImportCancelled(
        reason=r"a\u0000"
    )


def test_an_event_of_another_supplier_than_its_stream_is_unreadable() -> None:
    row = 1, "import/S/1", 1, "import_started.v1", NOON
    state = b'{"attempt":1,"worker":1,"lease_until":"2026-11-01T12:00:00Z"}'
    assert isinstance(recorded_event(*row, "S", "t", None, "0", state).event, ImportStarted)
    assert isinstance(recorded_event(*row, "OTHER", "t", None, "0", state).event, Unreadable)
    assert isinstance(recorded_event(*row, None, "t", None, "0", state).event, Unreadable)


REQUEST = Metadata("delivery-7", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def test_metadata_stands_beside_the_event_s_own_members() -> None:
    event = SupplierCreated()
    plain = Recorded("supplier/S", 1, event, NOON, "S", "t")
    named = Recorded("supplier/S", 1, event, NOON, "S", "t", metadata=REQUEST)
    assert metadata_of(named.state) == REQUEST
    assert metadata_of(plain.state) is NO_METADATA
    assert read_event(named.stream, named.topic, named.state) == event
    assert read_event(plain.stream, plain.topic, plain.state) == event
    assert b"metadata" not in plain.state


def test_what_is_no_metadata_says_nothing() -> None:
    assert metadata_of(b'{"metadata":[1]}') is NO_METADATA
    assert metadata_of(b'{"metadata":{"request_id":\xff}}') is NO_METADATA
