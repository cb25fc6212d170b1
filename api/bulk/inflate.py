"""Decompressing a body that is still coming in, a bounded piece at a time.

Several gzip members or zstd frames, one after the other, are one body. What grows out of all proportion is refused
before it takes memory or time.
"""

import zlib
from collections.abc import Iterator
from typing import Protocol

import zstandard

from api.http.limits import MAX_INFLATED_BYTES, MAX_INFLATED_RATIO, ZSTD_WINDOW_BYTES
from schemas.sentence import Sentence

PIECE_BYTES = 1024 * 1024
ZSTD_FEED_BYTES = 512
"""A zstd block of four bytes can become 128 KiB: so much is fed at once that 16 MiB come out at most."""


class _NotTaken(Exception):
    """A body that is not decompressed further; `detail` says why."""

    def __init__(self, detail: Sentence) -> None:
        super().__init__(detail)
        self.detail = detail


class NotDecodable(_NotTaken):
    """The body is not what its Content-Encoding says."""


class Bomb(_NotTaken):
    """The body grows out of all proportion when it is decompressed."""


class Inflater(Protocol):
    """Takes compressed bytes piece by piece, and gives the decompressed ones."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that these bytes add, each of bounded size. Raises NotDecodable, Bomb."""

    def is_whole(self) -> bool:
        """Whether the input ends where a body may end."""


class Plain:
    """A body that is not compressed."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def is_whole(self) -> bool:
        return True


class Gzip:
    """Gzip members, one after the other; zeros that pad the end are left out."""

    def __init__(self) -> None:
        self._measure = _Measure()
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._is_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._measure.took(len(data))
        while data:
            if not self._is_begun and self._measure.given and not (data := data.lstrip(b"\0")):
                return
            self._is_begun = True
            try:
                piece = self._member.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise NotDecodable(_not_valid("gzip", error)) from error
            if piece:
                self._measure.gave(len(piece))
                yield piece
            if self._member.eof:
                data = self._member.unused_data
                self._member, self._is_begun = zlib.decompressobj(zlib.MAX_WBITS | 16), False
            else:
                data = self._member.unconsumed_tail

    def is_whole(self) -> bool:
        return not self._is_begun


class Zstd:
    """Zstandard frames, one after the other."""

    def __init__(self) -> None:
        self._measure = _Measure()
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        self._frame = self._decompressor.decompressobj()
        self._is_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._measure.took(len(data))
        rest = memoryview(data)
        while rest:
            part, rest = rest[:ZSTD_FEED_BYTES], rest[ZSTD_FEED_BYTES:]
            while part:
                self._is_begun = True
                try:
                    piece = self._frame.decompress(part)
                except zstandard.ZstdError as error:
                    raise NotDecodable(_not_valid("zstd", error)) from error
                if piece:
                    self._measure.gave(len(piece))
                    yield piece
                part = memoryview(self._frame.unused_data)
                if self._frame.eof:
                    self._frame, self._is_begun = self._decompressor.decompressobj(), False

    def is_whole(self) -> bool:
        return not self._is_begun


class _Measure:
    """Counts the bytes before and after decompression, and refuses a body that grows too much."""

    def __init__(self) -> None:
        self.taken = 0
        self.given = 0

    def took(self, count: int) -> None:
        self.taken += count

    def gave(self, count: int) -> None:
        self.given += count
        if self.given > MAX_INFLATED_BYTES + MAX_INFLATED_RATIO * self.taken:
            raise Bomb(
                Sentence(
                    f"The body becomes more than {MAX_INFLATED_RATIO} times as large when it is decompressed.",
                    f"Der Inhalt wird beim Entpacken mehr als {MAX_INFLATED_RATIO}-mal so groß.",
                )
            )


def _not_valid(coding: str, error: Exception) -> Sentence:
    return Sentence(f"The body is not valid {coding}: {error}.", f"Der Inhalt ist kein gültiges {coding}.")


INFLATERS: dict[str, type[Plain] | type[Gzip] | type[Zstd]] = {
    "": Plain,
    "identity": Plain,
    "gzip": Gzip,
    "x-gzip": Gzip,
    "zstd": Zstd,
}
"""The decoder for each value of Content-Encoding."""
