"""Compression of bodies with zstd, for small bodies with a dictionary of frequent text in accounts and records.

The dictionary holds the field names as JSON writes them, and no values of persons: zstd's trainer made it from accounts
with random values (decision 25). Each frame names the dictionary that it needs (RFC 8878, `Dictionary_ID`). The file of
the dictionary must never change, because payloads that were compressed with it would become unreadable. Another
dictionary must be another file with another number.
"""

import hashlib
import threading
from pathlib import Path

import zstandard

from eventstore.errors import DamagedInstallation

DICTIONARY = Path(__file__).with_name("payloads-40001.zdict")
DICTIONARY_NUMBER = 40_001
DICTIONARY_SHA256 = "6b3c401bd330104ba8df7f09af422156f99e5c5246e094b43fa96f5941dd2b09"

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
"""Limit of a decompressed body, larger than any request. A small frame could otherwise fill the reader's memory."""
SMALL_BYTES = 16 * 1024
"""Size up to which bodies are compressed with the dictionary."""
_LEVEL = 1  # level 3 is a quarter slower and saves 3 % of the bytes
_SMALL = zstandard.ZstdCompressionParameters.from_level(
    -2, source_size=SMALL_BYTES, hash_log=12, min_match=7, write_dict_id=True
)
"""Parameters for small bodies: a table of 16 KiB that fits the CPU caches, and matches of seven bytes.

The dictionary holds most repeated text, so less searching than at level 1 is enough.
"""


class NotCompressed(ValueError):
    """The content is not a complete zstd frame, or its decompressed body is too large."""


class UnknownDictionary(NotCompressed):
    """The frame needs a dictionary that this version does not have; the message names it."""


def compressed(body: bytes) -> bytes:
    """Return the body as a zstd frame."""
    return (_thread_local.small_compressor if len(body) <= SMALL_BYTES else _thread_local.compressor).compress(body)


def decompressed(content: bytes) -> bytes:
    """Return the body of a frame. Raises NotCompressed, UnknownDictionary."""
    try:
        if zstandard.frame_content_size(content) > MAX_DECOMPRESSED_BYTES:
            raise NotCompressed(f"it has more than {MAX_DECOMPRESSED_BYTES} bytes when decompressed")
        return _thread_local.decompressor.decompress(content, max_output_size=MAX_DECOMPRESSED_BYTES)
    except zstandard.ZstdError as error:
        raise _reason(content) from error


def _reason(content: bytes) -> NotCompressed:
    """Return the error for content that zstd could not decompress."""
    try:
        number = zstandard.get_frame_parameters(content).dict_id
    except zstandard.ZstdError:
        number = 0
    if number in (0, DICTIONARY_NUMBER):
        return NotCompressed("it is not a complete zstd frame")
    return UnknownDictionary(f"it needs dictionary {number}, which this version does not have")


def verified_dictionary(file: Path) -> bytes:
    """Return the file's content. Raises DamagedInstallation if it is missing or was changed."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DamagedInstallation(f"{file} cannot be read: {error.strerror}. Install this version again.") from error
    if hashlib.sha256(content).hexdigest() != DICTIONARY_SHA256:
        raise DamagedInstallation(f"{file} was changed after its installation. Install this version again.")
    return content


_dictionary = zstandard.ZstdCompressionDict(
    verified_dictionary(DICTIONARY)
)  # read at import, so that a process with a damaged file does not start


class _ThreadLocal(threading.local):
    """Compressors and decompressor of each thread: zstandard's objects must not be used by two threads at once."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.small_compressor = zstandard.ZstdCompressor(compression_params=_SMALL, dict_data=_dictionary)
        self.decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary)


_thread_local = _ThreadLocal()
