"""Events are told in words, in both languages, with who did it."""

from collections.abc import Callable
from typing import Any

import pytest

from console.presentation.texts import translations
from console.presentation.timeline import STATE_NAMES, actor, nth, step_of, waits_for
from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.disclosure import PersonalDataShown
from eventstore.aggregates.import_process import STATUSES, ImportErrored, ImportRetried, SubjectErased
from eventstore.events import Recorded, Unreadable
from tests.support.make import NOON, cancelled, dry_run_succeeded, errored, postponed, processed, staged, started

Say = Callable[..., str]


def say_in(language: Any) -> Say:
    def say(text: str, **values: Any) -> str:
        told = translations(language).ugettext(text)
        return told % values if values else told

    return say


ENGLISH, GERMAN = say_in("en"), say_in("de")


def step(event: Event, by: str = "worker:3", say: Say = ENGLISH) -> Any:
    recorded = Recorded("import/S/1", 2, event, NOON, "S", by, None, 2, "1")
    return step_of(recorded, say, {"u_1": "Anna Groß"}, {"r_1": "ticket 7"})


@pytest.mark.parametrize(
    ("event", "words", "tone"),
    [
        (staged(), "It was sent", ""),
        (staged(run="monday"), "It was sent, in the run monday", ""),
        (staged(is_dry_run=True), "It was sent, for a dry run", ""),
        (started(attempt=2, worker=3), "Worker 3 took it up, second attempt", "busy"),
        (started(attempt=6, worker=3), "Worker 3 took it up, attempt 6", "busy"),
        (postponed(), "The attempt ended without an outcome and is repeated later", "warn"),
        (processed("A-7"), "The account A-7 was created", "good"),
        (errored(), "It failed", "bad"),
        (dry_run_succeeded(), "The dry run succeeded: the account could be created", "good"),
        (cancelled(), "It was cancelled", "warn"),
        (SubjectErased(erased_at=NOON), "The person was erased: payloads, key and platform records are gone", "warn"),
        (Unreadable(topic="x.v9", state="", error=""), "An event that this version cannot read: x.v9", "warn"),
    ],
)
def test_what_happened_is_said_in_words(event: Event, words: str, tone: str) -> None:
    told = step(event)
    assert (told.words, told.tone, told.by) == (words, tone, "Worker 3")
    assert step(event, say=GERMAN).words != words


def test_problems_are_counted_and_codes_are_told() -> None:
    one = ImportErrored(attempt=1, code="failed", detail="No.", problems=("a@b",))
    assert (step(one).words, step(one).code, step(one).detail) == ("It failed, for one problem", "failed", "")
    two = ImportErrored(attempt=1, code="failed", detail="No.", problems=("a@b", "a@c"))
    assert step(two, say=GERMAN).words == "Der Import ist an 2 Problemen gescheitert"
    assert step(errored()).detail == "No."


def test_reasons_are_told_apart_from_words() -> None:
    assert step(ImportRetried(reason="mended")).reason == "mended"
    assert step(PersonalDataShown(user="u_1", what=("account",), reason="r_1")).reason == "ticket 7"
    assert step(PersonalDataShown(user="u_1", what=("account",), reason="r_2")).reason == ""


@pytest.mark.parametrize(
    ("caused_by", "shown"),
    [
        ("user:u_1", "Anna Groß"),
        ("user:u_2", "User u_2"),
        ("operator:root", "root, on the command line"),
        ("worker:7", "Worker 7"),
        ("sweeper", "The service"),
        ("Nordwind Energie:k1", "Nordwind Energie:k1"),
    ],
)
def test_who_did_it_is_named_as_people_name_them(caused_by: str, shown: str) -> None:
    assert actor(caused_by, ENGLISH, {"u_1": "Anna Groß"}) == shown


def test_every_state_has_a_name_and_says_what_it_waits_for() -> None:
    assert set(STATE_NAMES) == set(STATUSES)
    for status in STATUSES:
        assert waits_for(status, "ongoing", "", "", ENGLISH) != waits_for(status, "ongoing", "", "", GERMAN) != ""
    assert "paused" in waits_for("PENDING", "paused", "", "", ENGLISH)
    assert "noon" in waits_for("PENDING", "ongoing", "noon", "", ENGLISH)
    assert "noon" in waits_for("IN_PROGRESS", "ongoing", "", "noon", ENGLISH)
    assert nth(1, GERMAN) == "erster Versuch"
