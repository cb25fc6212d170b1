"""Copies of checkpoints outside of the database, in a folder and over S3, are kept once and never change."""

from pathlib import Path

import pytest

from eventstore.proof.checkpoints import CheckpointCopies, CopiesUnavailable, LogKey
from tests.support.make import NOON

KEY = LogKey.of("A" * 43)


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.slow)])
def outside(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointCopies:
    if request.param == "s3":
        return CheckpointCopies(f"{request.getfixturevalue('bucket')}/checkpoints")
    return CheckpointCopies((tmp_path / "with a blank" / "checkpoints").as_uri())


def test_copies_are_kept_in_order_and_the_first_of_a_size_stays(outside: CheckpointCopies) -> None:
    assert outside.sizes() == []
    notes = {size: KEY.sign(size, bytes(32), NOON) for size in (9, 10, 1_000_000)}
    for size in (1_000_000, 9, 10):
        outside.keep(size, notes[size])
    outside.keep(9, "another")
    assert outside.sizes() == [9, 10, 1_000_000]
    assert [outside.ends(since=size) for size in (0, 10, 1_000_000, 1_000_001)] == [{0: 1_000_000}] * 4
    assert outside.note(9) == notes[9]
    assert [note for _, note in outside.notes()] == list(notes.values())


@pytest.mark.parametrize(
    "url", ["file:///proc/nothing/here", pytest.param("s3://bucket/prefix", marks=pytest.mark.slow)]
)
def test_a_place_that_takes_nothing_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CopiesUnavailable, match=url.split("//")[0]):
        CheckpointCopies(url).keep(1, "note")
    with pytest.raises(CopiesUnavailable):
        CheckpointCopies(url).sizes()
