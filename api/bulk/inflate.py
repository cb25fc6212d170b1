"""Decompression of a body that is still arriving, a bounded piece at a time.

Several gzip members or zstd frames, one after the other, are one body. A body that grows out of proportion is refused
before it takes memory or time.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import zstandard

from api.http.limits import MAX_INFLATED_BYTES, MAX_INFLATED_RATIO, ZSTD_WINDOW_BYTES
from api.http.status_codes import ApiError
from schemas.sentence import Sentence

PIECE_BYTES = 1024 * 1024
ZSTD_FEED_BYTES = 512
"""Compressed bytes per step. A zstd block of 4 bytes can become 128 KiB, so a step returns at most 16 MiB."""


class Inflater(Protocol):
    """Decoder of a body that arrives in pieces."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded pieces, each of bounded size. Raises ApiError 400 for invalid data, 413 for a bomb."""

    def is_whole(self) -> bool:
        """Return True if a body may end here: no member or frame is unfinished."""


class Plain:
    """Decoder of a body that is not compressed."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def is_whole(self) -> bool:
        return True


class _Members:
    """Decoder of members or frames, one after the other. Skips zeros that pad the end of gzip."""

    def __init__(
        self, coding: str, new_member: Callable[[], Any], step: Callable[[Any, memoryview], tuple[bytes, int]]
    ) -> None:
        """`new_member` returns a decoder of one member. `step` decodes with it, and returns a piece and the number of
        bytes that it did not read.
        """
        self._coding = coding
        self._is_padded = coding == "gzip"
        self._new_member = new_member
        self._step = step
        self._member: Any = None
        self._received = self._produced = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._received += len(data)
        remaining = memoryview(data)
        while remaining:
            if self._is_padded and self._member is None and self._produced:
                remaining = memoryview(bytes(remaining).lstrip(b"\0"))
                if not remaining:
                    return
            self._member = self._member or self._new_member()
            try:
                piece, unread = self._step(self._member, remaining)
            except (zlib.error, zstandard.ZstdError) as error:
                detail = Sentence(
                    f"The body must be valid {self._coding}: {error}.", f"Der Inhalt muss gültiges {self._coding} sein."
                )
                raise ApiError(400, detail, code="parse_error") from error
            remaining = remaining[len(remaining) - unread :]
            if self._member.eof:
                self._member = None
            if piece:
                self._refuse_bomb(len(piece))
                yield piece

    def is_whole(self) -> bool:
        return self._member is None

    def _refuse_bomb(self, size: int) -> None:
        self._produced += size
        if self._produced > MAX_INFLATED_BYTES + MAX_INFLATED_RATIO * self._received:
            detail = Sentence(
                f"A compressed body must not become more than {MAX_INFLATED_RATIO} times as large.",
                f"Ein komprimierter Inhalt darf höchstens {MAX_INFLATED_RATIO}-mal so groß werden.",
            )
            raise ApiError(413, detail, headers={"Connection": "close"})


def _gzip_step(member: Any, data: memoryview) -> tuple[bytes, int]:
    return member.decompress(data, PIECE_BYTES), len(member.unconsumed_tail) + len(member.unused_data)


def _zstd_step(frame: Any, data: memoryview) -> tuple[bytes, int]:
    part = data[:ZSTD_FEED_BYTES]
    return frame.decompress(part), len(data) - len(part) + len(frame.unused_data)


def gzip() -> Inflater:
    return _Members("gzip", lambda: zlib.decompressobj(zlib.MAX_WBITS | 16), _gzip_step)


def zstd() -> Inflater:
    return _Members("zstd", zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES).decompressobj, _zstd_step)


INFLATERS: dict[str, Callable[[], Inflater]] = {
    "": Plain, "identity": Plain, "gzip": gzip, "x-gzip": gzip, "zstd": zstd,
}  # fmt: skip
"""The decoder for each value of Content-Encoding."""
