"""Compressed bodies of several members or frames are read in bounded pieces; decompression bombs are refused."""

import gzip
import os

import pytest
import zstandard

from api.bulk.inflate import INFLATERS, PIECE_BYTES
from api.http.limits import MAX_INFLATED_BYTES
from api.http.status_codes import ApiError

BODY = b"".join(b'{"a": %d}\n' % n for n in range(50_000))
PACK = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
each_coding = pytest.mark.parametrize("coding", PACK)


@each_coding
@pytest.mark.parametrize("size", [1, 7, 65_536])
def test_several_members_are_one_body(coding: str, size: int) -> None:
    pack, inflater = PACK[coding], INFLATERS[coding]()
    sent = pack(BODY[:9_000]) + pack(b"") + pack(BODY[9_000:])
    pieces = [piece for at in range(0, len(sent), size) for piece in inflater.feed(sent[at : at + size])]
    assert b"".join(pieces) == BODY
    assert inflater.is_whole()


@each_coding
def test_a_body_that_is_cut_is_not_whole_and_garbage_is_refused(coding: str) -> None:
    inflater = INFLATERS[coding]()
    list(inflater.feed(PACK[coding](os.urandom(9_000))[:-3]))
    assert not inflater.is_whole()
    with pytest.raises(ApiError) as refused:
        list(INFLATERS[coding]().feed(b'{"a": 1}\n' * 10))
    assert refused.value.status == 400


@each_coding
def test_a_bomb_is_refused_before_it_takes_memory(coding: str) -> None:
    inflater, bomb = INFLATERS[coding](), PACK[coding](b"\0" * 120_000_000)
    sizes: list[int] = []
    with pytest.raises(ApiError) as refused:
        sizes.extend(len(piece) for at in range(0, len(bomb), 4096) for piece in inflater.feed(bomb[at : at + 4096]))
    assert refused.value.status == 413
    assert all(size <= max(PIECE_BYTES, 16 * 1024 * 1024) for size in sizes)
    assert sum(sizes) < 3 * MAX_INFLATED_BYTES + 500 * len(bomb)


def test_a_window_that_needs_too_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(ApiError):
        list(INFLATERS["zstd"]().feed(compressor.compress(BODY) + compressor.flush()))


@pytest.mark.parametrize("size", [1, 7, 65_536])
def test_zeros_that_pad_gzip_are_left_out(size: int) -> None:
    inflater, sent = INFLATERS["x-gzip"](), gzip.compress(b"x") + b"\0" * 10 + gzip.compress(b"y") + b"\0" * 10
    pieces = [piece for at in range(0, len(sent), size) for piece in inflater.feed(sent[at : at + size])]
    assert b"".join(pieces) == b"xy"
    assert inflater.is_whole()


def test_a_plain_body_passes() -> None:
    assert list(INFLATERS[""]().feed(b"x")) == [b"x"]
    assert INFLATERS[""]().is_whole()
