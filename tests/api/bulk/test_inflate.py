"""Compressed bodies are read a bounded piece at a time, members and frames as one; bombs are refused."""

import gzip
import os

import pytest
import zstandard

from api.bulk.inflate import PIECE_BYTES, Bomb, Gzip, NotDecodable, Plain, Zstd
from api.http.limits import MAX_INFLATED_BYTES

BODY = b"".join(b'{"a": %d}\n' % n for n in range(50_000))
Kind = type[Gzip] | type[Zstd]


def packed(kind: Kind, body: bytes) -> bytes:
    return gzip.compress(body, 6) if kind is Gzip else zstandard.ZstdCompressor().compress(body)


@pytest.mark.parametrize("kind", [Gzip, Zstd])
@pytest.mark.parametrize("size", [1, 7, 65_536])
def test_several_members_are_one_body(kind: Kind, size: int) -> None:
    sent = packed(kind, BODY[:9_000]) + packed(kind, b"") + packed(kind, BODY[9_000:])
    inflater = kind()
    got = b"".join(piece for at in range(0, len(sent), size) for piece in inflater.feed(sent[at : at + size]))
    assert got == BODY
    assert inflater.is_whole()


@pytest.mark.parametrize("kind", [Gzip, Zstd])
def test_a_body_that_is_cut_is_not_whole(kind: Kind) -> None:
    inflater = kind()
    list(inflater.feed(packed(kind, os.urandom(9_000))[:-3]))
    assert not inflater.is_whole()


@pytest.mark.parametrize("kind", [Gzip, Zstd])
def test_garbage_is_not_decodable(kind: Kind) -> None:
    with pytest.raises(NotDecodable):
        list(kind().feed(b'{"a": 1}\n' * 10))


@pytest.mark.parametrize("kind", [Gzip, Zstd])
def test_a_bomb_is_refused_before_it_takes_memory(kind: Kind) -> None:
    inflater = kind()
    bomb = packed(kind, b"\0" * 120_000_000)
    sizes: list[int] = []
    with pytest.raises(Bomb):
        sizes.extend(len(piece) for at in range(0, len(bomb), 4096) for piece in inflater.feed(bomb[at : at + 4096]))
    assert all(size <= max(PIECE_BYTES, 16 * 1024 * 1024) for size in sizes)
    assert sum(sizes) < 3 * MAX_INFLATED_BYTES + 500 * len(bomb)


def test_a_window_that_needs_too_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=1)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(NotDecodable):
        list(Zstd().feed(compressor.compress(BODY) + compressor.flush()))


def test_a_plain_body_passes() -> None:
    assert list(Plain().feed(b"x")) == [b"x"]
    assert Plain().is_whole()


def test_zeros_that_pad_gzip_are_left_out() -> None:
    inflater = Gzip()
    assert b"".join(inflater.feed(gzip.compress(b"x") + b"\0" * 10)) == b"x"
    assert inflater.is_whole()
