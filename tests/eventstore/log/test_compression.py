"""Decompression returns the body; an unreadable frame has a reason."""

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from eventstore.log.compression import NotCompressed, compressed, decompressed
from tests.support.make import an_account, encoded

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


@pytest.mark.parametrize("content", [b"", b"no frame", compressed(ACCOUNT)[:-1], compressed(ACCOUNT)[:5]])
def test_what_is_no_whole_frame_is_refused(content: bytes) -> None:
    with pytest.raises(NotCompressed, match="no whole zstd frame"):
        decompressed(content)
    assert decompressed(compressed(b"body")) == b"body"
