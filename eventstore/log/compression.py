"""Bodies in fewer bytes: zstd, and for small ones a dictionary of what accounts and records have in common.

The dictionary holds the names of the wire, in the order of the shapes and as JSON writes them, and no value of anybody:
zstd's trainer made it of accounts whose values were drawn by chance (decision 25). Each frame says whether it needs it
(RFC 8878, `Dictionary_ID`), so that what was compressed without it is read as ever.

The file is never changed, since nothing that was compressed with it could be read any more. Another dictionary would be
another file with another number, beside this one.
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
"""More than any body has: a few bytes that whoever can write to the database stores must not fill a reader's memory."""
SMALL_BYTES = 16 * 1024
_LEVEL = 1  # 3 is a quarter slower and saves 3 % of the bytes
_SMALL = zstandard.ZstdCompressionParameters.from_level(
    -2, source_size=SMALL_BYTES, hash_log=12, min_match=7, write_dict_id=True
)
"""For bodies of so many bytes, as most are: a table of 16 KiB, which stays in the processor's caches, and matches of
seven bytes, as JSON has. What the dictionary does not have is found by less searching than at level 1."""


class NotCompressed(ValueError):
    """The content is no whole frame."""


class UnknownDictionary(NotCompressed):
    """The frame needs a dictionary that this version does not have; the message says which."""


def compressed(body: bytes) -> bytes:
    """A zstd frame, from which `decompressed` makes the same bytes."""
    return (_own.small_compressor if len(body) <= SMALL_BYTES else _own.compressor).compress(body)


def decompressed(content: bytes) -> bytes:
    """What a frame was made of, with the dictionary or without. Raises NotCompressed, UnknownDictionary.

    A frame of more than MAX_DECOMPRESSED_BYTES is not what the service has stored, and is not decompressed.
    """
    try:
        if zstandard.frame_content_size(content) > MAX_DECOMPRESSED_BYTES:
            raise NotCompressed(f"it has more than {MAX_DECOMPRESSED_BYTES} bytes")
        return _own.decompressor.decompress(content, max_output_size=MAX_DECOMPRESSED_BYTES)
    except zstandard.ZstdError as error:
        raise _reason(content) from error


def _reason(content: bytes) -> NotCompressed:
    """Why a content cannot be read."""
    try:
        number = zstandard.get_frame_parameters(content).dict_id
    except zstandard.ZstdError:
        number = 0
    if number in (0, DICTIONARY_NUMBER):
        return NotCompressed("it is no whole zstd frame")
    return UnknownDictionary(f"it needs dictionary {number}, which this version does not have")


def whole_dictionary(file: Path) -> bytes:
    """The file's content. Raises DamagedInstallation where it is not the one that payloads were compressed with."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DamagedInstallation(f"{file} cannot be read: {error.strerror}. Install this version again.") from error
    if hashlib.sha256(content).hexdigest() != DICTIONARY_SHA256:
        raise DamagedInstallation(f"{file} is not what this version came with. Install this version again.")
    return content


_dictionary = zstandard.ZstdCompressionDict(whole_dictionary(DICTIONARY))  # now: nobody is to find out later


class _Own(threading.local):
    """Compressors of each thread: no two threads may use one at the same time."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.small_compressor = zstandard.ZstdCompressor(compression_params=_SMALL, dict_data=_dictionary)
        self.decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary)


_own = _Own()
