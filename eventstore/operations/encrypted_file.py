"""Files that are encrypted while written and decrypted while read, in constant memory.

A file is a random prefix and blocks of AES-256-GCM. The nonce of a block is the prefix, the block's number and whether
it is the last. Each block is bound to the file's name. A block that was moved, removed, altered or taken from another
file raises `FileAltered`.
"""

import os
from collections.abc import Iterator
from itertools import count
from typing import IO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_PREFIX_BYTES, _NUMBER_BYTES, _TAG_BYTES = 7, 4, 16
BLOCK_BYTES = 1 << 20
"""Bytes of a block before encryption."""


class FileAltered(Exception):
    """The file was altered, or was encrypted with another key."""


def file_key(secret: bytes) -> bytes:
    """Return the key for files, derived from a secret with other uses."""
    return HKDF(SHA256(), length=32, salt=None, info=b"importledger backup").derive(secret)


class EncryptingFile:
    """Writable file that encrypts its content into another file, which is complete after `finish`."""

    def __init__(self, file: IO[bytes], key: bytes, name: str) -> None:
        self._file, self._cipher, self._name = file, AESGCM(key), name.encode()
        self._prefix, self._number = os.urandom(_PREFIX_BYTES), 0
        self._buffer = bytearray()
        file.write(self._prefix)

    def write(self, data: bytes) -> int:
        self._buffer += data
        while len(self._buffer) > BLOCK_BYTES:  # the last block is never empty, except in an empty file
            self._write_block(bytes(self._buffer[:BLOCK_BYTES]), is_last=False)
            del self._buffer[:BLOCK_BYTES]
        return len(data)

    def finish(self) -> None:
        """Write the last block."""
        self._write_block(bytes(self._buffer), is_last=True)

    def _write_block(self, block: bytes, *, is_last: bool) -> None:
        nonce = _nonce(self._prefix, self._number, is_last=is_last)
        self._file.write(self._cipher.encrypt(nonce, block, self._name))
        self._number += 1


class DecryptingFile:
    """Readable file that decrypts an encrypted file. Reading raises `FileAltered`."""

    def __init__(self, file: IO[bytes], key: bytes, name: str) -> None:
        self._blocks, self._rest = _decrypted(file, AESGCM(key), name.encode()), b""

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        block = self._rest or next(self._blocks, b"")
        self._rest = block[size:]
        return block[:size]


def _decrypted(file: IO[bytes], cipher: AESGCM, name: bytes) -> Iterator[bytes]:
    prefix, following = file.read(_PREFIX_BYTES), file.read(BLOCK_BYTES + _TAG_BYTES)
    for number in count():
        block, following = following, file.read(BLOCK_BYTES + _TAG_BYTES)
        try:
            yield cipher.decrypt(_nonce(prefix, number, is_last=not following), block, name)
        except (InvalidTag, ValueError) as error:
            raise FileAltered(f"{name.decode()} is not as it was encrypted") from error
        if not following:
            return


def _nonce(prefix: bytes, number: int, *, is_last: bool) -> bytes:
    return prefix + number.to_bytes(_NUMBER_BYTES) + bytes([is_last])
