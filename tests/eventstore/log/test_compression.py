"""Decompression returns the body, with and without dictionary; an unreadable frame has a reason."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from eventstore.errors import DamagedInstallation
from eventstore.log.compression import (
    DICTIONARY,
    DICTIONARY_NUMBER,
    NotCompressed,
    UnknownDictionary,
    compressed,
    decompressed,
    verified_dictionary,
)
from importledger_client.book import book
from schemas.account import WrappedAccount
from tests.support.dictionaries import ANOTHER, with_another_dictionary
from tests.support.make import an_account, encoded

EXAMPLES = sorted((Path(__file__).parents[3] / "api" / "examples").glob("*.json"))
ACCOUNT = encoded(an_account("NORDWIND", 1))
MANY = st.integers(0, 40).map(lambda number: b'{"meter_number":"1"}' * number)


@given(st.one_of(st.binary(max_size=2_000), MANY.map(ACCOUNT.__add__)))
@example(b"")
@example(ACCOUNT)
@example(ACCOUNT * 20)
def test_what_was_compressed_comes_back(body: bytes) -> None:
    assert decompressed(compressed(body)) == body


@pytest.mark.parametrize("has_size", [True, False])
def test_a_small_frame_that_becomes_a_large_body_is_refused(has_size: bool) -> None:
    frame = zstandard.ZstdCompressor(write_content_size=has_size).compress(bytes(65 * 1024 * 1024))
    with pytest.raises(NotCompressed):
        decompressed(frame)


def test_a_frame_says_whether_it_needs_the_dictionary() -> None:
    assert zstandard.get_frame_parameters(compressed(ACCOUNT)).dict_id == DICTIONARY_NUMBER
    assert zstandard.get_frame_parameters(compressed(ACCOUNT * 20)).dict_id == 0


def test_an_account_takes_three_quarters_of_the_bytes_at_most() -> None:
    assert len(compressed(ACCOUNT)) < 0.75 * len(zstandard.ZstdCompressor(level=1).compress(ACCOUNT))


def test_what_needs_another_dictionary_says_which_and_leaves_the_next_as_it_is() -> None:
    _, content = with_another_dictionary()
    with pytest.raises(UnknownDictionary, match=str(ANOTHER)):
        decompressed(content)
    assert decompressed(compressed(b"body")) == b"body"


@pytest.mark.parametrize("content", [b"", b"no frame", compressed(ACCOUNT)[:-1], compressed(ACCOUNT)[:5]])
def test_what_is_no_whole_frame_is_refused(content: bytes) -> None:
    with pytest.raises(NotCompressed, match="not a complete zstd frame"):
        decompressed(content)


def test_a_file_that_is_missing_or_was_changed_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / DICTIONARY.name
    with pytest.raises(DamagedInstallation, match="cannot be read: No such file"):
        verified_dictionary(file)
    file.write_bytes(DICTIONARY.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedInstallation, match="was changed after its installation"):
        verified_dictionary(file)


def test_nobody_is_in_the_dictionary() -> None:
    content = DICTIONARY.read_bytes()
    learned = [*(entry.body for entry in book("SUPPLIER", 300, seed=99)), *(file.read_bytes() for file in EXAMPLES)]
    of_contract = "\n".join((encoded(msgspec.json.schema(WrappedAccount)).decode(), *names_in(learned)))
    for body in learned:
        values = {text for text in _texts(msgspec.json.decode(body)) if len(text) > 5 and text not in of_contract}
        assert [text for text in values if re.search(r"[A-Za-z0-9]", text) and text.encode() in content] == []


def _texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for text in value.values():
                yield from _texts(text)
        case list():
            for text in value:
                yield from _texts(text)
        case str():
            yield value


def names_in(bodies: list[bytes]) -> set[str]:
    return {name.decode() for body in bodies for name in re.findall(rb'"(\w+)"\s*:', body)}
