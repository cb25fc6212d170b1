"""Importers' bytes, kept as received beside the log: zstd-compressed, under (stream, SHA-256)."""

import hashlib
import threading
from collections.abc import Iterable
from typing import Any

import msgspec
import zstandard
from psycopg import Connection
from psycopg.rows import tuple_row

_LEVEL = 1  # 3 is a quarter slower and saves 3 % of the bytes

SELECT_PAYLOADS = """
SELECT stream, sha256, content
FROM payloads
JOIN unnest(%b::text[], %b::bytea[]) AS wanted (wanted_stream, wanted_sha256)
  ON stream = wanted_stream AND sha256 = wanted_sha256
"""


class _Zstd(threading.local):
    """Compressors are not thread-safe: one of each per thread."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


class Payload(msgspec.Struct, frozen=True):
    """A request body, its digest over the bytes as received, and its compressed form."""

    sha256: bytes
    received_bytes: int
    content: bytes

    @classmethod
    def of(cls, body: bytes) -> "Payload":
        return cls(hashlib.sha256(body).digest(), len(body), _zstd.compressor.compress(body))


def read_payloads(connection: Connection[Any], wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
    """Bodies by (stream, hexadecimal digest); what was erased is missing. Verifies each digest."""
    pairs = list(wanted)
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        cursor.execute(SELECT_PAYLOADS, ([stream for stream, _ in pairs], [bytes.fromhex(d) for _, d in pairs]))
        return {(stream, sha256.hex()): opened(stream, sha256, content) for stream, sha256, content in cursor}


def opened(stream: str, sha256: bytes, content: bytes) -> bytes:
    """The body in a payload. Raises ValueError when it is not the one that its digest names."""
    body = _zstd.decompressor.decompress(content)
    if hashlib.sha256(body).digest() != sha256:
        raise ValueError(f"payload of {stream} does not match its digest")
    return body
