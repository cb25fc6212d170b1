"""Events are shown in words, in both languages, with the names of the users who caused them."""

from typing import Any

import pytest

from console.presentation.names import NAMES
from console.presentation.texts import translations
from console.presentation.timeline import actor, step_of, waits_for
from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.customer_mail import MailFailed
from eventstore.aggregates.disclosure import PersonalDataShown
from eventstore.aggregates.import_process import STATUSES, ImportErrored, ImportRetried
from eventstore.events import Recorded, Unreadable
from tests.support.make import NOON, processed, staged, started


def english(text: str, **values: Any) -> str:
    return text % values


def german(text: str, **values: Any) -> str:
    return str(translations("de").ugettext(text)) % values


def step(event: Event, translate: Any = english) -> Any:
    recorded = Recorded("import/S/1", 2, event, NOON, "S", "worker:3", None, 2, "1")
    return step_of(recorded, translate, {"u_1": "Anna Groß"}, {"r_1": "ticket 7", "fixed": "fixed"})


@pytest.mark.parametrize(
    ("event", "words", "tone"),
    [
        (staged(run="monday"), "Payload received, in run monday", ""),
        (staged(is_dry_run=True), "Payload for a dry run received", ""),
        (started(attempt=6, worker=3), "Processing started, attempt 6", "busy"),
        (processed("A-7"), "Account A-7 created", "good"),
        (Unreadable(topic="x.v9", state="", error=""), "Unreadable event: x.v9", "warn"),
    ],
)
def test_an_event_is_shown_in_words(event: Event, words: str, tone: str) -> None:
    assert (step(event).words, step(event).tone, step(event).by) == (words, tone, "Worker 3")
    assert step(event, german).words != words


def test_codes_reasons_and_details_are_apart_from_words() -> None:
    many = ImportErrored(attempt=1, code="failed", detail="No.", problems=("a@b",))
    assert (step(many).code, step(many).detail) == ("failed", "")
    assert step(ImportErrored(attempt=1, code="failed", detail="No.")).detail == "No."
    mail = MailFailed(attempt=1, code="mailbox_full", detail="anna@example.com has no room")
    assert (step(mail).code, step(mail).detail) == ("mailbox_full", "")
    assert step(ImportRetried(reason="fixed")).reason == "fixed"
    for reason, shown in (("r_1", "ticket 7"), ("r_2", "")):
        assert step(PersonalDataShown(user="u_1", what=("account",), reason=reason)).reason == shown


@pytest.mark.parametrize(
    ("caused_by", "shown"),
    [
        ("user:u_1", "Anna Groß"),
        ("user:u_2", "User u_2"),
        ("operator:root", "root, on the command line"),
        ("sweeper", "The service"),
        ("Nordwind Energie:k1", "Nordwind Energie:k1"),
    ],
)
def test_who_caused_an_event_is_named(caused_by: str, shown: str) -> None:
    assert actor(caused_by, english, {"u_1": "Anna Groß"}) == shown


def test_every_state_has_a_name_and_a_sentence() -> None:
    assert set(NAMES["state_names"]) == set(STATUSES)
    for status in STATUSES:
        assert waits_for(status, "ongoing", "", "", english) != waits_for(status, "ongoing", "", "", german) != ""
    assert "paused" in waits_for("PENDING", "paused", "", "", english)
    assert "noon" in waits_for("PENDING", "ongoing", "noon", "", english)
    assert "noon" in waits_for("IN_PROGRESS", "ongoing", "", "noon", english)
