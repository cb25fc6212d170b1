"""A remembered answer is named by a digest of its request's name, and its own digest is in the event."""

import json

from eventstore.log.answers import Answer, command_id_of, with_answer_digest

ANSWER = Answer("name", b"digest", 201, b"{}")


def test_whatever_differs_makes_another_digest() -> None:
    others = [
        Answer("other", b"digest", 201, b"{}"),
        Answer("name", b"other", 201, b"{}"),
        Answer("name", b"digest", 200, b"{}"),
        Answer("name", b"digest", 201, b"{ }"),
    ]
    assert len({ANSWER.sha256, *(other.sha256 for other in others)}) == 5


def test_an_event_carries_the_digest_as_its_last_member() -> None:
    assert json.loads(with_answer_digest(b"{}", ANSWER)) == {"answer_sha256": ANSWER.sha256}
    assert list(json.loads(with_answer_digest(b'{"attempt":1}', ANSWER)).items()) == [
        ("attempt", 1),
        ("answer_sha256", ANSWER.sha256),
    ]


def test_the_id_says_nothing_that_an_importer_chose() -> None:
    name = "Nordwind POST /v2/data-import/accounts/ Erika"
    assert "Erika" not in command_id_of(name)
    assert command_id_of(name) == command_id_of(name) != command_id_of(f"{name} ")
