"""Encrypted files return the written content, and nothing that was altered."""

import io
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.operations import encrypted_file
from eventstore.operations.encrypted_file import DecryptingFile, EncryptingFile, FileAltered, file_key

KEY = file_key(b"secret")
SMALL_BLOCK = 64


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Use blocks of 64 bytes: tests need several of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encrypted_file, "BLOCK_BYTES", SMALL_BLOCK)
        yield


def encrypted(pieces: list[bytes]) -> bytes:
    file = io.BytesIO()
    encrypting = EncryptingFile(file, KEY, "events")
    for piece in pieces:
        encrypting.write(piece)
    encrypting.finish()
    return file.getvalue()


def decrypted(content: bytes, name: str = "events", key: bytes = KEY, size: int = 50) -> bytes:
    file = DecryptingFile(io.BytesIO(content), key, name)
    return b"".join(iter(lambda: file.read(size), b""))


@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 200))
def test_what_was_written_is_read_back_in_pieces_of_any_size(pieces: list[bytes], size: int) -> None:
    assert decrypted(encrypted(pieces), size=size) == b"".join(pieces)


@pytest.mark.asvs("V11.3.3")
@given(st.binary(max_size=300), st.data())
def test_no_altered_byte_is_read(content: bytes, data: st.DataObject) -> None:
    whole = encrypted([content])
    at = data.draw(st.integers(0, len(whole) - 1))
    altered = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    with pytest.raises(FileAltered):
        decrypted(altered)


@given(st.binary(max_size=300), st.data())
def test_no_cut_is_read(content: bytes, data: st.DataObject) -> None:
    whole = encrypted([content])
    with pytest.raises(FileAltered):
        decrypted(whole[: data.draw(st.integers(0, len(whole) - 1))])


@pytest.mark.parametrize(("name", "key"), [("payloads", KEY), ("events", file_key(b"another"))])
def test_a_file_is_read_under_its_name_and_with_its_key_only(name: str, key: bytes) -> None:
    with pytest.raises(FileAltered):
        decrypted(encrypted([b"content"]), name, key)
