"""Compression of bodies with zstd."""

import threading

import zstandard

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
"""Bytes of a decompressed body; no request is longer. A frame with more is refused, so that it fills no memory."""
_LEVEL = 1  # higher levels are slower and save few bytes


class NotCompressed(ValueError):
    """The content is not a whole zstd frame, or is too large when decompressed."""


def compressed(body: bytes) -> bytes:
    """Return the body as a zstd frame."""
    return _own.compressor.compress(body)


def decompressed(content: bytes) -> bytes:
    """Return the body of a frame. Raises NotCompressed."""
    try:
        if zstandard.frame_content_size(content) > MAX_DECOMPRESSED_BYTES:
            raise NotCompressed(f"it has more than {MAX_DECOMPRESSED_BYTES} bytes")
        return _own.decompressor.decompress(content, max_output_size=MAX_DECOMPRESSED_BYTES)
    except zstandard.ZstdError as error:
        raise NotCompressed("it is no whole zstd frame") from error


class _Own(threading.local):
    """Compressors of each thread. Two threads must not use one at the same time."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_own = _Own()
