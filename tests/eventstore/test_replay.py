"""A replay of decided events finds nothing; events that would be decided differently are found."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore.aggregates import customer_mail, owner_task, post_account, supplier
from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.import_process import ImportErrored, ImportProcessed, stream_of
from eventstore.errors import Refused
from eventstore.events import Recorded, aggregate_of, read_event
from eventstore.replay import Replay
from tests.support.commands import COMMANDS
from tests.support.make import DIGEST, LEASE_UNTIL, NOON, postponed, processed, staged, started
from tests.support.stored_events import STORED, STREAMS, TOPICS


def recorded(stream: str, version: int, event: Event, seconds: int = 0) -> Recorded:
    at = NOON + timedelta(seconds=seconds)
    return Recorded(stream, version, event, at, "S", "t", None, version, "0")


def history(stream: str, *events: Event) -> list[Recorded]:
    return [recorded(stream, version, event, version) for version, event in enumerate(events, 1)]


def test_after_an_event_that_cannot_be_read_nothing_of_its_stream_is_decided_again() -> None:
    unreadable = read_event("import/S/1", "import_started.v9", b"{}")
    events = history(stream_of("S", "1"), staged(), unreadable, processed())
    others = history(stream_of("S", "2"), staged(), started())
    replay = Replay()
    [found] = replay.divergences([*events, *others])
    assert (found.position, found.says) == (2, "cannot be read: streams of this kind have no such topic")
    assert replay.state_of(stream_of("S", "1")) is replay.state_of(stream_of("S", "9")) is None
    assert (replay.state_of(stream_of("S", "2")).status, replay.streams) == ("IN_PROGRESS", 2)


@given(st.lists(COMMANDS, max_size=25))
def test_what_was_decided_is_decided_again(commands: list[Any]) -> None:
    stream = stream_of("S", "1")
    events: list[Recorded] = []
    aggregate = aggregate_of(stream)
    state = aggregate.initial
    for seconds, command in enumerate(commands):
        try:
            event = aggregate.decide(command, state, NOON + timedelta(seconds=seconds))
        except Refused:
            continue
        if event is not None:
            events.append(recorded(stream, len(events) + 1, event, seconds))
            state = aggregate.evolve(state, event)
    replay = Replay()
    assert list(replay.divergences(events)) == []
    assert replay.events == len(events)


REQUESTED = customer_mail.MailRequested(account_number="A-1", payload_sha256=DIGEST, language="de")
IMPORTED = post_account.RecordImported(
    account_number="A-1", payload_sha256=DIGEST, content_sha256="c", cancellation_sha256="n", imported_at=NOON
)
CANCELLED = post_account.RecordCancellationChanged(
    account_number="A-1", payload_sha256=DIGEST, cancellation_sha256="y", is_cancelled=True, imported_at=NOON
)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        ("supplier/S", [supplier.SupplierCreated(), supplier.SupplierStatusChanged(status="paused")]),
        ("delivery-note/S/1/x", [IMPORTED, CANCELLED]),
        (
            "owner-task/t",
            [
                owner_task.OwnerTaskRequested(kind="heal", arguments={}, user="u"),
                owner_task.OwnerTaskStarted(attempt=1),
                owner_task.OwnerTaskFinished(),
            ],
        ),
        (
            "customer-mail/S/1",
            [
                REQUESTED,
                customer_mail.MailStarted(attempt=1, worker=1, lease_until=LEASE_UNTIL),
                customer_mail.MailPostponed(attempt=1, code="smtp_unavailable", due_at=NOON),
                customer_mail.MailFailed(attempt=1, code="attempts_exhausted"),
                replace(REQUESTED, account_number="A-2"),
                customer_mail.MailStarted(attempt=2, worker=1, lease_until=LEASE_UNTIL),
                customer_mail.MailPostponed(attempt=2, code="smtp_unavailable", due_at=NOON),
                customer_mail.MailFailed(attempt=2, code="attempts_exhausted"),
            ],
        ),
        (
            stream_of("S", "1"),
            [
                staged(),
                started(),
                postponed(),
                started(attempt=2),
                postponed(attempt=2),
                ImportErrored(
                    attempt=2,
                    code="attempts_exhausted",
                    detail="Processing was given up after 2 attempts. Retry it when the cause is fixed.",
                ),
            ],
        ),
    ],
)
def test_histories_of_other_kinds_are_decided_again(stream: str, events: list[Event]) -> None:
    assert list(Replay().divergences(history(stream, *events))) == []


@pytest.mark.parametrize("topic", TOPICS)
def test_every_stored_event_can_be_asked_for(topic: str) -> None:
    event = read_event(STREAMS[topic], topic, (STORED / f"{topic}.json").read_bytes().strip())
    list(Replay().divergences([recorded(STREAMS[topic], 1, event)]))


def test_what_would_be_decided_otherwise_is_found() -> None:
    stream = stream_of("S", "1")
    twice = history(stream, staged(), started(), processed("A-1"), processed("A-2"))
    [found] = Replay().divergences(twice)
    assert (found.position, found.stream) == (4, stream)
    assert found.says.startswith("ImportProcessed would be refused: ")
    stale = history(stream, staged(), started(), ImportProcessed(attempt=7, account_number="A-1", created_at=NOON))
    assert [d.position for d in Replay().divergences(stale)] == [3]
    again = history(stream, staged(), started(), started())
    assert [d.says for d in Replay().divergences(again)] == ["ImportStarted would not follow"]
    skipped = history(stream, staged(), started(attempt=2))
    [found] = Replay().divergences(skipped)
    assert found.says == "ImportStarted would follow, with another outcome than ImportStarted"
    dry = history(stream, staged(is_dry_run=True), started(), processed())
    [found] = Replay().divergences(dry)
    assert found.says == "DryRunSucceeded would follow, with another outcome than ImportProcessed"


def test_a_gap_is_found_and_a_stream_without_its_beginning_is_counted() -> None:
    stream = stream_of("S", "1")
    events = history(stream, staged(), started(), processed())
    [found] = Replay().divergences([events[0], events[2]])
    assert "follows version" in found.says
    replay = Replay()
    assert list(replay.divergences(events[1:])) == []
    assert replay.partial == {stream}
