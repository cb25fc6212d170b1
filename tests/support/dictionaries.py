"""Payloads of a newer version of the service, compressed with a dictionary that this version does not have."""

import zstandard

from eventstore.log.compression import DICTIONARY_NUMBER

ANOTHER = DICTIONARY_NUMBER + 1


def with_another_dictionary() -> tuple[bytes, bytes]:
    """A body, and the frame that was made of it with the dictionary `ANOTHER`."""
    learned: list[bytes | bytearray | memoryview] = [b'{"name%d": %d}' % (n % 7, n) for n in range(1_000)]
    dictionary = zstandard.train_dictionary(1_024, learned, dict_id=ANOTHER)
    body = bytes(learned[0])
    return body, zstandard.ZstdCompressor(dict_data=dictionary).compress(body)
